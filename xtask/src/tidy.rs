//! House rules that the compiler and clippy do not know, each a named function over the tracked files.
//!
//! Rules look at tokens, not at text: a word in a comment or in a string is never a finding unless the rule is about
//! comments, and `use std::{fs, net}` is seen as what it is. Only tracked files count, so scratch files in the tree
//! do not disturb anybody.

mod clock;
mod direction;
mod length;
mod machine_paths;
mod names;
mod phrases;
mod roots;
mod sleeps;
mod source;
mod tree;

use std::fmt;

pub(crate) use length::lower as lower_ratchet;
use tree::Tree;

struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: [Rule; 9] = [
    Rule { name: "readable-source", check: source::check },
    Rule { name: "crate-direction", check: direction::check },
    Rule { name: "pure-core", check: clock::check },
    Rule { name: "file-length", check: length::check },
    Rule { name: "names", check: names::check },
    Rule { name: "phrases", check: phrases::check },
    Rule { name: "machine-paths", check: machine_paths::check },
    Rule { name: "sleeps", check: sleeps::check },
    Rule { name: "module-roots", check: roots::check },
];

/// Where a rule is broken and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Absent when the whole file is meant.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }

    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

pub(crate) fn run() -> Result<(), String> {
    let tree = Tree::load()?;
    let mut count = 0;
    for rule in &RULES {
        for finding in (rule.check)(&tree) {
            println!("{finding} [{}]", rule.name);
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        1 => Err("1 finding".to_owned()),
        _ => Err(format!("{count} findings")),
    }
}

/// What a rule says about these files, one rendered finding per line.
#[cfg(test)]
fn findings(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files)).iter().map(Finding::to_string).collect()
}
