//! Automation for people who work on Windlass: one read-only gate, one fixer, one test command, one door to the
//! proofs. Started as `cargo xtask …`.
//!
//! Nothing here is shipped. It stays small and light on dependencies because a clean clone compiles it first.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing to a terminal is what this program is for"
)]

mod args;
mod cargo;
mod dashboard;
mod fix;
mod prove;
mod sections;
mod test;
mod tidy;
mod tools;
mod valkey;
mod verify;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let command = match args::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            println!("{}", args::USAGE);
            Ok(())
        }
        Command::Verify(gates) => verify::run(&gates),
        Command::Fix => fix::run(),
        Command::Test => test::run(),
        Command::Valkey => valkey::run(),
        Command::Prove(request) => prove::run(&request),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
