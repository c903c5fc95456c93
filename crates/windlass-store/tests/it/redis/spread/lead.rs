//! Whoever leads the first part of a spread store leads all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::NewTask;
use windlass_store::clock::ManualClock;
use windlass_store::{Clock, Store};

use super::super::shared::add;
use super::super::{ask, fresh_prefix, open};
use super::{PARTS, cluster, of, queues};

const PATIENCE: Duration = Duration::from_secs(30);

/// A task of every queue that comes up in a second; more parts than one have some.
async fn add_later(store: &Arc<dyn Store>, now: u64) {
    let later = |queue: &str| NewTask { scheduled_at: Some(now + 1000), ..of(queue, queue, now) };
    add(store, queues().iter().map(|queue| later(queue.name.as_str())).collect()).await;
}

/// How many tasks are due for whoever leads.
async fn due(store: &Arc<dyn Store>) -> usize {
    store.due(100).await.expect("due").tasks.len()
}

async fn all_are_due(store: &Arc<dyn Store>) {
    let deadline = Instant::now() + PATIENCE;
    while due(store).await < queues().len() {
        assert!(Instant::now() < deadline, "not all parts are led");
        // sleep: that a process leads now is told by what it finds.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_leads_all_parts_and_another_follows_it() {
    let (clock, url) = (ManualClock::shared(), cluster().url(&fresh_prefix(), PARTS));
    let here = open(&url, clock.clone()).await;
    let there = open(&url, clock.clone()).await;
    add_later(&there, clock.now().wall).await;
    clock.advance_ms(2000);
    assert_eq!(due(&there).await, 0, "another one leads");
    assert_eq!(due(&here).await, queues().len());
    here.close().await.expect("close");
    all_are_due(&there).await;
}

/// Somebody else had a part for a later term than the first part knows of, because its server lost its last writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_that_was_given_before_leads_no_part() {
    let (clock, prefix) = (ManualClock::shared(), fresh_prefix());
    let store = open(&cluster().url(&prefix, PARTS), clock.clone()).await;
    add_later(&store, clock.now().wall).await;
    clock.advance_ms(2000);
    all_are_due(&store).await;
    let tell = |part: usize, words: &[&str]| {
        let key = format!("{{{prefix}/{part}}}:{}", words[1]);
        let words = [&[words[0], key.as_str()][..], &words[2..]].concat();
        let answers = cluster().ports.iter().map(|port| ask(*port, &words));
        answers.filter(|answer| !answer.contains("MOVED")).collect::<String>()
    };
    let number = |part: usize, field: &str| -> u64 {
        let answer = tell(part, &["HGET", "meta", field]);
        answer.trim().parse().unwrap_or_else(|_| panic!("{field} of {part}: {answer}"))
    };
    let before = number(0, "term");
    for part in 1..4 {
        assert_eq!(number(part, "head"), before, "part {part} is led for that term");
        tell(part, &["SET", "leader", "somebody:7"]);
        tell(part, &["HSET", "meta", "head", "99"]);
    }
    // At first it finds itself deposed, and then that its term was given before.
    all_are_due(&store).await;
    assert!(number(0, "term") > 99);
    for part in 1..4 {
        assert_eq!(number(part, "head"), number(0, "term"), "part {part} is led for the new term");
    }
}
