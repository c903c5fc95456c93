//! `windlass doctor salvage`, on the files of a broker that was killed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::cli::process::{self, Done};
use crate::http::Client;

const TASKS: &str = "/api/v1/tasks";
const SAVED: usize = 40;
const LOGGED: usize = 10;

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn submit(client: &mut Client, ids: impl Iterator<Item = String>) {
    for id in ids {
        client.post(TASKS, &json!({"id": id, "type": "t", "payload": {"of": id}}).to_string()).expect(201);
    }
}

/// A killed broker with some tasks in the tables and others only in the log.
fn killed() -> BrokerProcess {
    let mut broker = BrokerProcess::start();
    submit(&mut broker.client(), (0..SAVED).map(|n| format!("saved-{n:04}")));
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    broker.kill_and_restart();
    submit(&mut broker.client(), (0..LOGGED).map(|n| format!("logged-{n:04}")));
    broker.kill();
    broker
}

fn files(dir: &Path, folder: &str, kind: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(dir.join(folder)).unwrap().map(|file| file.unwrap().path());
    let mut found: Vec<_> = found.filter(|path| path.extension().is_some_and(|end| end == kind)).collect();
    found.sort();
    found
}

#[track_caller]
fn refused(dir: &Path) {
    let serve =
        ["serve", "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--data-dir", shown(dir)];
    let done = process::run(&serve);
    assert!(done.code != 0 && done.stderr.contains("windlass doctor salvage"), "{done:?}");
}

fn salvage(from: &Path, to: &Path) -> Done {
    process::run(&["doctor", "salvage", "--data-dir", shown(from), "--to", shown(to), "-o", "json"])
}

fn lines(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_left_of_a_log_without_its_last_segment_is_served_again() {
    let broker = killed();
    let dir = broker.data_dir();
    let last = files(&dir, "log", "seg").pop().unwrap();
    fs::remove_file(&last).unwrap();
    refused(&dir);

    let home = tempfile::tempdir().unwrap();
    let done = salvage(&dir, &home.path().join("data"));
    assert_eq!(done.code, 11, "{done:?}");
    let lines = lines(&done);
    assert!(lines.iter().any(|line| line["loss"] == "log_entries"), "{done:?}");
    let report = lines.last().unwrap();
    assert_eq!((&report["exact"], &report["whole"]), (&SAVED.into(), &false.into()), "{report}");
    let again = salvage(&dir, &home.path().join("data"));
    assert!(again.code == 6 && again.stderr.contains("is not empty"), "{again:?}");

    let copy = BrokerProcess::start_in(home);
    let mut client = copy.client();
    assert_eq!(client.get(&format!("{TASKS}/saved-0007")).expect(200)["payload"]["of"], "saved-0007");
    assert_eq!(client.get(&format!("{TASKS}/logged-0000")).status, 404);
}

#[test]
fn tasks_of_a_damaged_block_are_listed_and_the_others_served_again() {
    let broker = killed();
    let dir = broker.data_dir();
    let mut hit = false;
    // The log is damaged as well, because it has everything since the start and would replace the block.
    for path in [files(&dir, "blocks", "blk"), files(&dir, "log", "seg")].concat() {
        let mut bytes = fs::read(&path).unwrap();
        let text = b"saved-0020";
        for at in 0..bytes.len() - text.len() {
            if &bytes[at..at + text.len()] == text {
                bytes[at] ^= 1;
                hit = true;
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(hit, "the task is in no block");
    refused(&dir);

    let home = tempfile::tempdir().unwrap();
    let done = salvage(&dir, &home.path().join("data"));
    assert_eq!(done.code, 11, "{done:?}");
    let lines = lines(&done);
    let lost: Vec<&str> =
        lines.iter().filter(|line| line["loss"] == "task").filter_map(|line| line["id"].as_str()).collect();
    assert!(lost.contains(&"saved-0020") && lost.len() <= 16, "{done:?}");
    let copy = BrokerProcess::start_in(home);
    let mut client = copy.client();
    let ids =
        (0..SAVED).map(|n| format!("saved-{n:04}")).chain((0..LOGGED).map(|n| format!("logged-{n:04}")));
    for id in ids {
        let expected = if lost.contains(&id.as_str()) { 404 } else { 200 };
        assert_eq!(client.get(&format!("{TASKS}/{id}")).status, expected, "{id}");
    }
}

#[test]
fn a_store_in_use_and_a_directory_that_is_not_there_are_refused() {
    let broker = BrokerProcess::start();
    let home = tempfile::tempdir().unwrap();
    let busy = salvage(&broker.data_dir(), &home.path().join("new"));
    assert_eq!(busy.code, 4, "{busy:?}");
    assert_eq!(salvage(&home.path().join("none"), &home.path().join("new")).code, 2);
}
