//! `windlass backup …` on real brokers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::cli::process::{self, Done};
use crate::http::Client;
use crate::redis::Redis;

const TASKS: &str = "/api/v1/tasks";

fn server(broker: &BrokerProcess) -> String {
    format!("http://{}", broker.address)
}

fn create(broker: &BrokerProcess, to: &Path) -> Done {
    process::run(&["backup", "create", "--to", shown(to), "--server", &server(broker), "-o", "json"])
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn json_of(done: Done) -> Value {
    assert_eq!(done.code, 0, "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// All tasks, page by page, without what a restart changes.
fn tasks(client: &mut Client) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{TASKS}?limit=1000{cursor}")).expect(200);
        for task in page["items"].as_array().unwrap() {
            let mut task = task.clone();
            task.as_object_mut().unwrap().remove("lease_expires_at");
            all.push(task);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn fill(client: &mut Client, count: usize, bytes: usize) {
    let payload = "x".repeat(bytes);
    for _ in 0..count.div_ceil(500) {
        let tasks: Vec<Value> = (0..500).map(|n| json!({"type": "t", "payload": [n, payload]})).collect();
        client.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }).to_string()).expect(200);
    }
}

#[test]
fn a_broker_is_backed_up_and_comes_back_elsewhere() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    fill(&mut client, 1000, 200);
    client.post("/api/v1/claim", r#"{"worker_id":"w","max":3}"#).expect(200);
    client.post("/api/v1/queues/quiet/pause", "").expect(200);
    let before = tasks(&mut client);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("backup");
    let created = json_of(create(&broker, &dir));
    assert_eq!(created["tasks"], 1000, "{created}");
    let taken = create(&broker, &dir);
    assert_eq!(taken.code, 4, "{taken:?}");
    assert!(taken.stderr.contains("destination_not_empty"), "{taken:?}");

    // A pipe carries the same stream.
    let server = server(&broker);
    let piped = process::command(&["backup", "create", "--to", "-", "--server", &server]).output().unwrap();
    assert!(piped.status.success(), "{piped:?}");
    assert!(String::from_utf8_lossy(&piped.stderr).contains("backed up 1000 tasks"));
    let file = home.path().join("stream");
    std::fs::write(&file, &piped.stdout).unwrap();
    for path in [&dir, &file] {
        let verified = json_of(process::run(&["backup", "verify", shown(path), "-o", "json"]));
        assert_eq!((&verified["tasks"], &verified["version"]), (&1000.into(), &1.into()), "{verified}");
    }
    // The data directory of a running broker is refused.
    let own = shown(&broker.data_dir()).to_owned();
    let in_use =
        process::run(&["backup", "create", "--data-dir", &own, "--to", shown(&home.path().join("no"))]);
    assert_eq!(in_use.code, 4, "{in_use:?}");
    assert!(in_use.stderr.contains("--server"), "{in_use:?}");

    let new = tempfile::tempdir().unwrap();
    let data = new.path().join("data");
    let mut restore = process::command(&["backup", "restore", "-", "--data-dir", shown(&data), "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    restore.stdin.take().unwrap().write_all(&piped.stdout).unwrap();
    let restored = json_of(restore.wait_with_output().unwrap().into());
    assert!(restored["next_claim"].as_u64() > Some(1 << 32), "{restored}");
    let again = process::run(&["backup", "restore", shown(&dir), "--data-dir", shown(&data)]);
    assert_eq!(again.code, 4, "{again:?}");
    let copy = BrokerProcess::start_in(new);
    assert_eq!(tasks(&mut copy.client()), before);
    assert_eq!(copy.client().get("/api/v1/queues/quiet").expect(200)["paused"], true);

    // A stopped broker can be backed up by its data directory.
    let mut broker = broker;
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let offline = home.path().join("offline");
    let done = process::run(&["backup", "create", "--data-dir", &own, "--to", shown(&offline), "-o", "json"]);
    assert_eq!(json_of(done)["tasks"], 1000);
}

/// Submits on several connections while backups are taken. Each backup has everything acknowledged before, without a gap.
#[test]
fn a_backup_under_load_has_all_that_was_acknowledged() {
    let broker = BrokerProcess::start();
    let (over, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let home = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (broker, over, acknowledged) = (&broker, &over, &acknowledged);
            scope.spawn(move || {
                let mut client = broker.client();
                for n in 0.. {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    client.post(TASKS, &format!(r#"{{"id":"w{writer}-{n}","type":"t"}}"#)).expect(201);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..3 {
            while acknowledged.load(Ordering::SeqCst) < (round + 1) * 50 {
                // sleep: nothing signals that enough tasks were acknowledged.
                std::thread::sleep(Duration::from_millis(20));
            }
            let least = acknowledged.load(Ordering::SeqCst) as u64;
            let dir = home.path().join(round.to_string());
            let created = json_of(create(&broker, &dir));
            let most = acknowledged.load(Ordering::SeqCst) as u64 + 2;
            let found = created["tasks"].as_u64().unwrap();
            assert!((least..=most).contains(&found), "{least} <= {found} <= {most}");
        }
        over.store(true, Ordering::SeqCst);
    });
    let data = tempfile::tempdir().unwrap();
    let last = home.path().join("2");
    let into = data.path().join("data");
    assert_eq!(process::run(&["backup", "restore", shown(&last), "--data-dir", shown(&into)]).code, 0);
    let copy = BrokerProcess::start_in(data);
    let ids: Vec<String> =
        tasks(&mut copy.client()).iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    for writer in 0..2 {
        let own = ids.iter().filter(|id| id.starts_with(&format!("w{writer}-"))).count();
        assert!((0..own).all(|n| ids.contains(&format!("w{writer}-{n}"))), "without a gap");
    }
}

/// Reads the beginning of a backup and leaves the rest unread. It retries a 429, because the broker takes a moment to notice that
/// an earlier reader went away.
fn begin_reading(broker: &BrokerProcess, bytes: usize) -> (TcpStream, Vec<u8>) {
    let mut answer = vec![0; bytes];
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < end, "the backup before this one still runs");
        let mut stream = TcpStream::connect(broker.address).unwrap();
        write!(stream, "GET /api/v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let (status, rest) = answer.split_at_mut(12);
        stream.read_exact(status).unwrap();
        if status == b"HTTP/1.1 429" {
            // sleep: nothing signals that the broker has noticed.
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        assert_eq!(status, b"HTTP/1.1 200");
        stream.read_exact(rest).unwrap();
        return (stream, answer);
    }
}

#[test]
fn a_second_backup_waits_and_a_killed_broker_leaves_an_unfinished_one() {
    let mut broker = BrokerProcess::start();
    // This is more than the buffers of a connection hold.
    fill(&mut broker.client(), 4000, 10_000);
    let (reading, _) = begin_reading(&broker, 400);
    let home = tempfile::tempdir().unwrap();
    let second = create(&broker, &home.path().join("second"));
    assert_eq!(second.code, 6, "{second:?}");
    assert!(second.stderr.contains("backup_running"), "{second:?}");
    let refused = broker.client().get("/api/v1/backup");
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (429, true));
    // A slow reader blocks no other request.
    broker.client().post(TASKS, r#"{"id":"meanwhile","type":"t"}"#).expect(201);
    drop(reading);

    let (mut reading, mut got) = begin_reading(&broker, 200_000);
    broker.kill_and_restart();
    let _ = reading.read_to_end(&mut got);
    let at = got.windows(8).position(|window| window == b"WNDLSBKP").unwrap();
    let file = home.path().join("cut");
    std::fs::write(&file, &got[at..]).unwrap();
    let verified = process::run(&["backup", "verify", shown(&file)]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let restored =
        process::run(&["backup", "restore", shown(&file), "--data-dir", shown(&home.path().join("x"))]);
    assert_eq!(restored.code, 1, "{restored:?}");
    assert!(!home.path().join("x").exists());
    assert_eq!(tasks(&mut broker.client()).len(), 4001, "the broker has everything");
    assert_eq!(json_of(create(&broker, &home.path().join("whole")))["tasks"], 4001);
}

#[test]
fn other_stores_name_what_to_use() {
    let memory = BrokerProcess::start_with(&[("WINDLASS_STORE__URL", "memory")]);
    let redis = Redis::start();
    let on_redis = redis.broker();
    for (broker, words) in [(&memory, "store.url = embedded"), (&on_redis, "BGSAVE")] {
        let problem = broker.client().get("/api/v1/backup").expect(501);
        assert_eq!(problem["code"], "unsupported_by_store");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        let home = tempfile::tempdir().unwrap();
        let refused = create(broker, &home.path().join("backup"));
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains(words), "{refused:?}");
        assert!(!home.path().join("backup").exists(), "nothing is made");
    }
}

#[test]
fn a_target_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let broker = BrokerProcess::start();
    fill(&mut broker.client(), 500, 100);
    let full = process::command(&["backup", "create", "--to", "-", "--server", &server(&broker)])
        .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(6), "{full:?}");
    let home = tempfile::tempdir().unwrap();
    // A limit on file sizes simulates a full disk.
    let dir = home.path().join("backup");
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} backup create --to {} --server {}",
        env!("CARGO_BIN_EXE_windlass"),
        dir.display(),
        server(&broker)
    );
    let limited = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(limited.status.code(), Some(6), "{limited:?}");
    assert!(String::from_utf8_lossy(&limited.stderr).contains("cannot write the backup"), "{limited:?}");
    assert!(!dir.exists(), "nothing is left");
    for words in [["backup", "verify", "/nowhere/at/all"], ["backup", "verify", "/etc/hostname"]] {
        let wrong = process::run(&words);
        assert!(matches!(wrong.code, 1 | 3), "{wrong:?}");
        assert!(wrong.stderr.contains("backup"), "{wrong:?}");
    }
}
