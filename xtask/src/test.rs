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
    section("tests", || {
        let tests = &mut cargo(["test", "--quiet", "--workspace"]);
        run_command(tests.env("RUST_TEST_THREADS", threads().to_string()))
    })?;
    section("dashboard", dashboard::run)?;
    section("proofs", || prove::run(&prove::Request { short: true, debug: true, ..Default::default() }))
}

/// Tests that run at once: most of them wait for a broker of their own, so there is room for more than one on every core.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}
