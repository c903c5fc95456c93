//! `windlass migrate`, on real stores: what REST shows of one is what it shows of the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::cli::process::{self, Done};
use crate::http::{Client, text};
use crate::redis::Redis;

const TASKS: &str = "/api/v1/tasks";
const PATIENCE: Duration = Duration::from_secs(60);

fn migrate(from: &str, to: &str, more: &[&str]) -> Done {
    let words = [&["migrate", "--from", from, "--to", to, "-o", "json"][..], more].concat();
    process::run(&words)
}

#[track_caller]
fn migrated(from: &str, to: &str, more: &[&str]) -> Value {
    let done = migrate(from, to, more);
    assert_eq!(done.code, 0, "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// Stops a broker in order and gives what it was left with.
fn stop(mut broker: BrokerProcess) -> BrokerProcess {
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    broker
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Tasks in every state, and what stands beside them; returns the claimed one. Queues other than the default one begin with `group`.
fn populate(client: &mut Client, group: &str) -> Value {
    let (work, quiet) = (format!("{group}work"), format!("{group}quiet"));
    let mut submit = |body: Value| client.post(TASKS, &body.to_string()).expect(201);
    for id in ["done", "dead", "again", "held"] {
        submit(json!({"id": id, "type": "t", "queue": work, "max_retries": i32::from(id == "again")}));
    }
    let claim = json!({"worker_id": "w", "queues": [work], "max": 4, "lease_seconds": 600}).to_string();
    let claimed = client.post("/api/v1/claim", &claim).expect(200);
    let tasks = claimed["tasks"].as_array().unwrap().clone();
    let report = |client: &mut Client, task: &Value, verb: &str, mut body: Value| {
        body["lease"] = task["lease"].clone();
        client.post(&format!("{TASKS}/{}/{verb}", text(&task["id"])), &body.to_string()).expect(200);
    };
    report(client, &tasks[0], "complete", json!({"result": {"n": 1}}));
    report(client, &tasks[1], "fail", json!({"error": "no such mailbox"}));
    report(client, &tasks[2], "fail", json!({"error": "busy", "retry_after_seconds": 3600}));
    let mut submit = |body: Value| client.post(TASKS, &body.to_string()).expect(201);
    submit(json!({"id": "low", "type": "t", "priority": "low"}));
    submit(json!({"id": "high", "type": "t", "priority": "high", "payload": {"a": [1, 2]}}));
    submit(json!({"id": "later", "type": "t", "delay_seconds": 3600}));
    submit(json!({"id": "only", "type": "t", "unique_key": "k", "metadata": {"trace": "x"}}));
    submit(json!({"id": "child", "type": "t", "dependencies": ["held", "low"]}));
    submit(json!({"id": "gone", "type": "t"}));
    submit(json!({"id": "waiting", "type": "t", "queue": quiet}));
    client.post(&format!("{TASKS}/gone/cancel"), "").expect(200);
    client.post(&format!("/api/v1/queues/{quiet}/pause"), "").expect(200);
    let schedule = json!({"id": "yearly", "cron": "0 0 1 1 *", "task": {"type": "t"}});
    client.post("/api/v1/schedules", &schedule.to_string()).expect(201);
    let workflow = json!({"id": "flow", "tasks": {"a": {"type": "t"}, "b": {"type": "t", "after": ["a"]}}});
    client.post("/api/v1/workflows", &workflow.to_string()).expect(201);
    tasks[3].clone()
}

/// All that REST says of a store and that does not change by itself.
fn everything(client: &mut Client) -> Value {
    let list = client.get("/api/v1/tasks?limit=1000").expect(200);
    let mut tasks = Vec::new();
    for task in list["items"].as_array().unwrap() {
        let mut task = client.get(&format!("{TASKS}/{}", text(&task["id"]))).expect(200);
        // A lease gets a fresh window, as after a restart.
        task.as_object_mut().unwrap().remove("lease_expires_at");
        tasks.push(task);
    }
    let mut queues = client.get("/api/v1/queues").expect(200);
    for queue in queues["items"].as_array_mut().unwrap() {
        let queue = queue.as_object_mut().unwrap();
        queue.retain(|name, _| ["name", "paused", "tasks"].contains(&name.as_str()));
    }
    json!({
        "tasks": tasks,
        "queues": queues["items"],
        "schedule": client.get("/api/v1/schedules/yearly").expect(200),
        "workflow": client.get("/api/v1/workflows/flow").expect(200),
    })
}

#[test]
fn from_a_directory_to_redis_and_back() {
    there_and_back(&Redis::start(), "");
}

/// Queues whose names are alike up to a colon are together there.
#[test]
fn from_a_directory_to_a_cluster_and_back() {
    there_and_back(&Redis::start_cluster(), "default:");
}

fn there_and_back(redis: &Redis, group: &str) {
    let broker = BrokerProcess::start();
    let held = populate(&mut broker.client(), group);
    let before = everything(&mut broker.client());
    let first_dir = broker.data_dir();
    let busy = migrate(shown(&first_dir), &redis.url, &[]);
    assert_eq!((busy.code, busy.stdout.as_str()), (4, ""), "{busy:?}");
    let stopped = stop(broker);
    let planned = migrated(shown(&first_dir), &redis.url, &["--dry-run"]);
    assert_eq!((&planned["tasks"], &planned["verified"]), (&13.into(), &false.into()), "{planned}");
    let there = migrated(shown(&first_dir), &redis.url, &[]);
    assert_eq!((&there["copied"]["added"], &there["copied"]["there"]), (&13.into(), &0.into()), "{there}");
    drop(stopped);

    let broker = redis.broker();
    assert_eq!(everything(&mut broker.client()), before);
    let second = tempfile::tempdir().unwrap();
    let second_dir = second.path().join("data");
    let busy = migrate(&redis.url, shown(&second_dir), &[]);
    assert_eq!(busy.code, 4, "{busy:?}");
    assert!(busy.stderr.contains("store_in_use"), "{busy:?}");
    let _stopped = stop(broker);
    let back = migrated(&redis.url, shown(&second_dir), &[]);
    assert_eq!(back["digest"], there["digest"], "twice moved, and still the same");

    let broker = BrokerProcess::start_in(second);
    let mut client = broker.client();
    assert_eq!(everything(&mut client), before);
    // The worker that held a task all the while finishes it, and what waited for it goes on.
    let done = json!({"lease": held["lease"]}).to_string();
    client.post(&format!("{TASKS}/held/complete"), &done).expect(200);
    let again = client.post(TASKS, r#"{"type":"t","unique_key":"k"}"#).expect(200);
    assert_eq!(again["id"], "only", "its unique key is held");
    let claim = r#"{"worker_id":"w","max":2,"wait_seconds":30}"#;
    let claimed = client.post("/api/v1/claim", claim).expect(200);
    let ids: Vec<String> =
        claimed["tasks"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect();
    assert_eq!(ids, ["high", "only"], "by priority, then in the order of their submits");
}

/// A store with many tasks, whose broker has stopped.
fn many(count: usize) -> (BrokerProcess, PathBuf) {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    for _ in 0..count / 1000 {
        let tasks: Vec<Value> = (0..1000).map(|n| json!({"type": "t", "payload": {"n": n}})).collect();
        client.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }).to_string()).expect(200);
    }
    let dir = broker.data_dir();
    (stop(broker), dir)
}

/// How many tasks the store has in Redis by now.
fn arrived(redis: &Redis) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    stream.write_all(b"SELECT 1\r\nHLEN {shop}:ids\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    lines.next().unwrap().unwrap();
    lines.next().unwrap().unwrap().trim_start_matches(':').parse().unwrap()
}

/// Kills a migration as soon as tasks arrive at the destination.
fn kill_in_the_middle(from: &str, to: &str, arrives: impl Fn() -> bool) {
    let words = ["migrate", "--from", from, "--to", to];
    let mut child = process::command(&words).stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !arrives() {
        assert!(Instant::now() < deadline, "nothing arrives");
        // sleep: another process writes, and tells nobody.
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it was killed before its end");
}

/// Asserts that no command serves or copies an incomplete store, and that each refusal says what to do.
#[track_caller]
fn assert_unfinished(store: &str, source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let place = if store.contains("://") { "--store" } else { "--data-dir" };
    let serve = ["serve", place, store, "--http-addr", "127.0.0.1:0", "--grpc-addr", "none"];
    let dev = ["dev", place, store, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0"];
    let onward = dir.path().join("onward");
    let migrate = ["migrate", "--from", store, "--to", shown(&onward)];
    for words in [&serve[..], &dev[..], &migrate[..]] {
        let mut command = process::command(words);
        command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A broker that starts prints its address. One that refuses the store prints nothing and exits.
        let first = BufReader::new(child.stdout.take().unwrap()).lines().next();
        if let Some(line) = first {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} says {line:?}");
        }
        let done = Done::from(child.wait_with_output().unwrap());
        assert_eq!(done.code, 4, "{words:?}: {done:?}");
        for part in [&format!("a migration from {source} into it did not finish"), "run the same", "delete"] {
            assert!(done.stderr.contains(part), "{part}: {done:?}");
        }
    }
}

/// Whether the log of a data directory has tasks.
fn has_tasks(dir: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(dir.join("log")) else { return false };
    let mut segments =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension() == Some("seg".as_ref()));
    let frames = |path: PathBuf| {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut bytes));
        read.is_ok() && bytes.iter().rposition(|byte| *byte != 0) > Some(100_000)
    };
    segments.any(frames)
}

#[test]
fn a_directory_whose_move_was_killed_is_refused_until_it_is_finished() {
    const COUNT: u64 = 10_000;
    let (_stopped, from) = many(COUNT as usize);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("data");
    kill_in_the_middle(shown(&from), shown(&to), || has_tasks(&to));
    assert_unfinished(shown(&to), shown(&from));
    // A dry run and a comparison change nothing.
    migrated(shown(&from), shown(&to), &["--dry-run"]);
    let differs = migrate(shown(&from), shown(&to), &["--verify-only"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    assert_unfinished(shown(&to), shown(&from));

    let again = migrated(shown(&from), shown(&to), &[]);
    let (there, added) =
        (again["copied"]["there"].as_u64().unwrap(), again["copied"]["added"].as_u64().unwrap());
    assert!(there > 0 && added > 0, "{again}");
    assert_eq!(there + added, COUNT);
    assert!(!to.join("MIGRATING").exists());
    let broker = BrokerProcess::start_in(dir);
    let queues = broker.client().get("/api/v1/queues").expect(200);
    assert_eq!(queues["items"][0]["tasks"]["pending"], COUNT, "{queues}");
}

/// A complete copy may have been used since, so a later migration does not mark it.
#[test]
fn a_store_with_tasks_is_never_marked() {
    let (_stopped, from) = many(1000);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("data");
    migrated(shown(&from), shown(&to), &[]);
    migrated(shown(&from), shown(&to), &[]);
    let mut broker = BrokerProcess::start_in(dir);
    broker.client().post(TASKS, r#"{"type":"t"}"#).expect(201);
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let refused = migrate(shown(&from), shown(&to), &[]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("destination_not_empty"), "{refused:?}");
    assert!(!to.join("MIGRATING").exists());
}

#[test]
fn a_move_that_was_killed_goes_on() {
    const COUNT: usize = 10_000;
    let redis = Redis::start();
    let (_stopped, dir) = many(COUNT);
    kill_in_the_middle(shown(&dir), &redis.url, || arrived(&redis) > 0);
    let left = arrived(&redis);
    assert!((1..COUNT as u64).contains(&left), "{left} had arrived");
    assert_unfinished(&redis.url, shown(&dir));
    let again = migrated(shown(&dir), &redis.url, &[]);
    let (there, added) = (again["copied"]["there"].as_u64(), again["copied"]["added"].as_u64());
    // What was under way when it was killed may have arrived since.
    assert!(there >= Some(left) && added > Some(0), "{left} had arrived: {again}");
    assert_eq!(there.zip(added).map(|(there, added)| there + added), Some(COUNT as u64));
    assert_eq!(arrived(&redis), COUNT as u64);

    // What was changed since is found, and nothing is written over it.
    let broker = redis.broker();
    let page = broker.client().get("/api/v1/tasks?limit=1").expect(200);
    let id = text(&page["items"][0]["id"]);
    broker.client().post(&format!("{TASKS}/{id}/cancel"), "").expect(200);
    let _other = stop(broker);
    let differs = migrate(shown(&dir), &redis.url, &["--verify-only"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.stderr.contains("copy_differs") && differs.stderr.contains(&id), "{differs:?}");
    assert!(differs.stdout.contains("\"verified\":false"), "{differs:?}");
    let refused = migrate(shown(&dir), &redis.url, &[]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("destination_not_empty"), "{refused:?}");
}

/// A store that is spread has one mark for all of its parts.
#[test]
fn a_cluster_whose_move_was_killed_is_refused_until_it_is_finished() {
    let redis = Redis::start_cluster();
    let (_stopped, dir) = many(10_000);
    kill_in_the_middle(shown(&dir), &redis.url, || redis.tasks_of_parts() > 0);
    assert_unfinished(&redis.url, shown(&dir));
    let again = migrated(shown(&dir), &redis.url, &[]);
    assert!(again["copied"]["there"].as_u64() > Some(0), "{again}");
    let broker = redis.broker();
    let queues = broker.client().get("/api/v1/queues").expect(200);
    assert_eq!(queues["items"][0]["tasks"]["pending"], 10_000, "{queues}");
}

/// Before anything is written, and told of which task.
#[test]
fn what_a_cluster_would_keep_apart_is_refused() {
    let redis = Redis::start_cluster();
    let broker = BrokerProcess::start();
    populate(&mut broker.client(), "");
    let dir = broker.data_dir();
    let _stopped = stop(broker);
    for more in [&["--dry-run"][..], &[]] {
        let refused = migrate(shown(&dir), &redis.url, more);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains("task child needs commits over queues"), "{refused:?}");
        assert!(refused.stderr.contains("unsupported_by_store"), "{refused:?}");
    }
    let broker = redis.broker();
    assert_eq!(broker.client().get("/api/v1/queues").expect(200)["items"], json!([]));
}

#[test]
fn a_prefix_that_nobody_uses_is_no_store() {
    let redis = Redis::start();
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("new");
    // To look for it does not make it.
    for _ in 0..2 {
        let missing = migrate(&redis.url, shown(&to), &[]);
        assert_eq!(missing.code, 3, "{missing:?}");
        assert!(missing.stderr.contains("there is no store"), "{missing:?}");
        assert!(!to.exists(), "nothing is made either");
    }
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, full) = (dir.path().join("none"), dir.path().join("full"));
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("letters.txt"), "mine").unwrap();
    let missing = migrate(shown(&source), shown(&full), &[]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(!source.exists(), "nothing is made where nothing was");
    let broker = BrokerProcess::start();
    broker.client().post(TASKS, r#"{"type":"t"}"#).expect(201);
    broker.client().post("/api/v1/claim", r#"{"worker_id":"w"}"#).expect(200);
    let from = broker.data_dir();
    let _stopped = stop(broker);
    let taken = migrate(shown(&from), shown(&full), &[]);
    assert_eq!(taken.code, 4, "{taken:?}");
    let to = dir.path().join("new");
    let running = migrate(shown(&from), shown(&to), &["--running", "refuse"]);
    assert_eq!(running.code, 4, "{running:?}");
    assert!(running.stderr.contains("tasks_running"), "{running:?}");
    let released = migrated(shown(&from), shown(&to), &["--running", "release"]);
    assert_eq!(released["queues"][0]["states"], json!({"pending": 1}), "{released}");
    for words in [["--from", "memory"], ["--from", "kafka://x"], ["--from", ""]] {
        let wrong = process::run(&[&["migrate", "--to", "x"][..], &words[..]].concat());
        assert_eq!(wrong.code, 2, "{wrong:?}");
    }
}
