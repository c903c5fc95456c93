//! Filters and `windlass operation` against a running `windlass dev`.

use serde_json::Value;

use crate::cli::process::Dev;

#[test]
fn filters_and_operations_from_the_command_line() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    for id in ["r1", "r2", "r3"] {
        assert_eq!(dev.run(&["submit", "report.make", "--id", id, "--queue", "reports"]).code, 0);
    }
    let listed = dev.run(&["task", "list", "queue:reports", "r2"]).stdout;
    assert!(listed.contains("r2") && !listed.contains("r1"), "{listed}");
    let wrong = dev.run(&["task", "list", "stat:dead"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("did you mean state?"), "{}", wrong.stderr);

    let looked = dev.run(&["operation", "run", "move", "type:report.*", "--queue", "slow", "--dry-run"]);
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    assert!(looked.stdout.contains("would change  3") && looked.stdout.contains("r1"), "{}", looked.stdout);
    // All other queues, and never a queue to move to.
    let other = ["operation", "run", "move", "type:report.*", "-queue:slow", "--queue", "slow", "--dry-run"];
    let looked = dev.run(&other);
    assert!(looked.stdout.contains("would change  3"), "{} {}", looked.stdout, looked.stderr);
    let none =
        dev.run(&["operation", "run", "move", "type:report.*", "-queue:reports", "--queue", "a", "--yes"]);
    assert_eq!(none.code, 0, "{}", none.stderr);
    let nowhere = dev.run(&["operation", "run", "move", "type:report.*", "-queue:slow", "--yes"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stdout);
    assert_eq!(
        dev.run(&["task", "list", "queue:reports", "-id:r1", "-o", "json"]).stdout.matches("\"id\"").count(),
        2
    );
    assert_eq!(dev.run(&["dlq", "list", "--filter", "-queue:slow"]).code, 0);
    assert_eq!(dev.run(&["dlq", "clear", "--filter", "", "--yes"]).code, 2);
    let unasked = dev.run(&["operation", "run", "move", "type:report.*", "--queue", "slow"]);
    assert_eq!(unasked.code, 2, "nobody is there to ask");
    assert!(unasked.stderr.contains("would move 3 tasks"), "{}", unasked.stderr);
    let done =
        dev.run(&["operation", "run", "move", "type:report.*", "--queue", "slow", "--by", "anna", "--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    for said in ["done", "move slow", "anna", "100.0 %"] {
        assert!(done.stdout.contains(said), "{}", done.stdout);
    }
    let begun =
        dev.run(&["operation", "run", "cancel", "queue:slow", "--yes", "--detach", "-o", "json"]).stdout;
    let begun: Value = serde_json::from_str(&begun).unwrap();
    let id = begun["id"].as_str().unwrap();
    assert_eq!(dev.run(&["task", "watch", "r1"]).code, 10, "it is cancelled");
    let shown = dev.run(&["operation", "get", id]).stdout;
    assert!(shown.contains("cancel") && shown.contains("queue:slow"), "{shown}");
    let listed = dev.run(&["operation", "list"]).stdout;
    assert!(listed.contains("type:report.*") && listed.lines().count() == 4, "{listed}");
    assert_eq!(dev.run(&["operation", "get", "none"]).code, 3);
    assert_eq!(dev.run(&["operation", "run", "set-priority", "queue:slow", "--yes"]).code, 2);
    assert_eq!(dev.stop(), Some(0));
}
