//! Brokers that share a Redis, and library mode beside them, on a real server.

mod away;
mod contest;
mod events;
mod idle;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_client::Submit;
use windlass_client::redis::Library;
use windlass_client::worker::Context;

use crate::broker_process::BrokerProcess;
use crate::http::{Client, text};

const TASKS: &str = "/api/v1/tasks";

/// A Redis that syncs every write, on a port of its own.
pub(crate) struct Redis {
    child: Child,
    pub(crate) url: String,
    pub(crate) port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// A cluster of one node, over whose slots a store is spread as over those of many.
    pub(crate) fn start_cluster() -> Redis {
        let mut redis = Redis::start_with(&["--cluster-enabled", "yes"]);
        redis.say("CLUSTER ADDSLOTSRANGE 0 16383");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !redis.say("CLUSTER INFO").contains("cluster_state:ok") {
            assert!(Instant::now() < deadline, "the cluster does not come about");
            // sleep: a cluster tells of what it agreed on only when it is asked.
            std::thread::sleep(Duration::from_millis(10));
        }
        redis.url = format!("redis+cluster://127.0.0.1:{}?prefix=shop", redis.port);
        redis
    }

    fn start_with(more: &[&str]) -> Redis {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning", "--dir"])
            .arg(dir.path())
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server, which `cargo xtask test` installs");
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not start");
            // sleep: a server that starts says so only by its port.
            std::thread::sleep(Duration::from_millis(10));
        }
        Redis { child, port, url: format!("redis://127.0.0.1:{port}/1?prefix=shop"), _dir: dir }
    }

    /// What it answers to a command, which ends the connection.
    fn say(&self, command: &str) -> String {
        let mut connection = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        connection.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The number of tasks in all parts of a spread store.
    pub(crate) fn tasks_of_parts(&self) -> u64 {
        let commands: Vec<String> = (0..16).map(|part| format!("HLEN {{shop/{part}}}:ids")).collect();
        let answers = self.say(&commands.join("\r\n"));
        answers.lines().filter_map(|line| line.strip_prefix(':')?.trim().parse::<u64>().ok()).sum()
    }

    pub(crate) fn broker(&self) -> BrokerProcess {
        BrokerProcess::start_with(&[("WINDLASS_STORE__URL", &self.url)])
    }
}

/// A port that nobody uses; nor the one that a node of a cluster talks to others on, which is 10,000 above.
fn free_port() -> u16 {
    loop {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn claim(client: &mut Client) -> Value {
    let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":30}"#).expect(200);
    claimed["tasks"][0].clone()
}

fn complete(client: &mut Client, task: &Value) {
    let (id, lease) = (text(&task["id"]), text(&task["lease"]));
    client.post(&format!("{TASKS}/{id}/complete"), &format!(r#"{{"lease":"{lease}"}}"#)).expect(200);
}

#[test]
fn two_brokers_share_a_redis_and_one_survives_the_other() {
    let redis = Redis::start();
    let (leader, other) = (redis.broker(), redis.broker());
    let (mut here, mut there) = (leader.client(), other.client());
    for client in [&mut here, &mut there] {
        let health = client.get("/health").expect(200);
        assert_eq!((&health["store"], &health["durability"]), (&"redis".into(), &"sync".into()), "{health}");
    }
    let submitted = here.post(TASKS, r#"{"type":"t","unique_key":"k"}"#).expect(201);
    let task = claim(&mut there);
    assert_eq!(task["id"], submitted["id"]);
    let again = there.post(TASKS, r#"{"type":"t","unique_key":"k"}"#).expect(200);
    assert_eq!(again["id"], submitted["id"], "a key is held on all of them");
    complete(&mut here, &task);
    let done = there.get(&format!("{TASKS}/{}", text(&task["id"]))).expect(200);
    assert_eq!(done["state"], "completed");
    // What is due is looked after by the one that is left when the leader is killed.
    let delayed = there.post(TASKS, r#"{"type":"t","delay_seconds":1}"#).expect(201);
    drop(leader);
    let task = claim(&mut there);
    assert_eq!(task["id"], delayed["id"]);
    complete(&mut there, &task);
    let stats = there.get("/api/v1/stats").expect(200);
    assert_eq!((&stats["ledger"]["submitted"], &stats["ledger"]["completed"]), (&2.into(), &2.into()));
}

#[test]
fn a_retry_at_one_broker_right_after_a_cancel_at_another_loses_no_dependent() {
    for redis in [Redis::start(), Redis::start_cluster()] {
        let (first, second) = (redis.broker(), redis.broker());
        // The first broker leads, so its cascade races with a retry at either broker.
        crate::rest_workflows::cancel_and_retry(&mut second.client(), &mut first.client(), 40);
    }
}

#[test]
fn a_flushed_redis_shows_in_health() {
    let redis = Redis::start();
    let broker = redis.broker();
    let mut client = broker.client();
    assert_eq!(client.get("/health").expect(200)["problem"], Value::Null);
    client.post(TASKS, r#"{"type":"t"}"#).expect(201);
    redis.say("FLUSHALL");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let health = client.get("/health").expect(200);
        if health["problem"].as_str().is_some_and(|text| text.contains("Redis lost its data set")) {
            assert_eq!(health["status"], "ok", "it still serves");
            return;
        }
        assert!(Instant::now() < deadline, "{health}");
        // sleep: health can only be polled.
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_slot_fires_once_on_two_brokers() {
    let redis = Redis::start();
    let (first, second) = (redis.broker(), redis.broker());
    let schedule = r#"{"id":"tick","cron":"@every 1s","task":{"type":"t","payload":"{{scheduled_at}}"}}"#;
    first.client().post("/api/v1/schedules", schedule).expect(201);
    for _ in 0..3 {
        let task = claim(&mut second.client());
        complete(&mut first.client(), &task);
    }
    // No slot is before the tasks that are listed now and fires again later.
    first.client().post("/api/v1/schedules/tick/pause", "{}").expect(200);
    let all = first.client().get(TASKS).expect(200);
    let mut slots: Vec<String> =
        all["items"].as_array().expect("a list").iter().map(|task| text(&task["payload"])).collect();
    let stats = first.client().get("/api/v1/stats").expect(200);
    assert_eq!(stats["ledger"]["submitted"].as_u64(), Some(slots.len() as u64), "{all}");
    let tasks = slots.len();
    slots.sort();
    slots.dedup();
    assert!(slots.len() == tasks && tasks >= 3, "as many tasks as slots: {slots:?}");
}

#[test]
fn a_limit_set_at_one_broker_holds_at_the_other() {
    let redis = Redis::start();
    let (first, second) = (redis.broker(), redis.broker());
    let limit = json!({"max_concurrency": 1});
    crate::rest_limits::put(&mut first.client(), "/api/v1/limits/key/tenant-7", &limit).expect(201);
    for _ in 0..2 {
        second.client().post(TASKS, r#"{"type":"t","key":"tenant-7"}"#).expect(201);
    }
    let task = claim(&mut second.client());
    let nothing = first.client().post("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":0}"#).expect(200);
    assert_eq!(nothing["tasks"].as_array().map(Vec::len), Some(0), "{nothing}");
    complete(&mut first.client(), &task);
    claim(&mut first.client());
}

async fn double(_: Context, number: u64) -> Result<u64, windlass_client::worker::Failure> {
    Ok(number * 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_works_without_a_broker_and_beside_one() {
    let redis = Redis::start();
    let library = Library::open(&redis.url).await.unwrap();
    let stop = CancellationToken::new();
    let worker = library.worker().handler("double", double).build().unwrap();
    let working = tokio::spawn(worker.run(stop.clone()));
    let task = library.client().submit(Submit::new("double", &21).unwrap()).await.unwrap();
    let patience = Duration::from_secs(30);
    assert_eq!(library.client().result::<u64>(&task.id, patience).await.unwrap(), 42);
    // A broker on the same Redis shows what was done, and what it is given is done by the library.
    let broker = redis.broker();
    let id = task.id.to_string();
    let seen = tokio::task::spawn_blocking(move || {
        let mut client = broker.client();
        let done = client.get(&format!("{TASKS}/{id}")).expect(200);
        assert_eq!((&done["state"], &done["result"]), (&"completed".into(), &42.into()));
        let given = client.post(TASKS, r#"{"type":"double","payload":4}"#).expect(201);
        client.get(&format!("{TASKS}/{}?wait=30s", text(&given["id"]))).expect(200)
    });
    assert_eq!(seen.await.unwrap()["result"], 8);
    stop.cancel();
    working.await.unwrap();
    library.stop().await.unwrap();
}
