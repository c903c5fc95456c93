//! The command line: `windlass-prove [NAME…] [--short] [--seed N] [--list]`.

use std::path::PathBuf;

use lexopt::prelude::{Long, Value, ValueExt};

use crate::child::Worker;
use crate::library::Library;
use crate::proof::{ALL, Run};

#[derive(Debug)]
pub(crate) enum Request {
    List,
    Prove {
        names: Vec<String>,
        run: Run,
    },
    /// Not for people: the worker process that some proofs start.
    Worker(Worker),
    /// Nor this: a worker of library mode.
    Library(Library),
}

pub(crate) fn read() -> Result<Request, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let (mut names, mut short, mut list) = (Vec::new(), false, false);
    let mut seed = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Value(word) if word == "child-worker" => return Worker::read(&mut parser).map(Request::Worker),
            Value(word) if word == "child-library" => {
                return Library::read(&mut parser).map(Request::Library);
            }
            Value(word) => names.push(known(&word.string()?)?),
            Long("short") => short = true,
            Long("long") => short = false,
            Long("list") => list = true,
            Long("seed") => seed = Some(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    if list {
        return Ok(Request::List);
    }
    let Some(binary) = std::env::var_os("WINDLASS_BIN").map(PathBuf::from) else {
        return Err("WINDLASS_BIN must name the windlass program; `cargo xtask prove` sets it".into());
    };
    let binary = std::path::absolute(&binary).unwrap_or(binary);
    Ok(Request::Prove { names, run: Run { seed: seed.unwrap_or_else(rand::random), short, binary } })
}

/// `G1`, `g1` and `g01` name the same proof.
fn known(word: &str) -> Result<String, String> {
    let lower = word.to_ascii_lowercase();
    let number = lower.strip_prefix('g').unwrap_or(&lower).trim_start_matches('0');
    let name = format!("G{number}");
    let exists = ALL.iter().any(|proof| proof.name == name);
    if exists { Ok(name) } else { Err(format!("there is no proof {word}; --list shows them")) }
}
