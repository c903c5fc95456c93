//! Whoever listens on one process hears what happens on all that share its Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use windlass_client::Submit;
use windlass_client::redis::Library;
use windlass_core::Priority;

use super::{Redis, TASKS, claim, complete};
use crate::broker_process::BrokerProcess;
use crate::events_client::{Lines, Socket};
use crate::http::text;

/// How long to wait for one word before it is said again.
const A_MOMENT: Duration = Duration::from_millis(500);

async fn submit(broker: &BrokerProcess, kind: &str) -> String {
    let (address, body) = (broker.address, format!(r#"{{"type":"{kind}"}}"#));
    let post = move || text(&crate::http::Client::connect(address).post(TASKS, &body).expect(201)["id"]);
    tokio::task::spawn_blocking(post).await.unwrap()
}

/// What other processes do is heard a moment after the first began to listen: this waits until it is.
async fn hears(socket: &mut Socket, broker: &BrokerProcess) {
    hears_of(socket, async || submit(broker, "hello").await).await;
}

async fn hears_of(socket: &mut Socket, submit: impl AsyncFn() -> String) {
    for _ in 0..100 {
        let id = submit().await;
        let heard = async { while text(&socket.event().await["data"]["task_id"]) != id {} };
        if tokio::time::timeout(A_MOMENT, heard).await.is_ok() {
            return;
        }
    }
    panic!("it hears nothing of the other one");
}

/// The events of a task up to its end, as type and revision, in the order of revisions.
async fn story(socket: &mut Socket, id: &str) -> Vec<(String, u64)> {
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let event = socket.event().await;
        assert_ne!(event["type"], "gap", "{event}");
        if event["data"]["task_id"] == id {
            heard.push((text(&event["type"]), event["data"]["revision"].as_u64().unwrap()));
        }
    }
    heard.sort_by_key(|(_, revision)| *revision);
    heard
}

fn said(story: &[(String, u64)]) -> Vec<(&str, u64)> {
    story.iter().map(|(kind, revision)| (kind.as_str(), *revision)).collect()
}

const LIFE: [(&str, u64); 3] = [("task.submitted", 1), ("task.started", 2), ("task.completed", 3)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_processes_are_heard_on_each() {
    let redis = Redis::start();
    let (first, second) = (redis.broker(), redis.broker());
    let mut here = Socket::connect(first.address, "?type=task.*").await;
    let mut there = Socket::connect(second.address, "?type=task.*").await;
    hears(&mut here, &second).await;
    hears(&mut there, &first).await;
    let address = second.address;
    let mut stream =
        tokio::task::spawn_blocking(move || Lines::get(address, "/api/v1/events?type=task.completed", ""))
            .await
            .unwrap();

    // A library submits, one broker gives it out, the other takes the result.
    let library = Library::open(&redis.url).await.unwrap();
    // Each is another one: the same, submitted again, is answered with the task that is there, and nothing happens.
    let hello = async || {
        let hello = Submit::new("hello", &1).unwrap();
        library.client().submit(hello).await.unwrap().id.to_string()
    };
    for socket in [&mut here, &mut there] {
        hears_of(socket, &hello).await;
    }
    let task =
        library.client().submit(Submit::new("work", &1).unwrap().priority(Priority(250))).await.unwrap();
    let id = task.id.to_string();
    let (mut giver, mut taker) = (first.client(), second.client());
    let work = move || {
        let claimed = claim(&mut giver);
        complete(&mut taker, &claimed);
        text(&claimed["id"])
    };
    assert_eq!(tokio::task::spawn_blocking(work).await.unwrap(), id, "by its priority");
    for socket in [&mut here, &mut there] {
        assert_eq!(said(&story(socket, &id).await), LIFE);
    }
    let (number, streamed) = tokio::task::spawn_blocking(move || stream.event()).await.unwrap();
    assert_eq!(streamed["data"]["task_id"].as_str(), Some(&*id));
    library.stop().await.unwrap();

    // Who comes back to the same one goes on there; at another one its id says nothing, and it is told so.
    let last = submit(&first, "late").await;
    let mut back = Socket::connect(second.address, &format!("?type=task.*&last_id={number}")).await;
    let mut event = Value::Null;
    while event["data"]["task_id"] != last {
        event = back.event().await;
        assert_ne!(event["type"], "gap", "{event}");
    }
    let mut astray = Socket::connect(first.address, &format!("?type=task.*&last_id={number}")).await;
    let gap = astray.event().await;
    assert_eq!((&gap["type"], &gap["data"]["reason"]), (&"gap".into(), &"restart".into()), "{gap}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_could_not_hear_the_others_is_told() {
    let redis = Redis::start();
    let (first, second) = (redis.broker(), redis.broker());
    let mut here = Socket::connect(first.address, "?type=task.submitted&queue=default").await;
    hears(&mut here, &second).await;
    redis.say("CLIENT KILL TYPE pubsub");
    let mut event = Value::Null;
    while event["type"] != "gap" {
        event = here.event().await;
    }
    assert_eq!((&event["data"]["reason"], &event["data"]["missed"]), (&"unheard".into(), &Value::Null));
    hears(&mut here, &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_while_nobody_listens() {
    let redis = Redis::start();
    let (first, second) = (redis.broker(), redis.broker());
    let mut spy = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    spy.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    spy.write_all(b"SUBSCRIBE {shop}:events\r\n").unwrap();
    let mut said = vec![0; 1 << 16];
    assert!(spy.read(&mut said).unwrap() > 0, "it is subscribed");
    let unheard = submit(&second, "early").await;
    let mut here = Socket::connect(first.address, "?type=task.submitted").await;
    hears(&mut here, &second).await;
    let length = spy.read(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said[..length]).into_owned();
    assert!(said.contains("message") && !said.contains(&unheard), "{said}");
}
