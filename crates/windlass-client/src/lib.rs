//! Producer and worker libraries for Windlass.
