//! The shell blocks of the README and the guides, run as written against a running `windlass dev`.

use std::path::Path;
use std::process::Command;

use crate::cli::process::Dev;

#[test]
fn the_readme_runs_as_written() {
    // What the README says next to the commands.
    let said = [r#"{"hello":"world"}"#, "No worker listens", "waits for its time", "QUIET", "lease"];
    run("README.md", &said);
}

#[test]
fn the_guide_to_schedules_runs_as_written() {
    let said =
        ["nightly", "@every 1s", "Its next slot comes in", "\"scheduled_at\"", "nightly:run:", "paused"];
    run("docs/schedules.md", &said);
}

#[test]
fn the_guide_to_limits_runs_as_written() {
    let said = [
        "2 \"key\":\"big\"",
        "2 \"key\":\"small\"",
        "email.send",
        "100/60 s",
        "\"max_depth\":10000",
        "is at 1/1, held by busy-1",
    ];
    run("docs/flow.md", &said);
}

#[test]
fn the_guide_to_unique_tasks_runs_as_written() {
    let said =
        ["still one task", "refused with exit code 4", "unique_conflict", "scheduled", "\"unique_until\""];
    run("docs/unique.md", &said);
}

#[test]
fn the_guide_to_memory_runs_as_written() {
    run_blocks("docs/memory.md", 1, &["server.memory_budget_bytes", "taskqueue_memory_budget_used_bytes"]);
}

#[test]
fn the_guide_to_running_tasks_runs_as_written() {
    run("docs/running.md", &["asked", "\"cancel_requested\":false", "page 4 is where it goes on", "pending"]);
}

#[test]
fn the_guide_to_filters_and_operations_runs_as_written() {
    let said = [
        "connection timeout",
        "did you mean state?",
        "would change",
        "no such mailbox",
        "set_priority 200",
        "\"matched\":",
        "done",
    ];
    run("docs/operations.md", &said);
}

#[test]
fn the_guide_to_workflows_runs_as_written() {
    let said =
        [r#""result":{"step":1}"#, "nightly  completed  5/5 completed", "✓ report", "✗ a", "1 run again"];
    run("docs/workflows.md", &said);
}

#[test]
fn the_guide_to_events_runs_as_written() {
    let said =
        ["task.started", "task.completed", "system.metrics", "\"type\":\"queue.depth\"", "retry: 1000"];
    run("docs/events.md", &said);
}

#[test]
fn the_guide_to_metrics_runs_as_written() {
    let said = ["priority=\"normal\"} 1", "\"wait_p95\":[", "\"queue\":\"reports\"", "\"step_seconds\":10"];
    run("docs/metrics.md", &said);
}

#[test]
fn the_guide_to_migrating_runs_as_written() {
    let said =
        ["would copy 1 tasks", "copied 1, there before 0", "\"verified\":true", "exit code 3", "--running"];
    run("docs/migrating.md", &said);
}

#[test]
fn the_guide_to_backups_runs_as_written() {
    let said =
        ["whole and undamaged", "log position", "\"tasks\":", "restored", "exit code 1: it is not whole"];
    run("docs/backup.md", &said);
}

#[test]
fn the_guide_to_traces_runs_as_written() {
    let said = ["mail-broker", "4318", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"];
    run("docs/traces.md", &said);
}

#[test]
fn the_guide_to_damage_runs_as_written() {
    run_blocks("docs/damage.md", 1, &["the broker refuses it", "\"whole\":true", "\"tasks\":1"]);
}

/// Runs every block of a document; together they must have printed `said`.
fn run(document: &str, said: &[&str]) {
    run_blocks(document, 3, said);
}

fn run_blocks(document: &str, least: usize, said: &[&str]) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document));
    let text = text.unwrap();
    let blocks: Vec<&str> =
        text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert!(blocks.len() >= least, "{document} shows how to use it");
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    let binaries = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut shown = String::new();
    for block in blocks {
        let script = block.replace("127.0.0.1:8080", dev.url.trim_start_matches("http://"));
        let done = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env("PATH", &path)
            .env("WINDLASS_SERVER", &dev.url)
            .env("WINDLASS_GRPC_SERVER", &dev.grpc)
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{block}\n{out}\n{err}");
        shown.push_str(&out);
    }
    for said in said {
        assert!(shown.contains(said), "{said} is missing in\n{shown}");
    }
    assert_eq!(dev.stop(), Some(0));
}
