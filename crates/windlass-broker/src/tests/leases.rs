use windlass_core::{Outcome, StateName};

use super::*;
use crate::{Failed, Finish, ListWorkers, Verdict};

#[tokio::test(start_paused = true)]
async fn a_lost_lease_goes_back_and_its_holder_can_do_nothing() {
    let broker = start();
    let mut events = broker.subscribe();
    let lease = ClaimRequest { lease_ms: Some(5000), ..one("w") };
    let task = running(&broker, echo(), lease.clone()).await;
    let id = task.record.id.clone();
    let waited = until(&broker, &id, |record| record.state == State::Pending).await;
    assert!((5000..5010).contains(&waited.as_millis()), "{waited:?}");

    let record = broker.get(&id).await.unwrap().record;
    assert_eq!((record.attempts, record.crashes, record.history[0].outcome), (1, 1, Outcome::Crashed));
    assert_eq!(record.error.as_deref(), Some("the lease of worker w ran out"));
    refused(broker.complete(&id, token(&task), None).await, "lease_lost");
    refused(broker.extend(&id, token(&task), None, None).await, "lease_lost");
    refused(broker.release(&id, token(&task), None).await, "lease_lost");
    assert_eq!(broker.heartbeat(beat("w", 1, &[&task])).await.unwrap().lost, std::slice::from_ref(&id));

    // The second crash is the limit of this task.
    broker.claim(lease).await.unwrap();
    until(&broker, &id, |record| record.state_name() == StateName::DeadLetter).await;
    assert_eq!(broker.metrics().leases_expired, 2);
    assert!(heard(&mut events).ends_with(&[EventKind::Started, EventKind::Failed, EventKind::DeadLettered]));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_every_lease() {
    let broker = start();
    let lease = || ClaimRequest { lease_ms: Some(6000), ..one("w") };
    let (first, second) = (running(&broker, echo(), lease()).await, running(&broker, echo(), lease()).await);
    for _ in 0..12 {
        let pulse = broker.heartbeat(beat("w", 1, &[&first, &second])).await.unwrap();
        assert_eq!(pulse.extended, [first.record.id.clone(), second.record.id.clone()]);
        pass(5000).await;
    }
    broker.complete(&first.record.id, token(&first), None).await.unwrap();
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_leases_go_back_before_they_run_out() {
    let broker = start();
    let mut events = broker.subscribe();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    let task = running(&broker, echo(), ClaimRequest { lease_ms: Some(600_000), ..one("w") }).await;
    let script = running(&broker, echo(), ClaimRequest { lease_ms: Some(60_000), ..one("script") }).await;
    let waited = until(&broker, &task.record.id, |record| record.state == State::Pending).await;
    assert!((20_000..20_010).contains(&waited.as_millis()), "{waited:?}");
    let error = broker.get(&task.record.id).await.unwrap().record.error;
    assert!(error.unwrap().contains("heartbeats stopped"));
    assert!(heard(&mut events).contains(&EventKind::WorkerLeft));
    refused(broker.worker(&name("w")).await, "not_found");

    // A worker without heartbeats is not judged: its lease runs its full length.
    let waited = until(&broker, &script.record.id, |record| record.state == State::Pending).await;
    assert!((39_900..40_010).contains(&waited.as_millis()), "{waited:?}");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_gives_back_what_it_holds_at_once() {
    let broker = start();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    let task = running(&broker, echo(), one("w")).await;
    let pulse = broker.heartbeat(Beat { leaving: true, ..beat("w", 1, &[&task]) }).await.unwrap();
    assert_eq!(pulse.lost, std::slice::from_ref(&task.record.id));
    let waited = until(&broker, &task.record.id, |record| record.state == State::Pending).await;
    assert!(waited.as_millis() < 10, "{waited:?}");
    assert!(broker.workers(ListWorkers::default()).await.workers.is_empty());
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_worker_gets_the_leases_of_its_former_life_taken_back() {
    let broker = start();
    let long = || ClaimRequest { lease_ms: Some(600_000), ..one("w") };
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    let old = running(&broker, echo(), long()).await;
    let handed_over = running(&broker, echo(), long()).await;
    pass(3000).await;

    broker.heartbeat(beat("w", 2, &[&handed_over])).await.unwrap();
    pass(1).await;
    let new = running(&broker, echo(), long()).await;
    // It does not name its newest task yet, but it was born before that lease.
    pass(4999).await;
    broker.heartbeat(beat("w", 2, &[&handed_over])).await.unwrap();
    assert_eq!(broker.get(&old.record.id).await.unwrap().record.attempts, 1);
    let waited = until(&broker, &old.record.id, |record| record.state == State::Pending).await;
    assert!((1990..2010).contains(&waited.as_millis()), "half of the patience, after 8 s: {waited:?}");
    for kept in [&new, &handed_over] {
        broker.complete(&kept.record.id, token(kept), None).await.unwrap();
    }
    refused(broker.complete(&old.record.id, token(&old), None).await, "lease_lost");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_living_workers_of_one_name_do_not_take_each_others_tasks() {
    let broker = start();
    let mut held = Vec::new();
    for incarnation in [1, 2] {
        broker.heartbeat(beat("w", incarnation, &[])).await.unwrap();
        pass(1).await;
        held.push(running(&broker, echo(), one("w")).await);
    }
    for _ in 0..20 {
        for (incarnation, task) in [1, 2].into_iter().zip(&held) {
            let pulse = broker.heartbeat(beat("w", incarnation, &[task])).await.unwrap();
            assert_eq!(pulse.extended.len(), 1);
        }
        assert_eq!(broker.worker(&name("w")).await.unwrap().processes, 2);
        pass(5000).await;
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reports_in_one_commit_are_judged_one_by_one() {
    let broker = start();
    let done = running(&broker, echo(), one("w")).await;
    let failed = running(&broker, echo(), one("w")).await;
    let released = running(&broker, echo(), one("w")).await;
    let finish = |task: &Task, verdict| Finish { id: task.record.id.clone(), token: token(task), verdict };
    let complete = || Verdict::Completed { result: None };
    let failure = Failed { error: "no".to_owned(), retryable: true, retry_after_ms: None };
    let unknown = Finish { id: TaskId::new("unknown").unwrap(), ..finish(&done, complete()) };
    let answers = broker
        .finish_all(vec![
            finish(&done, complete()),
            finish(&failed, Verdict::Failed(failure)),
            finish(&done, complete()),
            unknown,
            finish(&released, Verdict::Released { delay_ms: None }),
            finish(&released, complete()),
        ])
        .await
        .unwrap();
    let told: Vec<String> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(record) => record.state_name().as_str().to_owned(),
            Err(error) => error.code().to_owned(),
        })
        .collect();
    assert_eq!(told, ["completed", "retrying", "completed", "not_found", "pending", "lease_lost"]);
    assert_eq!(broker.store().ledger().await.unwrap().completed, 1, "a repeated report is not counted twice");
    broker.stop().await;
}
