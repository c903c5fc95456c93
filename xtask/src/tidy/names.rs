//! Names say what a thing does. A module that can only be called after its shape is in the wrong place.

use super::{Finding, tree::Tree};

const EMPTY_NAMES: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "misc", "manager"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.path.rsplit('/').next() == Some("mod.rs") {
            findings.push(Finding::in_file(&file.path, "write `name.rs` beside `name/` instead of mod.rs"));
        }
        for part in file.path.split('/').filter(|part| says_nothing(stem(part))) {
            findings
                .push(Finding::in_file(&file.path, format!("`{part}` says nothing: name it by its role")));
        }
    }
    for (file, source) in tree.sources() {
        for module in source.modules.iter().filter(|module| says_nothing(&module.name)) {
            let message = format!("module `{}` says nothing: name it by its role", module.name);
            findings.push(Finding::at(&file.path, module.line, message));
        }
    }
    findings
}

fn stem(part: &str) -> &str {
    part.split_once('.').map_or(part, |(stem, _)| stem)
}

/// `task_manager` is no better than `manager`.
fn says_nothing(name: &str) -> bool {
    name.rsplit(['_', '-'])
        .next()
        .is_some_and(|last| EMPTY_NAMES.contains(&last.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    #[test]
    fn empty_names_fail() {
        for path in [
            "a/mod.rs",
            "a/utils.rs",
            "a/helpers/b.rs",
            "tests/common.rs",
            "a/task_manager.rs",
            "web/Misc.ts",
        ] {
            assert_eq!(findings(check, &[(path, "")]).len(), 1, "{path}");
        }
        assert_eq!(findings(check, &[("a.rs", "\nmod test_helpers {}")]).len(), 1);
    }

    #[test]
    fn names_by_role_pass() {
        for path in ["a/model.rs", "a/promoter.rs", "a/common_prefix.rs", ".gitignore"] {
            assert!(findings(check, &[(path, "mod lease; // mod utils;")]).is_empty(), "{path}");
        }
    }
}
