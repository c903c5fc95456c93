//! What the rules look at: the tracked files, the manifests as cargo reads them, and the ratchet.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::source::Source;
use crate::cargo;

pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// The output of `cargo metadata --no-deps`.
    pub(super) metadata: Value,
    /// The text of `xtask/ratchet.txt`.
    pub(super) ratchet: String,
}

pub(super) struct File {
    /// From the root of the repository, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// Present for Rust files; an error when the file cannot be split into tokens.
    pub(super) source: Option<Result<Source, String>>,
}

pub(super) const RATCHET: &str = "xtask/ratchet.txt";

impl Tree {
    pub(super) fn load() -> Result<Self, String> {
        let root = cargo::root();
        let mut files = Vec::new();
        for path in tracked(root).map_or_else(|| walked(root), Ok)? {
            match fs::read(root.join(&path)) {
                // What is not text has no lines to complain about.
                Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| File::new(path, text))),
                // Deleted, or a link to a folder: git still lists it, there is nothing to read.
                Err(_) => continue,
            }
        }
        let ratchet =
            fs::read_to_string(root.join(RATCHET)).map_err(|error| format!("{RATCHET}: {error}"))?;
        Ok(Self { files, metadata: cargo::metadata()?, ratchet })
    }

    /// The Rust files that could be read, with their tokens.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| match &file.source {
            Some(Ok(source)) => Some((file, source)),
            _ => None,
        })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File::new((*path).to_owned(), (*text).to_owned()));
        Self { files: files.collect(), metadata: Value::Null, ratchet: String::new() }
    }
}

impl File {
    fn new(path: String, text: String) -> Self {
        let source = path.ends_with(".rs").then(|| Source::parse(&text));
        Self { path, text, source }
    }

    /// Whether this is Rust code of a crate, and in which folder of it.
    pub(super) fn folder_in_crate(&self) -> Option<&str> {
        let mut parts = self.path.split('/');
        (parts.next() == Some("crates") && self.path.ends_with(".rs")).then(|| parts.nth(1))?
    }
}

/// Absent when git cannot tell: outside a clone, or before anything is tracked.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = listing.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
            let kind = entry.file_type().map_err(|error| format!("{}: {error}", folder.display()))?;
            if kind.is_dir()
                && ![".git", "target", "node_modules"].iter().any(|&skip| entry.file_name() == skip)
            {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let inside = path.strip_prefix(root).expect("the walk starts at the root");
                paths.push(inside.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_this_file_and_no_git_objects() {
        let paths = walked(cargo::root()).unwrap();
        assert!(paths.iter().any(|path| path == "xtask/src/tidy/tree.rs"));
        assert!(!paths.iter().any(|path| path.starts_with(".git/")));
    }

    #[test]
    fn the_folder_in_a_crate_is_known() {
        let folder =
            |path: &str| File::new(path.to_owned(), String::new()).folder_in_crate().map(str::to_owned);
        assert_eq!(folder("crates/windlass/src/cli/output.rs").as_deref(), Some("src"));
        assert_eq!(folder("crates/windlass/tests/it/main.rs").as_deref(), Some("tests"));
        assert_eq!(folder("crates/windlass/src/notes.md"), None);
        assert_eq!(folder("xtask/src/main.rs"), None);
    }
}
