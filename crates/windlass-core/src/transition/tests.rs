//! The whole state × input table as one reviewed snapshot, and random walks that look for a way around it.
