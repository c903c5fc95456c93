//! The test command of the README: on a machine with only the Rust toolchain it installs the rest and runs
//! everything that must hold, stopping at the first section that fails.

use crate::cargo::{cargo, run as run_command};
use crate::sections::section;
use crate::{dashboard, prove, tools};

pub(crate) fn run() -> Result<(), String> {
    section("tools", || {
        tools::provide();
        Ok(())
    })?;
    section("build", || run_command(&mut cargo(["test", "--quiet", "--workspace", "--no-run"])))?;
    section("tests", || run_command(&mut cargo(["test", "--quiet", "--workspace"])))?;
    section("dashboard", dashboard::run)?;
    section("proofs", || prove::run(&prove::Request { short: true, ..Default::default() }))
}
