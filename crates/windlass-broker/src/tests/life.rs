use windlass_core::{Progress, StateName};
use windlass_store::Ledger;

use super::*;
use crate::{Failed, Retries};

fn failed(retryable: bool) -> Failed {
    Failed { error: "boom\nat main".to_owned(), retryable, retry_after_ms: None }
}

#[tokio::test(start_paused = true)]
async fn a_task_lives_from_submit_to_completed() {
    let broker = start();
    let mut events = broker.subscribe();
    let task = running(&broker, echo(), one("w")).await;
    assert_eq!(task.record.id.as_str().len(), 36);
    let id = &task.record.id;
    let progress = Progress { fraction: 0.5, note: None };
    let extension = broker.extend(id, token(&task), Some(60_000), Some(progress)).await.unwrap();
    assert_eq!(extension.lease_expires_at, Some(YEAR_2026 + 60_000));
    pass(250).await;

    let done = broker.complete(id, token(&task), Some(json("42"))).await.unwrap();
    assert_eq!(done.state, State::Completed { at: YEAR_2026 + 250 });
    assert_eq!(broker.get(id).await.unwrap().record.result, Some(json("42")));
    assert_eq!(
        broker.complete(id, token(&task), Some(json("43"))).await.unwrap(),
        done,
        "a repeat changes nothing"
    );
    refused(broker.fail(id, token(&task), failed(true)).await, "lease_lost");
    refused(broker.cancel(id).await, "task_terminal");

    use EventKind::{Completed, Progress as Reported, Started, Submitted, WorkerJoined};
    assert_eq!(heard(&mut events), [Submitted, WorkerJoined, Started, Reported, Completed]);
    let stats = broker.stats().await.unwrap();
    assert_eq!(stats.ledger, Ledger { submitted: 1, completed: 1, ..Ledger::default() });
    assert_eq!(stats.count(StateName::Completed), 1);
    assert_eq!(stats.mean_duration_ms, Some(250.0));
    let metrics = broker.metrics();
    let (kind, counts) = &metrics.types[0];
    assert_eq!((kind.as_str(), counts.submitted, counts.completed), ("echo", [0, 0, 1, 0], 1));
    assert_eq!((counts.duration.count(), counts.wait.count()), (1, 1));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_then_dead_lettered_and_a_person_can_retry() {
    let broker = start();
    let mut events = broker.subscribe();
    let task = running(&broker, echo(), one("w")).await;
    let id = task.record.id.clone();
    let record = broker.fail(&id, token(&task), failed(true)).await.unwrap();
    assert_eq!(record.state, State::Retrying { at: YEAR_2026 + 1000 });
    let waited = until(&broker, &id, |record| record.state == State::Pending).await;
    assert!((1000..1010).contains(&waited.as_millis()), "{waited:?}");

    let task = broker.claim(one("w")).await.unwrap().pop().unwrap();
    let record = broker.fail(&id, token(&task), failed(true)).await.unwrap();
    assert_eq!(record.state_name(), StateName::DeadLetter);
    use EventKind::{DeadLettered, Failed, Ready, Retrying, Started, Submitted, WorkerJoined};
    let told = [Submitted, WorkerJoined, Started, Failed, Retrying, Ready, Started, Failed, DeadLettered];
    assert_eq!(heard(&mut events), told);

    let task = broker.retry(&id).await.unwrap();
    assert_eq!((task.record.state_name(), task.record.attempts), (StateName::Pending, 0));
    let task = broker.claim(one("w")).await.unwrap().pop().unwrap();
    broker.complete(&id, token(&task), None).await.unwrap();
    refused(broker.retry(&id).await, "task_terminal");
    let retries = Retries { failed: 1, lease_lost: 0, manual: 1 };
    assert_eq!(broker.metrics().retries, retries);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_retried_is_a_dead_letter_at_once() {
    let broker = start();
    let task = running(&broker, Submit { max_retries: 100, ..echo() }, one("w")).await;
    let record = broker.fail(&task.record.id, token(&task), failed(false)).await.unwrap();
    assert_eq!(record.state_name(), StateName::DeadLetter);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_task_runs_again_without_using_an_attempt() {
    let broker = start();
    let task = running(&broker, echo(), one("w")).await;
    let record = broker.release(&task.record.id, token(&task), Some(5000)).await.unwrap();
    assert_eq!((record.state, record.attempts), (State::Scheduled { at: YEAR_2026 + 5000 }, 0));
    let again = broker.claim(ClaimRequest { wait_ms: 20_000, ..one("w") }).await.unwrap().pop().unwrap();
    assert_eq!(again.record.attempts, 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_worker_of_a_cancelled_task_is_told_and_its_outcome_refused() {
    let broker = start();
    let task = running(&broker, echo(), one("w")).await;
    let id = &task.record.id;
    assert_eq!(broker.cancel(id).await.unwrap().record.state_name(), StateName::Cancelled);
    let extension = broker.extend(id, token(&task), None, None).await.unwrap();
    assert!(extension.cancel_requested && extension.lease_expires_at.is_none());
    let pulse = broker.heartbeat(beat("w", 1, &[&task])).await.unwrap();
    assert_eq!(pulse.cancel, std::slice::from_ref(id));
    refused(broker.complete(id, token(&task), None).await, "lease_lost");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_id_is_one_task() {
    let broker = start_with(Settings { max_depth: Some(3), ..Settings::default() });
    let submit = |mark: u8| Submit { fingerprint: Some([mark; 16]), ..named("a") };
    assert!(!broker.submit(submit(1)).await.unwrap().existed);
    assert!(broker.submit(submit(1)).await.unwrap().existed);
    refused(broker.submit(submit(2)).await, "task_exists");

    let batch = || vec![named("b"), submit(2), named("c")];
    let codes = |outcomes: crate::Answers| -> Vec<&'static str> {
        outcomes.map(|outcome| outcome.map_or_else(|error| error.code(), |_| "ok")).collect()
    };
    let outcomes = broker.submit_batch(batch(), true).await.unwrap();
    assert_eq!(codes(outcomes), ["aborted", "task_exists", "aborted"]);
    let outcomes = broker.submit_batch(batch(), false).await.unwrap();
    assert_eq!(codes(outcomes), ["ok", "task_exists", "ok"]);
    refused(broker.submit(echo()).await, "queue_full");
    broker.stop().await;
}

/// Real threads, so that reads and commits interleave.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_report_at_once_one_wins() {
    let broker = start();
    let mut events = broker.subscribe();
    for round in 0..20 {
        let task = running(&broker, echo(), one("w")).await;
        let (id, token) = (task.record.id.clone(), token(&task));
        let begin = Arc::new(tokio::sync::Barrier::new(64));
        let reports = (0..64).map(|i| {
            let (broker, id, begin) = (broker.clone(), id.clone(), begin.clone());
            tokio::spawn(async move {
                begin.wait().await;
                match i % 2 {
                    0 => broker
                        .complete(&id, token, Some(json(&i.to_string())))
                        .await
                        .map(|record| record.state),
                    _ => broker.fail(&id, token, failed(false)).await.map(|record| record.state),
                }
            })
        });
        let reports: Vec<_> = reports.collect();
        let mut accepted = Vec::new();
        for report in reports {
            match report.await.unwrap() {
                Ok(state) => accepted.push(state),
                Err(error) => assert_eq!(error.code(), "lease_lost", "round {round}"),
            }
        }
        let end = broker.get(&id).await.unwrap().record;
        assert!(!accepted.is_empty() && accepted.iter().all(|state| *state == end.state));
        assert_eq!(end.history.len(), 1);
        let ends = heard(&mut events);
        let ends = ends.iter().filter(|kind| matches!(kind, EventKind::Completed | EventKind::DeadLettered));
        assert_eq!(ends.count(), 1, "round {round}");
    }
    broker.stop().await;
}
