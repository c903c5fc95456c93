//! The door to the proofs: builds the binary and hands it to `windlass-prove`, which tries to break it. By hand that is the
//! release binary; the short form of the test command takes the one that its tests have just built, with its overflow checks and
//! debug assertions, because optimizing it once more takes longer than all proofs together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, debug_binary, release_binary, root, run as run_command};

/// Which proofs to run and how; passed on to `windlass-prove` word for word.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Empty means all.
    pub(crate) names: Vec<String>,
    pub(crate) short: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) list: bool,
    /// With the binary of the tests.
    pub(crate) debug: bool,
}

pub(crate) fn run(request: &Request) -> Result<(), String> {
    if !present(root())? {
        println!("there are no proofs yet: crates/prove does not exist");
        return Ok(());
    }
    let mut prove = match request.debug {
        true => with_tests()?,
        false => cargo(["run", "--quiet", "--release", "-p", "windlass-prove", "--"]),
    };
    prove.args(request.arguments());
    if !request.list && !request.debug {
        run_command(&mut cargo(["build", "--quiet", "--release", "-p", "windlass"]))?;
        prove.env("WINDLASS_BIN", built(release_binary()?)?);
    }
    run_command(&mut prove)
}

/// The programs that are built with the tests. In a build of their own they would be built anew with all they depend on, because
/// tests ask more of some dependencies than programs do.
fn with_tests() -> Result<Command, String> {
    run_command(&mut cargo(["test", "--quiet", "--workspace", "--no-run"]))?;
    let mut prove = Command::new(built(debug_binary("windlass-prove")?)?);
    prove.current_dir(root()).env("WINDLASS_BIN", built(debug_binary("windlass")?)?);
    Ok(prove)
}

fn built(binary: PathBuf) -> Result<PathBuf, String> {
    match binary.is_file() {
        true => Ok(binary),
        false => Err(format!("the build left no binary at {}", binary.display())),
    }
}

impl Request {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = self.names.clone();
        arguments.extend(self.short.then(|| "--short".to_owned()));
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        arguments.extend(self.list.then(|| "--list".to_owned()));
        arguments
    }
}

/// Whether the proofs exist. Once the documents promise them, their absence is a failure: otherwise a lost crate would
/// look like a passing run.
fn present(root: &Path) -> Result<bool, String> {
    if root.join("crates/prove/Cargo.toml").is_file() {
        return Ok(true);
    }
    let promising = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].into_iter().find(|document| {
        fs::read_to_string(root.join(document)).is_ok_and(|text| text.contains("cargo xtask prove"))
    });
    match promising {
        Some(document) => Err(format!("{document} promises proofs, but crates/prove does not exist")),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_passed_on_whole() {
        let request =
            Request { names: vec!["kill".to_owned()], short: true, seed: Some(9), list: true, debug: true };
        assert_eq!(request.arguments(), ["kill", "--short", "--seed", "9", "--list"]);
        assert!(Request::default().arguments().is_empty());
    }

    #[test]
    fn promised_proofs_must_exist() {
        let root = std::env::temp_dir().join(format!("xtask-prove-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        assert_eq!(present(&root), Ok(false));
        fs::write(root.join("README.md"), "Run `cargo xtask prove`.").unwrap();
        assert!(present(&root).unwrap_err().contains("README.md promises proofs"));
        fs::create_dir_all(root.join("crates/prove")).unwrap();
        fs::write(root.join("crates/prove/Cargo.toml"), "").unwrap();
        assert_eq!(present(&root), Ok(true));
        fs::remove_dir_all(&root).unwrap();
    }
}
