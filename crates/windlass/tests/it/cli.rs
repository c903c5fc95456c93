//! The command line against the real binary: help, exit codes, bad input, and a first task under `windlass dev`.

pub(crate) mod process;

use process::{Dev, run};

/// Every command, by its words.
const COMMANDS: &[&str] = &[
    "",
    "dev",
    "serve",
    "submit",
    "task",
    "task list",
    "task get",
    "task retry",
    "task cancel",
    "task delete",
    "task watch",
    "task attempts",
    "task explain",
    "queue",
    "queue list",
    "queue get",
    "queue pause",
    "queue resume",
    "queue purge",
    "dlq",
    "dlq list",
    "dlq retry",
    "dlq clear",
    "limit",
    "limit list",
    "limit get",
    "limit set",
    "limit remove",
    "schedule",
    "schedule list",
    "schedule get",
    "schedule add",
    "schedule remove",
    "schedule run",
    "schedule pause",
    "schedule resume",
    "schedule next",
    "schedule fires",
    "worker",
    "worker list",
    "worker get",
    "worker pause",
    "worker resume",
    "worker exec",
    "events",
    "events tail",
    "config",
    "config show",
    "config check",
    "migrate",
    "doctor",
    "completions",
    "man",
];

#[test]
fn help_fits_a_terminal_and_groups_start_with_examples() {
    for command in COMMANDS {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let done = run(&words);
        assert_eq!(done.code, 0, "{command}: {}", done.stderr);
        for line in done.stdout.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        let has_examples = words.len() <= 2 && !matches!(*command, "man") || *command == "worker exec";
        assert!(!has_examples || done.stdout.starts_with("Examples:"), "{command}: {}", done.stdout);
    }
}

#[test]
fn top_level_help_is_as_agreed() {
    insta::assert_snapshot!(run(&["--help"]).stdout);
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    // Arguments, what the message must say.
    let cases: &[(&[&str], &str)] = &[
        (&["frobnicate"], "unrecognized subcommand"),
        (&["submit"], "<TYPE>"),
        (&["submit", "../etc"], "may contain only"),
        (&["submit", "echo", "{not json"], "the payload is not JSON"),
        (&["submit", "echo", "[1] 2"], "the payload is not JSON"),
        (&["submit", "echo", "1", "--priority", "256"], "must be 0-255"),
        (&["submit", "echo", "1", "--priority", "urgent"], "must be 0-255"),
        (&["submit", "echo", "1", "--delay", "-5s"], "expected a duration"),
        (&["submit", "echo", "1", "--delay", "soon"], "expected a duration"),
        (&["submit", "echo", "1", "--delay", "9999999d"], "expected at most ten years"),
        (&["submit", "echo", "1", "--id", "a b"], "may contain only"),
        (&["submit", "echo", "1", "--queue", "\u{1b}[31m"], "may contain only"),
        (&["submit", "echo", "1", "--server", "ftp://x"], "must begin with http"),
        (&["submit", "echo", "1", "--server", "not a url"], "not a url"),
        (&["task", "get", "x/y"], "may contain only"),
        (&["task", "get", ".."], "cannot be part of an address"),
        (&["task", "list", "--limit", "many"], "invalid value"),
        (&["queue", "get", ""], "must not be empty"),
        (&["dlq", "retry", "an-id", "--queue", "mail"], "cannot be used with"),
        (&["worker", "exec", "--type", "x"], "<PROGRAM>"),
        (&["worker", "exec", "--type", "x", "--concurrency", "0", "--", "true"], "0 is not in"),
        (&["worker", "exec", "--type", "x", "--queue", "a=0", "--", "true"], "the weight must be"),
        (&["serve", "--http-addr", "0.0.0.0:0", "--store", "memory"], "no authentication"),
        (&["dev", "--http-addr", "0.0.0.0:0", "--store", "memory"], "loopback only"),
        (&["serve", "--tcp-addr", "0.0.0.0:0", "--store", "memory"], "no authentication"),
        (&["dev", "--tcp-addr", "0.0.0.0:0", "--store", "memory"], "loopback only"),
        (&["serve", "--tcp-addr", "here", "--store", "memory"], "expected an address like"),
        (&["serve", "--store", "kafka://localhost"], "embedded, memory and redis only"),
        (&["serve", "--http-addr", "here"], "expected an address"),
        (&["task", "list", "-o", "yaml"], "invalid value"),
        (&["completions", "cmd"], "invalid value"),
    ];
    for (words, told) in cases {
        let done = run(words);
        assert_eq!(done.code, 2, "{words:?}: {} {}", done.stdout, done.stderr);
        assert!(done.stderr.contains(told), "{words:?}: {}", done.stderr);
        assert!(
            !done.stderr.contains('\u{1b}'),
            "{words:?} reached the terminal as it came: {:?}",
            done.stderr
        );
        assert_eq!(done.stdout, "", "{words:?}");
    }
}

#[test]
fn no_broker_is_exit_code_6() {
    let done = run(&["queue", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(done.code, 6, "{}", done.stderr);
    assert!(done.stderr.contains("cannot reach the broker"), "{}", done.stderr);
}

#[test]
fn completions_and_manual_are_printed() {
    assert!(run(&["completions", "bash"]).stdout.contains("_windlass"));
    assert!(run(&["man"]).stdout.contains(".TH windlass"));
}

#[test]
fn a_first_task_runs_under_dev() {
    let dev = Dev::start(&["--store", "memory"]);
    let done = dev.run(&["submit", "echo", r#"{"hello":"world"}"#, "--wait"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "{\"hello\":\"world\"}\n"), "{}", done.stderr);
    assert!(done.stderr.contains("default/echo  waited "), "{}", done.stderr);
    let whole = dev.run(&["submit", "echo", "[1,2]", "--wait", "-o", "json"]);
    let task: serde_json::Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!((task["state"].as_str(), task["result"].to_string()), (Some("completed"), "[1,2]".into()));
    assert_eq!(dev.run(&["submit", "echo", "-5", "--wait"]).stdout, "-5\n");
    assert_eq!(dev.stop(), Some(0), "a signal ends it well");
}

#[test]
fn a_submit_says_when_how_long_and_what_goes_with_it() {
    let dev = Dev::start(&["--store", "memory"]);
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    // About five years from now.
    let year = 1975 + since_1970.as_secs() / 31_556_952;
    let (at, until) = (format!("{year}-01-31T08:00:00Z"), format!("{year}-01-31T09:00:00Z"));
    for (wire, id) in [(&["--rest"][..], "r1"), (&[], "g1")] {
        let words = [
            &["submit", "nobody", "1", "--id", id, "--at", &at, "--retention", "2h"][..],
            &["--expires-at", &until, "--metadata", "team=a", "--metadata", "note=x=y"],
            &["--max-crashes", "9", "-o", "json"],
            wire,
        ]
        .concat();
        let done = dev.run(&words);
        let task: serde_json::Value = serde_json::from_str(&done.stdout).expect(&done.stderr);
        assert_eq!((&task["state"], &task["max_crashes"]), (&"scheduled".into(), &9.into()), "{task}");
        assert_eq!(task["metadata"], serde_json::json!({"team": "a", "note": "x=y"}));
        assert_eq!(task["retention_seconds"].as_f64(), Some(7200.0));
        assert!(task["scheduled_at"].as_str().unwrap().starts_with(at.trim_end_matches('Z')), "{task}");
        assert!(task["expires_at"].as_str().unwrap().starts_with(until.trim_end_matches('Z')), "{task}");
    }
    for wrong in [&["--at", "soon"][..], &["--metadata", "team"], &["--at", &at, "--delay", "1s"]] {
        assert_eq!(dev.run(&[&["submit", "nobody", "1"], wrong].concat()).code, 2);
    }
}

#[test]
fn exit_codes_tell_what_happened() {
    let dev = Dev::start(&["--store", "memory"]);
    let failed = dev.run(&[
        "submit",
        "fail",
        r#"{"message":"a\u001b[2J b","retryable":false}"#,
        "--wait",
        "--id",
        "f1",
    ]);
    assert_eq!(failed.code, 10, "{}", failed.stderr);
    assert!(failed.stderr.contains("dead_letter after 1 attempts: a\\u{1b}[2J b"), "{}", failed.stderr);
    assert_eq!(dev.run(&["task", "get", "nobody"]).code, 3);
    assert_eq!(dev.run(&["queue", "get", "nowhere"]).code, 3);
    assert_eq!(dev.run(&["worker", "get", "nobody"]).code, 3);
    assert_eq!(dev.run(&["submit", "echo", "1", "--id", "f1"]).code, 4, "another task has the id");
    assert_eq!(dev.run(&["task", "cancel", "f1"]).code, 4, "it is finished");
    assert_eq!(dev.run(&["task", "list", "--state", "nonsense"]).code, 2);
    let listed = dev.run(&["task", "list", "--state", "dead_letter"]);
    assert!(
        listed.stdout.contains("a\\u{1b}[2J b") && !listed.stdout.contains('\u{1b}'),
        "{}",
        listed.stdout
    );
    for words in [["task", "get", "f1"], ["task", "attempts", "f1"], ["task", "explain", "f1"]] {
        let shown = dev.run(&words);
        assert!(
            shown.code == 0 && shown.stdout.contains("dead_letter") || shown.stdout.contains("failed"),
            "{words:?}"
        );
    }
}

#[test]
fn dead_letters_are_counted_before_anything_is_done() {
    let dev = Dev::start(&["--store", "memory"]);
    for id in ["d1", "d2", "d3"] {
        dev.run(&["submit", "fail", r#"{"retryable":false}"#, "--wait", "--id", id]);
    }
    let dry = dev.run(&["dlq", "clear", "--dry-run"]);
    assert_eq!((dry.code, dry.stdout.as_str()), (0, "3\n"), "{}", dry.stderr);
    let unasked = dev.run(&["dlq", "clear"]);
    assert_eq!(unasked.code, 2, "nobody there to ask");
    assert!(unasked.stderr.contains("would forget 3 dead letters; say --yes"), "{}", unasked.stderr);
    assert_eq!(dev.run(&["dlq", "clear", "d1", "--yes"]).stdout, "1 dead letters forgotten\n");
    assert_eq!(dev.run(&["task", "get", "d1"]).code, 3);
    assert_eq!(
        dev.run(&["dlq", "retry", "--type", "fail", "--yes"]).stdout,
        "2 dead letters pending again\n"
    );
}

#[test]
fn queues_pause_and_purge() {
    let dev = Dev::start(&["--store", "memory"]);
    assert!(dev.run(&["queue", "pause", "default"]).stdout.contains("paused"));
    for _ in 0..3 {
        dev.run(&["submit", "echo", "1"]);
    }
    assert_eq!(dev.run(&["queue", "purge", "default"]).code, 2);
    assert_eq!(dev.run(&["queue", "purge", "default", "--yes"]).stdout, "3 tasks forgotten\n");
    let listed = dev.run(&["queue", "list", "-o", "json"]);
    let queues: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&queues["items"][0]["paused"], &queues["items"][0]["tasks"]["pending"]),
        (&true.into(), &0.into())
    );
    assert!(!dev.run(&["queue", "resume", "default"]).stdout.contains("paused"));
}

#[test]
fn one_data_dir_has_one_broker() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_string_lossy().into_owned();
    let dev = Dev::start(&["--data-dir", &place]);
    assert_eq!(dev.run(&["submit", "echo", "1", "--wait", "--id", "kept"]).code, 0);
    let second = run(&["serve", "--data-dir", &place, "--http-addr", "127.0.0.1:0"]);
    assert_eq!(second.code, 4, "{}", second.stderr);
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    assert_eq!(dev.stop(), Some(0));
    let again = Dev::start(&["--data-dir", &place]);
    let shown = again.run(&["task", "get", "kept"]);
    assert!(shown.stdout.contains("completed"), "{}{}", shown.stdout, shown.stderr);
}

#[test]
fn doctor_looks_at_broker_and_machine() {
    let dev = Dev::start(&["--store", "memory"]);
    let well = dev.run(&["doctor", "-o", "json"]);
    assert_eq!(well.code, 0, "{}{}", well.stdout, well.stderr);
    for check in ["broker", "version", "durability", "workers", "disk space", "fsync", "clock", "open files"]
    {
        assert!(well.stdout.contains(&format!("\"check\":\"{check}\"")), "{check}: {}", well.stdout);
    }
    assert_eq!(run(&["doctor", "--server", "http://127.0.0.1:1"]).code, 6);
}
