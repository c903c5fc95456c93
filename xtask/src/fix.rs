//! The fixer: everything `verify` can complain about that a machine can mend.

use crate::cargo::{cargo, run as run_command};
use crate::sections::section;
use crate::tidy;

pub(crate) fn run() -> Result<(), String> {
    // A tree that does not compile is still formatted.
    let clippy = section("clippy", || {
        run_command(&mut cargo([
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--fix",
            "--allow-dirty",
            "--allow-staged",
        ]))
    });
    // After clippy, whose suggestions are not formatted.
    section("fmt", || run_command(&mut cargo(["fmt", "--all"])))?;
    // Last, because formatting changes the number of lines.
    section("ratchet", tidy::lower_ratchet)?;
    clippy
}
