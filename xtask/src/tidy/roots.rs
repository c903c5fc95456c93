//! A crate says what it is for where its reader starts: at the top of its root module.

use super::{Finding, tree::Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.files.iter().filter(|file| is_root(&file.path));
    let silent = roots.filter(|file| {
        let first = file.text.lines().find(|line| !line.trim().is_empty());
        first.and_then(|line| line.strip_prefix("//!")).is_none_or(|words| words.trim().is_empty())
    });
    silent
        .map(|file| {
            Finding::in_file(&file.path, "open it with a `//!` comment that says what the crate is for")
        })
        .collect()
}

fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", "lib.rs" | "main.rs"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    #[test]
    fn silent_roots_fail() {
        for text in ["", "fn main() {}\n//! Late.", "//!\nfn main() {}", "// Not a doc comment."] {
            assert_eq!(findings(check, &[("crates/windlass/src/main.rs", text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn speaking_roots_and_other_files_pass() {
        assert!(findings(check, &[("crates/windlass-core/src/lib.rs", "\n//! The domain.\n")]).is_empty());
        assert!(findings(check, &[("crates/windlass-core/src/task.rs", "fn f() {}")]).is_empty());
        assert!(findings(check, &[("crates/windlass/tests/it/main.rs", "fn f() {}")]).is_empty());
    }
}
