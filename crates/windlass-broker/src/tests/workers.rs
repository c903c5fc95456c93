use super::*;

#[tokio::test(start_paused = true)]
async fn workers_are_listed_with_what_they_told_and_what_they_run() {
    let broker = start();
    let mut events = broker.subscribe();
    broker.heartbeat(beat("b", 9, &[])).await.unwrap();
    let task = running(&broker, echo(), one("a")).await;
    pass(1000).await;
    let workers = broker.workers().await;
    let seen: Vec<_> = workers.iter().map(|worker| (worker.name.as_str(), worker.incarnation)).collect();
    assert_eq!(seen, [("a", None), ("b", Some(9))]);
    assert_eq!(workers[1].host.as_deref(), Some("laptop"));
    assert_eq!(workers[1].last_seen_at, YEAR_2026);
    assert_eq!(broker.worker(&name("a")).await.unwrap().running, [task.record.id]);
    assert_eq!(broker.stats().await.unwrap().workers_active, 2);

    // Neither calls again: one is dead soon, the other is forgotten in time.
    pass(20_000).await;
    assert_eq!(broker.workers().await.len(), 1);
    pass(600_000).await;
    assert!(broker.workers().await.is_empty());
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
    assert_eq!(broker.workers().await.len(), 2);
    pass(1000).await;
    assert_eq!(broker.workers().await.len(), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_worker_that_restarts_is_still_paused() {
    let broker = start();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    broker.pause_worker(&name("w")).await.unwrap();
    pass(30_000).await;
    assert_eq!(broker.workers().await[0].processes, 0);
    assert!(broker.heartbeat(beat("w", 2, &[])).await.unwrap().paused);
    broker.stop().await;
}
