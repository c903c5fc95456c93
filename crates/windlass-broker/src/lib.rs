//! The verbs and loops of a broker as plain Rust, with no network.
