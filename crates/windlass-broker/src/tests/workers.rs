use super::*;
use crate::ListWorkers;

#[tokio::test(start_paused = true)]
async fn workers_are_listed_with_what_they_told_and_what_they_run() {
    let broker = start();
    let mut events = broker.subscribe();
    broker.heartbeat(beat("b", 9, &[])).await.unwrap();
    let task = running(&broker, echo(), one("a")).await;
    pass(1000).await;
    let workers = broker.workers(ListWorkers::default()).await.workers;
    let seen: Vec<_> = workers.iter().map(|worker| (worker.name.as_str(), worker.incarnation)).collect();
    assert_eq!(seen, [("a", None), ("b", Some(9))]);
    assert_eq!(workers[1].host.as_deref(), Some("laptop"));
    assert_eq!(workers[1].last_seen_at, YEAR_2026);
    assert_eq!(broker.worker(&name("a")).await.unwrap().running, [task.record.id]);
    assert_eq!(broker.stats().await.unwrap().workers_active, 2);

    // Neither calls again: one is dead soon, the other is forgotten in time.
    pass(20_000).await;
    assert_eq!(broker.workers(ListWorkers::default()).await.workers.len(), 1);
    pass(600_000).await;
    assert!(broker.workers(ListWorkers::default()).await.workers.is_empty());
    let left = heard(&mut events).into_iter().filter(|kind| *kind == EventKind::WorkerLeft);
    assert_eq!(left.count(), 2);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_late_but_not_too_late_lives() {
    let broker = start();
    broker.heartbeat(beat("late", 1, &[])).await.unwrap();
    pass(19_000).await;
    // A newcomer makes the reaper look at everybody.
    broker.heartbeat(beat("new", 2, &[])).await.unwrap();
    pass(10).await;
    assert_eq!(broker.workers(ListWorkers::default()).await.workers.len(), 2);
    pass(1000).await;
    assert_eq!(broker.workers(ListWorkers::default()).await.workers.len(), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_worker_that_restarts_is_still_paused() {
    let broker = start();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    broker.pause_worker(&name("w")).await.unwrap();
    pass(30_000).await;
    assert_eq!(broker.workers(ListWorkers::default()).await.workers[0].processes, 0);
    assert!(broker.heartbeat(beat("w", 2, &[])).await.unwrap().paused);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workers_come_in_pages() {
    let broker = start();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        broker.heartbeat(beat(name, 1, &[])).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = broker.workers(ListWorkers { after, limit: 2 }).await;
        assert!(page.workers.len() <= 2);
        seen.extend(page.workers.into_iter().map(|worker| worker.name.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, names);
    let last = ListWorkers { after: Some(name("c")), limit: 2 };
    assert_eq!(broker.workers(last).await.next, None, "a full page that is the last one says so");
}

/// A page is bounded by what is on it, not only by the number of its rows.
#[tokio::test(start_paused = true)]
async fn workers_that_name_a_great_deal_make_a_page_short() {
    let broker = start();
    let queues: Vec<Name> = (0..1000).map(|number| name(&format!("{number:0100}"))).collect();
    for number in 0..40 {
        let beat = Beat { queues: queues.clone(), ..beat(&format!("w{number:02}"), 1, &[]) };
        broker.heartbeat(beat).await.unwrap();
    }
    let page = broker.workers(ListWorkers::default()).await;
    assert!((10..40).contains(&page.workers.len()), "{}", page.workers.len());
    assert_eq!(page.next.as_ref(), page.workers.last().map(|worker| &worker.name));
}
