//! Settings through the real binary.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::cli::process::{Done, command};

fn show(file: &str, words: &[&str], env: &[(&str, &str)]) -> Done {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("windlass.toml"), file).unwrap();
    let mut command = command(words);
    command.current_dir(dir.path()).envs(env.iter().copied()).output().unwrap().into()
}

#[test]
fn every_value_names_its_origin() {
    let file = "[queue]\nlease = \"45s\"\n[log]\nformat = \"json\"\n";
    let env = [("WINDLASS_LOG__FORMAT", "pretty"), ("WINDLASS_STORE__DURABILITY", "interval:50ms")];
    let done = show(file, &["config", "show", "-o", "json"], &env);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let all: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    let of = |key: &str| {
        let entry = all.iter().find(|entry| entry["key"] == key).unwrap();
        (entry["value"].as_str().unwrap().to_owned(), entry["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("queue.lease"), ("45s".into(), "windlass.toml".into()));
    assert_eq!(of("log.format"), ("pretty".into(), "environment WINDLASS_LOG__FORMAT".into()));
    assert_eq!(
        of("store.durability"),
        ("interval:50ms".into(), "environment WINDLASS_STORE__DURABILITY".into())
    );
    assert_eq!(of("server.http_addr"), ("127.0.0.1:8080".into(), "default".into()));
}

#[test]
fn mistakes_stop_the_start_and_are_named() {
    type Env = &'static [(&'static str, &'static str)];
    let cases: &[(&str, Env, &str)] = &[
        ("[server]\nhttp_adr = \"x\"", &[], "unknown key server.http_adr; did you mean server.http_addr?"),
        ("[queue]\nlease = true", &[], "windlass.toml: queue.lease = \"true\": expected a duration"),
        ("[store]\nsegment_bytes = {}", &[], "expected a single value, found table"),
        ("[store]\nsegment_bytes = \"1\"", &[], "store.segment_bytes = \"1\": expected at least 64KiB"),
        ("not toml", &[], "windlass.toml: "),
        ("", &[("WINDLASS_QUEUE__LEESE", "1s")], "did you mean queue.lease?"),
        ("", &[("WINDLASS_QUEUE__LEASE_FILE", "/nonexistent")], "No such file"),
        ("\"a\\u001b[2J\" = 1", &[], "a\\u{1b}[2J is outside of any section"),
    ];
    for (file, env, told) in cases {
        for words in [&["config", "check"][..], &["serve", "--store", "memory", "--http-addr", "127.0.0.1:0"]]
        {
            let done = show(file, words, env);
            assert_eq!(done.code, 2, "{file:?}: {}", done.stderr);
            assert!(done.stderr.contains(told), "{file:?}: {}", done.stderr);
            assert!(!done.stderr.contains('\u{1b}'), "{:?}", done.stderr);
        }
    }
    assert_eq!(show("", &["config", "check"], &[]).code, 0);
    assert_eq!(show("", &["config", "check", "--config", "missing.toml"], &[]).code, 2);
}

#[test]
fn two_files_are_one_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let check = |words: &[&str]| -> Done { command(words).current_dir(dir.path()).output().unwrap().into() };
    std::fs::write(dir.path().join("windlass.yaml"), "queue:\n  lease: 45s\n").unwrap();
    let shown = check(&["config", "show"]);
    assert!(shown.stdout.contains("45s") && shown.stdout.contains("windlass.yaml"), "{}", shown.stdout);
    std::fs::write(dir.path().join("windlass.toml"), "").unwrap();
    let refused = check(&["config", "check"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("windlass.toml and windlass.yaml are both here"), "{}", refused.stderr);
    assert_eq!(check(&["config", "check", "--config", "windlass.yaml"]).code, 0);
}
