//! The command line of `cargo xtask`.

use lexopt::prelude::*;

use crate::prove;
use crate::verify::Gate;

pub(crate) const USAGE: &str = "\
Usage: cargo xtask <command>

  verify [--only GATE]…                          check formatting, lints, docs and tidy rules; changes nothing
                                                 (gates: fmt, clippy, doc, tidy)
  fix                                            format, apply lint suggestions, lower the length ratchet
  test                                           install what is missing, build, run all tests and the short proofs
  valkey                                         install Valkey beside the build and run the tests of the Redis store on it
  prove [NAME…] [--short] [--seed N] [--list]    run the proofs of the guarantees against the release binary";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    /// The gates to run; all of them when none is named.
    Verify(Vec<Gate>),
    Fix,
    Test,
    Valkey,
    Prove(prove::Request),
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let Some(first) = parser.next()? else { return Ok(Command::Help) };
    match first {
        Short('h') | Long("help") => Ok(Command::Help),
        Value(name) => match name.string()?.as_str() {
            "help" => Ok(Command::Help),
            "verify" => parse_verify(&mut parser),
            "fix" => parse_bare(&mut parser, Command::Fix),
            "test" => parse_bare(&mut parser, Command::Test),
            "valkey" => parse_bare(&mut parser, Command::Valkey),
            "prove" => parse_prove(&mut parser),
            other => Err(format!("there is no command `{other}`").into()),
        },
        other => Err(other.unexpected()),
    }
}

fn parse_bare(parser: &mut lexopt::Parser, command: Command) -> Result<Command, lexopt::Error> {
    match parser.next()? {
        None => Ok(command),
        Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(other) => Err(other.unexpected()),
    }
}

fn parse_verify(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut gates = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("only") => {
                let gate = parser.value()?.parse()?;
                if !gates.contains(&gate) {
                    gates.push(gate);
                }
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Verify(gates))
}

fn parse_prove(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut request = prove::Request::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("short") => request.short = true,
            Long("list") => request.list = true,
            Long("debug") => request.debug = true,
            Long("seed") => request.seed = Some(parser.value()?.parse()?),
            Value(name) => request.names.push(name.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Prove(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Command, String> {
        parse(lexopt::Parser::from_args(line.split_whitespace())).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_are_understood() {
        assert_eq!(check(""), Ok(Command::Help));
        assert_eq!(check("verify --help"), Ok(Command::Help));
        assert_eq!(check("fix"), Ok(Command::Fix));
        assert_eq!(check("test"), Ok(Command::Test));
        assert_eq!(check("valkey"), Ok(Command::Valkey));
        assert_eq!(check("verify"), Ok(Command::Verify(vec![])));
        assert_eq!(
            check("verify --only tidy --only=doc --only tidy"),
            Ok(Command::Verify(vec![Gate::Tidy, Gate::Doc]))
        );
        assert_eq!(
            check("prove kill --short --seed 7 power --list --debug"),
            Ok(Command::Prove(prove::Request {
                names: vec!["kill".to_owned(), "power".to_owned()],
                short: true,
                seed: Some(7),
                list: true,
                debug: true,
            }))
        );
    }

    #[test]
    fn mistakes_are_refused() {
        for line in [
            "check",
            "--short",
            "fix now",
            "verify tidy",
            "verify --only",
            "verify --only spelling",
            "prove --seed x",
        ] {
            assert!(check(line).is_err(), "`{line}` was accepted");
        }
    }
}
