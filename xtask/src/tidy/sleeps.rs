//! A test that sleeps for luck is slow when it works and wrong when it does not. One that must sleep says why, in a
//! comment on the same line or just above that starts with `// sleep:`.

use super::tree::{File, Tree};
use super::{Finding, source::Source};

const SLEEPS: [[&str; 2]; 2] = [["thread", "sleep"], ["time", "sleep"]];
const REASON: &str = "// sleep:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in
        tree.sources().filter(|(file, _)| matches!(file.folder_in_crate(), Some("src" | "tests")))
    {
        let lines: Vec<&str> = file.text.lines().collect();
        let in_test = |line: &usize| is_test_file(file) || is_in_test_module(&lines, *line);
        for line in sleeping_lines(source).filter(in_test).filter(|line| !has_reason(&lines, *line)) {
            findings.push(unexplained(file, line));
        }
    }
    findings
}

fn is_test_file(file: &File) -> bool {
    file.folder_in_crate() == Some("tests")
        || ["/tests.rs", "/tests/", "/conformance/"].iter().any(|part| file.path.contains(part))
}

/// Tests stand at the end of a file, behind their attribute.
fn is_in_test_module(lines: &[&str], line: usize) -> bool {
    let opens_tests = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].ends_with('{');
    lines[..line - 1].windows(2).any(opens_tests)
}

fn unexplained(file: &File, line: usize) -> Finding {
    let message =
        format!("wait for a signal, or give the reason for sleeping in a `{REASON} …` comment above");
    Finding::at(&file.path, line, message)
}

fn sleeping_lines(source: &Source) -> impl Iterator<Item = usize> {
    let is_sleep = |path: &super::source::Path| SLEEPS.iter().any(|sleep| path.ends_with(sleep));
    let imported = source.paths.iter().any(|path| !path.called && is_sleep(path));
    let calls = source.paths.iter().filter(|path| path.called);
    calls.filter(move |path| is_sleep(path) || (imported && path.segments == ["sleep"])).map(|path| path.line)
}

/// The comment above may be several lines long. Lines are counted from one.
fn has_reason(lines: &[&str], line: usize) -> bool {
    let gives_reason =
        |text: &str| text.split_once(REASON).is_some_and(|(_, reason)| !reason.trim().is_empty());
    let above = lines[..line - 1].iter().rev().take_while(|text| text.trim_start().starts_with("//"));
    gives_reason(lines[line - 1]) || above.into_iter().any(|text| gives_reason(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const IN_TESTS: &str = "crates/windlass/tests/it/main.rs";

    #[test]
    fn sleeping_without_a_reason_fails() {
        for text in [
            "fn f() { std::thread::sleep(d); }",
            "async fn f() { tokio::time::sleep(d).await; }",
            "use tokio::time::sleep;\nasync fn f() { sleep(d).await; }",
            "use std::{thread, time};\nfn f() {\n// A long pause.\nthread::sleep(d);\n}",
            "fn f() {\n// sleep:\nstd::thread::sleep(d); }",
            "fn f() {\n// sleep: too far away\n\nstd::thread::sleep(d); }",
        ] {
            assert_eq!(findings(check, &[(IN_TESTS, text)]).len(), 1, "{text}");
            assert_eq!(findings(check, &[("crates/windlass/src/tests.rs", text)]).len(), 1, "{text}");
            let beside_code = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(
                findings(check, &[("crates/windlass/src/server.rs", &beside_code)]).len(),
                1,
                "{text}"
            );
            assert!(findings(check, &[("crates/windlass/src/server.rs", text)]).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_reason_or_no_sleep_passes() {
        for text in [
            "fn f() { std::thread::sleep(d); // sleep: the kernel gives no signal\n}",
            "fn f() {\n    // sleep: the kernel gives no signal\n    // for this.\n    std::thread::sleep(d);\n}",
            "fn sleep(d: Duration) {}\nfn f() { sleep(d); clock.sleep(d); }",
            "use tokio::time::sleep;",
        ] {
            assert!(findings(check, &[(IN_TESTS, text)]).is_empty(), "{text}");
        }
        assert!(findings(check, &[("xtask/src/main.rs", "fn f() { std::thread::sleep(d); }")]).is_empty());
    }
}
