//! `windlass schedule` against a running `windlass dev`.

use serde_json::Value;

use crate::cli::process::Dev;

#[test]
fn schedules_from_the_command_line() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    let add = ["schedule", "add", "nightly", r#"{"at":"{{scheduled_at}}"}"#, "--cron", "0 2 * * *"];
    let rest = ["--timezone", "Europe/Berlin", "--type", "echo", "--jitter", "30s", "--overlap", "skip"];
    let words: Vec<&str> = add.into_iter().chain(rest).collect();
    let done = dev.run(&words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    for said in ["nightly", "Europe/Berlin", "default/echo", "jitter", "Its next slot comes in"] {
        assert!(done.stdout.contains(said), "{}", done.stdout);
    }
    assert_eq!(dev.run(&words).code, 4, "there is one already");
    let replaced: Vec<&str> = words.iter().copied().chain(["--replace", "--paused"]).collect();
    assert!(dev.run(&replaced).stdout.contains("paused"));
    let listed = dev.run(&["schedule", "list"]).stdout;
    assert!(listed.contains("nightly") && listed.contains("paused"), "{listed}");
    assert_eq!(dev.run(&["schedule", "resume", "nightly"]).code, 0);
    let next = dev.run(&["schedule", "next", "nightly", "--count", "3"]).stdout;
    assert_eq!(next.lines().count(), 4, "{next}");

    let id = dev.run(&["schedule", "run", "nightly"]).stdout.trim().to_owned();
    let watched = dev.run(&["task", "watch", &id]);
    assert!(watched.stdout.starts_with(r#"{"at":"2"#), "{} {}", watched.stdout, watched.stderr);
    let fires = dev.run(&["schedule", "fires", "nightly", "-o", "json"]).stdout;
    let fires: Value = serde_json::from_str(&fires).unwrap();
    assert_eq!(
        (&fires["items"][0]["task_id"], &fires["items"][0]["state"]),
        (&id.into(), &"completed".into())
    );
    let fires = dev.run(&["schedule", "fires", "nightly"]).stdout;
    assert!(fires.contains("completed") && fires.contains("by hand"), "{fires}");

    let wrong = dev.run(&["schedule", "add", "x", "--cron", "99 * * * *", "--type", "echo"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("cron"), "{}", wrong.stderr);
    assert_eq!(dev.run(&["schedule", "pause", "nightly"]).code, 0);
    assert_eq!(dev.run(&["schedule", "remove", "nightly"]).code, 0);
    assert_eq!(dev.run(&["schedule", "get", "nightly"]).code, 3);
    assert_eq!(dev.stop(), Some(0));
}
