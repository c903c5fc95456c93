//! `windlass-core` decides from its arguments alone. The time, random numbers and everything else that differs from
//! one run to the next are handed in, or a replay of the log would not reach the same state.

use super::{Finding, tree::Tree};

const CORE_SOURCES: &str = "crates/windlass-core/src/";

/// Forbidden wherever they stand in a path.
const ANYWHERE: [&[&str]; 9] = [
    &["SystemTime", "now"],
    &["Instant", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
    &["thread_rng"],
    &["std", "time", "Instant"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "env"],
];

/// Forbidden as the crate that a path begins with.
const CRATES: [&str; 2] = ["tokio", "rand"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources().filter(|(file, _)| file.path.starts_with(CORE_SOURCES)) {
        for path in &source.paths {
            // A variable may be called `rand`: only a longer path names the crate.
            let of_crate = path.segments.len() > 1 && CRATES.contains(&path.segments[0].as_str());
            if of_crate || ANYWHERE.iter().any(|forbidden| path.contains(forbidden)) {
                let message =
                    format!("`{}` in core: hand the value in as an argument", path.segments.join("::"));
                findings.push(Finding::at(&file.path, path.line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const IN_CORE: &str = "crates/windlass-core/src/task.rs";

    #[test]
    fn the_world_outside_is_found() {
        for text in [
            "fn f() { SystemTime::now(); }",
            "fn f() { std::time::Instant::now(); }",
            "fn f() { let now = jiff::Timestamp::now(); }",
            "fn f() { Zoned::now() }",
            "use rand::Rng;",
            "fn f() { thread_rng() }",
            "use std::time::{Duration, Instant};",
            "use std::{fmt, fs::File};",
            "use std::net::IpAddr;",
            "fn f() { std::env::var(\"X\") }",
            "#[tokio::test] async fn f() {}",
        ] {
            assert_eq!(findings(check, &[(IN_CORE, text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn arguments_comments_and_other_crates_pass() {
        for text in [
            "fn f(now: Timestamp, rand: u64) -> Timestamp { now + rand }",
            "/// Not `SystemTime::now`.\nfn f() {} // std::fs\n",
            "use std::time::Duration;",
        ] {
            assert!(findings(check, &[(IN_CORE, text)]).is_empty(), "{text}");
        }
        assert!(findings(check, &[("crates/windlass-broker/src/clock.rs", "use std::fs;")]).is_empty());
    }
}
