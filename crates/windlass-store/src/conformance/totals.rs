//! Counters, the ledger, and the store as a whole.

use windlass_core::choice::Draws;
use windlass_core::transition::Failure;
use windlass_core::{NewTask, Priority, StateName, Task};

use super::Harness;
use super::steps::{claim, expire, extension, failure, id, ids, name, queue};
use crate::store::{Claim, Error, Insert, Inserted, Ledger, List, ListQueues, QueueCounts};

pub async fn queues_are_listed_by_name(h: &mut Harness) {
    assert!(h.store.queues(None).await.expect("queues").is_empty());
    let of = |queue: &str, text: &str, priority| NewTask {
        queue: name(queue),
        priority: Priority(priority),
        ..h.task(text)
    };
    let first = h.wall();
    h.add(vec![of("m", "a", 250)]).await;
    h.clock.advance_ms(10);
    h.add(vec![of("m", "b", 50), of("b", "c", 100)]).await;
    h.pause("z", true).await;
    let names = |counts: Vec<QueueCounts>| -> Vec<String> {
        counts
            .iter()
            .map(|counts| format!("{}{}", counts.name, if counts.paused { " paused" } else { "" }))
            .collect()
    };
    assert_eq!(names(h.store.queues(None).await.expect("queues")), ["b", "m", "z paused"]);
    assert!(h.store.queues(Some(&name("unknown"))).await.expect("queues").is_empty());
    let all = h.store.queues(None).await.expect("queues");
    for (after, limit, wanted) in [
        (None, 2, &all[..2]),
        (Some("b"), 2, &all[1..]),
        (Some("a"), 1, &all[..1]),
        (Some("m"), 0, &all[..0]),
        (Some("z"), 9, &all[..0]),
    ] {
        let list = ListQueues { after: after.map(name), limit };
        assert_eq!(h.store.queue_page(list).await.expect("a page"), wanted, "{limit} behind {after:?}");
    }
    let counts = h.counts("m").await;
    assert_eq!((counts.oldest_pending_at, counts.pending_by_class), (Some(first), [1, 0, 0, 1]));
    h.take(Claim { queues: vec![queue("m", 1)], ..claim() }).await;
    let counts = h.counts("m").await;
    assert_eq!((counts.oldest_pending_at, counts.pending_by_class), (Some(first + 10), [0, 0, 0, 1]));
    assert_eq!((counts.by_state[StateName::Running.index()], counts.waiting()), (1, 1));
}

pub async fn the_ledger_counts_every_change(h: &mut Harness) {
    let last =
        |text: &str| NewTask { expires_at: Some(h.wall() + 10), priority: Priority(0), ..h.task(text) };
    h.add(vec![h.task("a"), h.task("b"), h.task("c"), h.task("d"), last("e")]).await;
    let tasks = h.take(Claim { max: 4, ..claim() }).await;
    h.complete(&tasks[0].record).await;
    h.fail(&tasks[1], failure()).await;
    h.fail(&tasks[2], Failure { retryable: false, ..failure() }).await;
    h.lose(&tasks[3]).await;
    h.cancel(&h.peek("d").await).await;
    h.clock.advance_ms(10);
    h.promote().await;
    h.remove(&h.peek("a").await).await;
    let expected = Ledger {
        submitted: 5,
        completed: 1,
        failed: 2,
        crashed: 1,
        dead_lettered: 1,
        cancelled: 1,
        expired: 1,
        removed: 1,
    };
    assert_eq!(h.store.ledger().await.expect("ledger"), expected);
}

pub async fn counters_agree_after_a_random_mix(h: &mut Harness) {
    let mut draws = Draws::new(2026);
    for round in 0..400 {
        random_step(h, &mut draws, round).await;
        if round % 50 == 0 {
            h.check().await;
        }
        if round % 150 == 149 {
            h.reopen().await;
        }
    }
    let ledger = h.store.ledger().await.expect("ledger");
    let counts =
        [ledger.completed, ledger.failed, ledger.crashed, ledger.cancelled, ledger.expired, ledger.removed];
    assert!(counts.iter().all(|count| *count > 0), "the mix leaves something out: {ledger:?}");
}

async fn random_step(h: &Harness, draws: &mut Draws, round: u64) {
    let mut draw = |of: u64| draws.next_u64() % of;
    let queues = ["p", "q", "r"];
    match draw(10) {
        0..3 => {
            let tasks = (0..draw(4)).map(|i| NewTask {
                queue: name(queues[draw(3) as usize]),
                priority: Priority(draw(256) as u8),
                scheduled_at: (draw(3) == 0).then(|| h.wall() + draw(300)),
                expires_at: (draw(4) == 0).then(|| h.wall() + draw(200)),
                retention_ms: draw(500),
                ..h.task(&format!("task-{round}-{i}"))
            });
            h.add(tasks.collect()).await;
        }
        3..7 => {
            let queues = queues.iter().map(|text| queue(text, 1)).collect();
            let lease_ms = 50 + draw(100);
            for task in h.take(Claim { queues, max: 3, lease_ms, seed: round, ..claim() }).await {
                match draw(6) {
                    0 => drop(h.complete(&task.record).await),
                    1 => drop(h.fail(&task, Failure { retryable: draw(2) == 0, ..failure() }).await),
                    2 => drop(h.release(&task.record).await),
                    3 => drop(h.cancel(&task.record).await),
                    4 => drop(h.extend(extension(&task.record)).await),
                    _ => {}
                }
            }
        }
        7 => {
            h.clock.advance_ms(draw(300));
            for task in h.store.expired(expire()).await.expect("expired").tasks {
                h.lose(&task).await;
            }
        }
        8 => {
            h.promote().await;
            for Task { record, .. } in h.store.prunable(9).await.expect("prunable").tasks {
                h.remove(&record).await;
            }
        }
        _ => {
            let dead = List { states: vec![StateName::DeadLetter], limit: 2, ..List::default() };
            for Task { record, .. } in h.store.list(dead).await.expect("list").tasks {
                h.retry(&record).await;
            }
        }
    }
}

fn ranked(h: &Harness, text: &str, priority: u8) -> NewTask {
    NewTask { priority: Priority(priority), ..h.task(text) }
}

pub async fn everything_outlives_a_reopen(h: &mut Harness) {
    let levels = [("a", 1), ("b", 9), ("c", 9), ("d", 9), ("e", 9)];
    h.add(levels.iter().map(|(text, priority)| ranked(h, text, *priority)).collect()).await;
    let done = h.take_one().await;
    h.complete(&done.record).await;
    let requeued = h.cancel(&h.peek("c").await).await;
    h.retry(&requeued).await;
    h.remove(&h.peek("e").await).await;
    h.pause("paused", true).await;
    let scan = List { limit: 100, ..List::default() };
    let (tasks, ledger) = (h.walk(scan.clone()).await, h.store.ledger().await.expect("ledger"));
    let queues = h.store.queues(None).await.expect("queues");
    if !h.reopen().await {
        return;
    }
    assert_eq!(h.walk(scan).await, tasks);
    assert_eq!(h.store.ledger().await.expect("ledger"), ledger);
    assert_eq!(h.store.queues(None).await.expect("queues"), queues);
    let again =
        h.store.insert(Insert { tasks: vec![h.task("a")].into(), atomic: false, max_depth: None }).await;
    assert!(matches!(again.expect("insert")[..], [Inserted::Same(_)]), "ids are still taken");
    let new = h.add(vec![ranked(h, "f", 9)]).await.remove(0);
    assert!(
        tasks.iter().all(|task| task.record.seq < new.seq && task.record.order < new.seq),
        "numbers go on"
    );
    assert_eq!(ids(&h.take(Claim { max: 9, ..claim() }).await), ["d", "c", "f", "a"], "so does the order");
}

pub async fn a_closed_store_answers_so(h: &mut Harness) {
    let record = h.add_named(&["a"]).await.remove(0);
    h.store.close().await.expect("close");
    let insert = Insert { tasks: vec![h.task("b")].into(), atomic: false, max_depth: None };
    assert!(matches!(h.store.insert(insert).await, Err(Error::Closed)));
    assert!(matches!(h.store.claim(Claim { wait_ms: 60_000, ..claim() }).await, Err(Error::Closed)));
    assert!(matches!(h.store.commit(Vec::new()).await, Err(Error::Closed)));
    assert!(matches!(h.store.extend(Vec::new()).await, Err(Error::Closed)));
    assert!(matches!(h.store.due(1).await, Err(Error::Closed)));
    assert!(matches!(h.store.prunable(1).await, Err(Error::Closed)));
    assert!(matches!(h.store.expired(expire()).await, Err(Error::Closed)));
    assert!(matches!(h.store.get(&id("a")).await, Err(Error::Closed)));
    assert!(matches!(h.store.peek(&id("a")).await, Err(Error::Closed)));
    assert!(matches!(h.store.list(List { limit: 1, ..List::default() }).await, Err(Error::Closed)));
    assert!(matches!(h.store.position(&record).await, Err(Error::Closed)));
    assert!(matches!(h.store.queues(None).await, Err(Error::Closed)));
    assert!(matches!(h.store.ledger().await, Err(Error::Closed)));
    assert!(matches!(h.store.set_paused(&name("q"), true).await, Err(Error::Closed)));
}
