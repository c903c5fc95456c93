//! No tracked file may hold a path that exists only on the machine of its author.

use super::{Finding, tree::Tree};

/// In two pieces, so that this file is not a finding itself.
const FOLDERS: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(folder) = FOLDERS.into_iter().find(|folder| holds_absolute(line, folder)) {
                let message = format!("a path below {folder} exists only on one machine");
                findings.push(Finding::at(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether a path starts with this folder; a folder of the same name inside another path is harmless.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !(before.is_alphanumeric() || "_-.~*})>".contains(before)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    #[test]
    fn absolute_paths_fail() {
        for folder in FOLDERS {
            for text in [format!("{folder}x"), format!("see `{folder}x`"), format!("\nfile://{folder}x")] {
                assert_eq!(findings(check, &[("a.md", &text)]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn folders_inside_other_paths_pass() {
        for folder in FOLDERS {
            for text in [
                format!("src{folder}x"),
                format!("~{folder}x"),
                format!("$HOME{folder}x"),
                folder[..5].to_owned(),
            ] {
                assert!(findings(check, &[("a.md", &text)]).is_empty(), "{text}");
            }
        }
    }
}
