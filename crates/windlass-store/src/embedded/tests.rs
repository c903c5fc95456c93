//! Tests of what only this store has: recovery, checkpoints, windows larger than memory.
