//! The broker on a store that misbehaves.

use windlass_core::{Outcome, StateName};
use windlass_store::faults::{Fault, Faulty, Schedule, Verb};

use super::*;
use crate::{Failed, Finish, Verdict};

pub(super) fn start_faulty() -> (Broker, Arc<Faulty>) {
    let clock = SimulatedClock::new();
    let faulty = Faulty::new(MemoryStore::new(clock.clone()));
    (Broker::start(faulty.clone(), clock, Settings::default()), faulty)
}

#[tokio::test(start_paused = true)]
async fn the_loops_outlive_what_the_store_does_to_them() {
    let (broker, faulty) = start_faulty();
    let faults = [Fault::Refuse, Fault::LoseAnswer, Fault::Silence, Fault::Delay(Duration::from_secs(3))];
    let looks = [Verb::Due, Verb::Expired, Verb::Prunable, Verb::Commit];
    for (i, (verb, fault)) in looks.iter().flat_map(|verb| faults.map(|fault| (*verb, fault))).enumerate() {
        let task = id(&format!("task-{i}"));
        let submit =
            Submit { id: Some(task.clone()), start: Start::AfterMs(1000), retention_ms: 3000, ..echo() };
        broker.submit(submit).await.unwrap();
        faulty.once(verb, fault);
        // Promoted, claimed, lost, claimed, lost for good, forgotten: each of the loops has had its turn.
        for _ in 0..2 {
            until(&broker, &task, |record| record.state == State::Pending).await;
            let claim = ClaimRequest { lease_ms: Some(1000), ..one("w") };
            assert_eq!(broker.claim(claim).await.unwrap().len(), 1, "{verb:?} {fault:?}");
        }
        until(&broker, &task, |record| record.state_name() == StateName::DeadLetter).await;
        let mut waited = 0;
        while broker.get(&task).await.is_ok() {
            pass(1000).await;
            waited += 1;
            assert!(waited < 100, "never forgotten after {verb:?} {fault:?}");
        }
    }
    assert_eq!(faulty.fired(), 16);
    assert!(broker.health().await.loops.iter().all(|it| it.failures == 0));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_answer_was_lost_is_repeated_and_those_who_wait_hear_of_it() {
    let (broker, faulty) = start_faulty();
    let task = running(&broker, echo(), one("w")).await;
    let id = task.record.id.clone();
    let waiter = tokio::spawn({
        let (broker, id) = (broker.clone(), id.clone());
        async move { broker.wait(&id, 60_000).await }
    });
    pass(1).await;
    faulty.once(Verb::Commit, Fault::LoseAnswer);
    refused(broker.complete(&id, token(&task), Some(json("1"))).await, "store_failed");
    let again = broker.complete(&id, token(&task), Some(json("1"))).await.unwrap();
    assert_eq!((again.state_name(), again.history.len()), (StateName::Completed, 1));
    assert_eq!(waiter.await.unwrap().unwrap().record.result, Some(json("1")));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_made_before_is_answered_only_when_the_store_vouches_for_it() {
    let (broker, faulty) = start_faulty();
    let task = running(&broker, echo(), one("w")).await;
    let (id, token) = (task.record.id.clone(), token(&task));
    broker.complete(&id, token, None).await.unwrap();
    let report = || Finish { id: id.clone(), token, verdict: Verdict::Completed { result: None } };
    faulty.once(Verb::AreKept, Fault::LoseAnswer);
    refused(broker.complete(&id, token, None).await, "store_failed");
    faulty.once(Verb::AreKept, Fault::LoseAnswer);
    refused(broker.finish_all(vec![report()]).await, "store_failed");
    assert!(broker.complete(&id, token, None).await.is_ok());
    assert!(broker.finish_all(vec![report()]).await.unwrap()[0].is_ok());

    let task = running(&broker, Submit { max_retries: 3, ..echo() }, one("w")).await;
    let (id, token) = (task.record.id.clone(), super::token(&task));
    let failed = || Failed { error: "no".into(), retryable: true, retry_after_ms: None };
    broker.fail(&id, token, failed()).await.unwrap();
    faulty.once(Verb::AreKept, Fault::LoseAnswer);
    refused(broker.fail(&id, token, failed()).await, "store_failed");
    assert!(broker.fail(&id, token, failed()).await.is_ok());
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_many_who_saw_the_same_revision_one_wins_and_the_others_look_again() {
    let (broker, faulty) = start_faulty();
    let task = running(&broker, echo(), one("w")).await;
    let (id, token) = (task.record.id.clone(), token(&task));
    let mut events = broker.subscribe();
    let mut reports = tokio::task::JoinSet::new();
    for i in 0..64 {
        // All of them have read the record before the first one is committed.
        faulty.once(Verb::Commit, Fault::Delay(Duration::from_millis(10)));
        let (broker, id) = (broker.clone(), id.clone());
        reports.spawn(async move {
            match i % 4 {
                0 => broker.release(&id, token, None).await.map(|record| record.state),
                1 => broker.cancel(&id).await.map(|task| task.record.state),
                _ => broker.complete(&id, token, Some(json(&i.to_string()))).await.map(|record| record.state),
            }
        });
    }
    let codes: Vec<&str> = reports.join_all().await.into_iter().map(code).collect();
    assert_eq!(faulty.fired(), 64);
    let count = |code: &str| codes.iter().filter(|it| **it == code).count();
    assert!(count("overloaded") == 0 && count("ok") >= 1, "{codes:?}");
    let end = broker.get(&id).await.unwrap().record;
    assert!(end.state.is_terminal() && end.history.len() <= 2, "{end:?}");
    let ends = heard(&mut events);
    let ends = ends.iter().filter(|kind| matches!(kind, EventKind::Completed | EventKind::Cancelled));
    assert_eq!(ends.count(), 1);
    broker.stop().await;
}

pub(super) fn code<T>(outcome: Result<T, Error>) -> &'static str {
    outcome.map_or_else(|error| error.code(), |_| "ok")
}

#[tokio::test(start_paused = true)]
async fn under_random_faults_every_task_is_completed_exactly_once() {
    const TASKS: usize = 200;
    let (broker, faulty) = start_faulty();
    for i in 0..TASKS {
        let delay = Start::AfterMs(i as u64 % 7 * 500);
        let task = Submit { start: delay, max_crashes: 1000, max_retries: 1000, ..named(&format!("t-{i}")) };
        broker.submit(Submit { retention_ms: limits::RETENTION_MS_MAX, ..task }).await.unwrap();
    }
    faulty.begin(Schedule {
        seed: 11,
        one_in: 5,
        verbs: vec![Verb::Claim, Verb::Commit, Verb::Due, Verb::Expired, Verb::Peek, Verb::Get],
        faults: vec![Fault::Refuse, Fault::LoseAnswer, Fault::Delay(Duration::from_millis(700))],
    });
    let workers: Vec<_> = (0..8).map(|i| tokio::spawn(work(broker.clone(), format!("w{i}")))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(faulty.fired() > 50, "only {} faults", faulty.fired());
    faulty.calm();
    let stats = broker.stats().await.unwrap();
    assert_eq!((stats.count(StateName::Completed), stats.ledger.completed), (TASKS as u64, TASKS as u64));
    for i in 0..TASKS {
        let history = broker.get(&id(&format!("t-{i}"))).await.unwrap().record.history;
        let completed = history.iter().filter(|attempt| attempt.outcome == Outcome::Completed);
        assert_eq!(completed.count(), 1);
    }
    broker.stop().await;
}

/// Claims and completes until nothing came for a minute; a report without an answer is not repeated.
async fn work(broker: Broker, worker: String) {
    let mut idle = 0;
    while idle < 2 {
        let claim = ClaimRequest { max: 3, wait_ms: 30_000, lease_ms: Some(2000), ..one(&worker) };
        let Ok(tasks) = broker.claim(claim).await else { continue };
        idle = if tasks.is_empty() { idle + 1 } else { 0 };
        for task in tasks {
            // Whether it was refused, lost or accepted is judged at the end.
            let _ = broker.complete(&task.record.id, token(&task), None).await;
        }
    }
}
