//! Each bench with the least load: its figures must add up. How fast it was is not judged here.

use std::process::Command;

use serde_json::Value;

/// Runs `windlass bench …` in a directory of its own and reads its JSON.
fn bench(args: &[&str]) -> Value {
    let dir = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("bench")
        .args(args)
        .args(["-o", "json", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{args:?} left files behind: {left:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["bench"], args[0]);
    assert_eq!(report["settings"]["durability"], "sync");
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    report
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

fn check_latency(latency: &Value) {
    let figures = ["p50_us", "p99_us", "p999_us", "max_us"].map(|name| whole(&latency[name]));
    assert!(figures.is_sorted() && whole(&latency["count"]) > 0, "{latency}");
}

#[test]
fn engine_completes_what_it_submits_and_compares_the_same_groups() {
    let report = bench(&["engine", "--seconds", "1", "--rounds", "2", "--submitters", "4", "--workers", "4"]);
    let results = &report["results"];
    assert_eq!(results["submitted"], results["completed"]);
    let rounds = results["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    let measured: u64 = rounds.iter().map(|round| whole(&round["lifecycles"])).sum();
    assert!(measured > 0 && measured <= whole(&results["completed"]), "{results}");
    for round in rounds {
        assert!(whole(&round["groups"]) <= whole(&round["entries"]), "{round}");
        let ratio = number(&round["entries_per_second"]) / number(&round["plain_entries_per_second"]);
        assert!((ratio - number(&round["ratio"])).abs() < 1e-6, "{round}");
    }
}

#[test]
fn events_are_heard_and_nothing_is_lost() {
    let report = bench(&[
        "events",
        "--seconds",
        "1",
        "--rounds",
        "1",
        "--listeners",
        "5",
        "--everything",
        "1",
        "--queues",
        "4",
        "--rate",
        "40",
    ]);
    let results = &report["results"];
    let round = &results["rounds"][0];
    check_latency(&round["alone"]);
    check_latency(&round["heard"]);
    // Submitted, started and completed, for one who hears everything and for one of each queue.
    assert_eq!(whole(&round["listeners"]["events"]), 40 * 3 * 2, "{round}");
    assert_eq!((whole(&results["missed"]), whole(&round["listeners"]["cut"])), (0, 0));
    assert_eq!(whole(&results["tasks"]), 120, "warming up, alone and listened to");
}

#[test]
fn engine_works_in_batches() {
    let report = bench(&[
        "engine",
        "--seconds",
        "1",
        "--rounds",
        "1",
        "--batch",
        "10",
        "--submitters",
        "4",
        "--workers",
        "4",
    ]);
    assert_eq!(report["results"]["submitted"], report["results"]["completed"]);
    assert!(whole(&report["results"]["submitted"]) >= 10);
}

#[test]
fn http_counts_what_the_broker_counts() {
    let report = bench(&[
        "http",
        "--seconds",
        "1",
        "--rounds",
        "1",
        "--connections",
        "1,4",
        "--rate",
        "50",
        "--batch",
        "10",
    ]);
    let results = &report["results"];
    let submit = results["submit"].as_array().unwrap();
    assert_eq!(submit.iter().map(|row| whole(&row["connections"])).collect::<Vec<_>>(), [1, 4]);
    for row in submit {
        check_latency(&row["latency"]);
        assert!(number(&row["submits_per_second"]) > 0.0 && number(&row["echoes_per_second"]) > 0.0, "{row}");
    }
    let singles: u64 = submit.iter().map(|row| whole(&row["latency"]["count"])).sum();
    let flow = |name: &str| whole(&results[name]["tasks"]);
    assert_eq!(flow("submit_batch") % 10, 0);
    let latency = &results["latency"][0];
    assert_eq!(whole(&latency["sent"]), 50);
    check_latency(&latency["submit_to_claimed"]);
    assert_eq!(latency["submit_to_claimed"]["count"], latency["sent"]);
    // The end-to-end runs add what was still under way when their time was over.
    assert!(whole(&results["tasks_submitted"]) >= singles + flow("submit_batch") + 50, "{results}");
    let finished = ["drain", "drain_batch", "end_to_end", "end_to_end_batch"].map(flow).iter().sum::<u64>();
    assert!(whole(&results["tasks_completed"]) >= finished + 50, "{results}");
    assert!(flow("drain") > 0 && flow("end_to_end") > 0, "{results}");
    assert!(whole(&results["idle"]["rss_bytes"]) > 0);
}

#[test]
fn grpc_counts_what_the_broker_counts() {
    let report = bench(&["grpc", "--seconds", "1", "--rounds", "1", "--calls", "4", "--batch", "10"]);
    let results = &report["results"];
    let submit = results["submit"].as_array().unwrap();
    assert_eq!(submit.iter().map(|row| whole(&row["connections"])).collect::<Vec<_>>(), [4, 1]);
    for row in submit {
        check_latency(&row["latency"]);
        assert!(number(&row["submits_per_second"]) > 0.0 && number(&row["echoes_per_second"]) > 0.0, "{row}");
    }
    let singles: u64 = submit.iter().map(|row| whole(&row["latency"]["count"])).sum();
    let batched = whole(&results["submit_batch"]["tasks"]);
    assert_eq!(whole(&results["tasks_submitted"]), singles + batched);
    assert_eq!(results["tasks_completed"], results["drain"]["tasks"]);
    assert!(batched > 0 && whole(&results["drain"]["tasks"]) > 0, "{results}");
}

#[test]
fn tcp_counts_what_the_broker_counts() {
    let report = bench(&["tcp", "--seconds", "1", "--rounds", "1", "--connections", "1,4", "--batch", "10"]);
    let results = &report["results"];
    let submit = results["submit"].as_array().unwrap();
    assert_eq!(submit.iter().map(|row| whole(&row["connections"])).collect::<Vec<_>>(), [1, 4]);
    let pipelined = &results["submit_pipelined"];
    for row in submit.iter().chain([pipelined]) {
        check_latency(&row["latency"]);
        let ratio = number(&row["submits_per_second"]) / number(&row["echoes_per_second"]);
        assert!((ratio - number(&row["ratio"])).abs() < 1e-6, "{row}");
    }
    let flow = |name: &str| whole(&results[name]["tasks"]);
    assert!(flow("drain") > 0 && flow("submit_batch") > 0, "{results}");
    assert_eq!(whole(&results["tasks_completed"]), flow("drain") + flow("drain_batch"));
    let singles: u64 = submit.iter().map(|row| whole(&row["latency"]["count"])).sum();
    let pipelined = 10 * whole(&pipelined["latency"]["count"]);
    assert_eq!(whole(&results["tasks_submitted"]), singles + pipelined + flow("submit_batch"));
}

#[test]
fn steady_sends_what_it_was_asked_to() {
    let report = bench(&["steady", "--seconds", "1", "--rounds", "2", "--rate", "200", "--connections", "4"]);
    let results = &report["results"];
    assert_eq!(whole(&results["submitted"]), 400);
    check_latency(&results["request"]);
    assert_eq!(results["worst_commit_us"], results["slowest_commits"]["max_us"]);
    let groups = whole(&results["groups"]);
    assert!(groups <= 400);
    let rounds = results["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for round in rounds {
        assert_eq!(whole(&round["request"]["count"]), 200);
        check_latency(&round["control"]);
    }
    // Each control writes as many groups as the broker did in the same time.
    let written: u64 = rounds.iter().map(|round| whole(&round["control"]["count"])).sum();
    assert!(written > 0 && written <= groups + 2, "{written} for {groups}");
    let quiet = rounds.iter().filter(|round| whole(&round["control"]["p99_us"]) < 5000).count() as u64;
    assert_eq!(whole(&results["quiet_rounds"]), quiet);
    assert_eq!(results["quiet_request_p99_us"].is_null(), quiet == 0);
}

#[test]
fn backlog_finds_every_task_again() {
    let report = bench(&["backlog", "--tasks", "5000", "--small", "2000", "--claims", "50"]);
    let results = &report["results"];
    // 50 claimed at first were replaced, and the crash added its own.
    assert_eq!(whole(&results["restart"]["found"]), 5050);
    assert!(whole(&results["restart"]["found_after_crash"]) > 5050);
    assert_eq!(whole(&results["claim_small"]["pending"]), 2000);
    assert_eq!(whole(&results["claim_full"]["pending"]), 5000);
    check_latency(&results["claim_full"]["claim"]);
    assert!(whole(&results["rss_peak_bytes"]) >= whole(&results["rss_before_bytes"]));
    assert!(number(&results["disk_bytes_per_task"]) > 200.0);
}

#[test]
fn flow_serves_every_key_and_passes_what_is_blocked() {
    let report = bench(&[
        "flow",
        "--keys",
        "50",
        "--tasks",
        "500",
        "--rounds",
        "1",
        "--blocked",
        "500",
        "--claims",
        "20",
    ]);
    let results = &report["results"];
    assert!(number(&results["plain_per_second"]) > 0.0 && number(&results["keyed_per_second"]) > 0.0);
    check_latency(&results["claim_alone"]);
    check_latency(&results["claim_beside_blocked"]);
}
