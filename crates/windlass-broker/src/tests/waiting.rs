use tokio::task::JoinHandle;
use windlass_core::{CancelReason, StateName};
use windlass_store::faults::{Fault, Faulty, Verb};

use super::dependents::{behind, state};
use super::*;
use crate::Failed;

fn patient(worker: &str) -> ClaimRequest {
    ClaimRequest { wait_ms: 20_000, ..one(worker) }
}

/// Starts a call and lets it come to its wait.
async fn begin<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let handle = tokio::spawn(call);
    pass(2).await;
    assert!(!handle.is_finished());
    handle
}

async fn begin_claim(broker: &Broker, claim: ClaimRequest) -> JoinHandle<Result<Vec<Task>, Error>> {
    let broker = broker.clone();
    begin(async move { broker.claim(claim).await }).await
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_is_answered_by_a_submit_or_when_its_time_is_over() {
    let broker = start();
    let began = Instant::now();
    assert!(broker.claim(patient("w")).await.unwrap().is_empty());
    assert_eq!(began.elapsed(), Duration::from_secs(20));
    let claim = begin_claim(&broker, patient("w")).await;
    broker.submit(echo()).await.unwrap();
    assert_eq!(claim.await.unwrap().unwrap().len(), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_takes_tasks_and_gives_out_none() {
    let broker = start();
    let mut events = broker.subscribe();
    let queue = name("default");
    assert!(broker.pause_queue(&queue).await.unwrap().counts.paused);
    broker.submit(echo()).await.unwrap();
    assert!(broker.claim(one("w")).await.unwrap().is_empty());
    let claim = begin_claim(&broker, patient("w")).await;
    assert!(!broker.resume_queue(&queue).await.unwrap().counts.paused);
    assert_eq!(claim.await.unwrap().unwrap().len(), 1);
    use EventKind::{QueuePaused, QueueResumed, Started, Submitted, WorkerJoined};
    assert_eq!(heard(&mut events), [QueuePaused, Submitted, WorkerJoined, QueueResumed, Started]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_worker_waits_until_it_is_resumed() {
    let broker = start();
    refused(broker.pause_worker(&name("w")).await, "not_found");
    // Paused while its claim waits in the store: the claim must leave the line there.
    let claim = begin_claim(&broker, patient("w")).await;
    assert!(broker.pause_worker(&name("w")).await.unwrap().paused);
    pass(1).await;
    let id = broker.submit(echo()).await.unwrap().task.record.id;
    assert_eq!(broker.get(&id).await.unwrap().record.state, State::Pending);
    assert!(broker.heartbeat(beat("w", 1, &[])).await.unwrap().paused);

    let began = Instant::now();
    let short = ClaimRequest { wait_ms: 3000, ..one("w") };
    assert!(broker.claim(short).await.unwrap().is_empty());
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert!(!claim.is_finished());
    broker.resume_worker(&name("w")).await.unwrap();
    assert_eq!(claim.await.unwrap().unwrap()[0].record.id, id);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_draining_broker_gives_out_nothing_and_takes_outcomes() {
    let broker = start();
    let task = running(&broker, echo(), one("w")).await;
    let claim = begin_claim(&broker, patient("w")).await;
    let began = Instant::now();
    broker.drain();
    assert!(claim.await.unwrap().unwrap().is_empty());
    assert_eq!(began.elapsed(), Duration::ZERO, "it does not wait for its time");
    let id = broker.submit(echo()).await.unwrap().task.record.id;
    refused(broker.claim(one("w")).await, "stopping");
    assert_eq!(broker.get(&id).await.unwrap().record.attempts, 0);
    broker.complete(&task.record.id, token(&task), None).await.unwrap();
    assert!(broker.health().await.draining);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_task_is_told_of_its_end() {
    let broker = start();
    let task = running(&broker, echo(), one("w")).await;
    let id = task.record.id.clone();
    let wait = |ms: u64| {
        let (broker, id) = (broker.clone(), id.clone());
        async move { broker.wait(&id, ms).await }
    };
    let began = Instant::now();
    assert_eq!(wait(1500).await.unwrap().record.state_name(), StateName::Running);
    assert_eq!(began.elapsed(), Duration::from_millis(1500));

    let waiters = [begin(wait(60_000)).await, begin(wait(60_000)).await];
    let began = Instant::now();
    broker.complete(&id, token(&task), Some(json("1"))).await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap().record.result, Some(json("1")));
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "told, not found out by looking again");
    assert_eq!(broker.inner.watchers.count(), 0);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_another_broker_brought_is_noticed() {
    let broker = start();
    let other = Broker::start(broker.store().clone(), broker.inner.clock.clone(), Settings::default());
    let task = running(&broker, echo(), one("w")).await;
    let id = task.record.id.clone();
    let waiter = {
        let (broker, id) = (broker.clone(), id.clone());
        begin(async move { broker.wait(&id, 60_000).await }).await
    };
    let began = Instant::now();
    other.complete(&id, token(&task), None).await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().record.state_name(), StateName::Completed);
    assert!(began.elapsed() <= Duration::from_secs(1));
    broker.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_nearer_deadline_wakes_the_promoter() {
    let broker = start();
    // The promoter sleeps for as long as it may when this comes in.
    pass(5).await;
    let began = Instant::now();
    broker.submit(Submit { start: Start::AfterMs(5000), ..named("later") }).await.unwrap();
    broker.submit(Submit { start: Start::At(YEAR_2026 + 2005), ..named("sooner") }).await.unwrap();
    for (task, at_ms) in [("sooner", 2000), ("later", 5000)] {
        let claimed = broker.claim(patient("w")).await.unwrap();
        assert_eq!(claimed[0].record.id, id(task));
        let waited = began.elapsed().as_millis();
        assert!((at_ms..at_ms + 5).contains(&waited), "{task} came after {waited} ms");
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_promoter_catches_up_with_more_than_one_step() {
    let broker = start();
    let batch = |_| Submit { start: Start::AfterMs(1000), ..echo() };
    for _ in 0..3 {
        broker.submit_batch((0..1000).map(batch).collect(), true).await.unwrap();
    }
    broker.submit(Submit { start: Start::AfterMs(1000), ..named("last") }).await.unwrap();
    let waited = until(&broker, &id("last"), |record| record.state == State::Pending).await;
    assert!(waited.as_millis() < 1020, "{waited:?}");
    assert_eq!(broker.stats().await.unwrap().count(StateName::Pending), 3001);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_expired_is_cancelled_and_never_started() {
    let broker = start();
    let expires_at = Some(YEAR_2026 + 1000);
    broker.submit(Submit { expires_at, ..named("pending") }).await.unwrap();
    broker.submit(Submit { expires_at, start: Start::AfterMs(9000), ..named("later") }).await.unwrap();
    for task in ["pending", "later"] {
        let expired =
            |record: &Record| matches!(record.state, State::Cancelled { reason: CancelReason::Expired, .. });
        until(&broker, &id(task), expired).await;
    }
    assert_eq!(broker.stats().await.unwrap().ledger.expired, 2);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_dead_letters_are_forgotten_from_the_oldest_on() {
    let broker = start_with(Settings { dead_letters_max: Some(20), ..Settings::default() });
    let names: Vec<String> = (0..23).map(|n| format!("t{n:02}")).collect();
    let die = async |text: &str| {
        let task = running(&broker, named(text), one("w")).await;
        let failed = Failed { error: "no".into(), retryable: false, retry_after_ms: None };
        broker.fail(&id(text), token(&task), failed).await.unwrap();
    };
    for text in &names[..22] {
        die(text).await;
    }
    pass(6000).await;
    assert!(broker.get(&id("t00")).await.is_ok(), "a tenth more than the most is let be");
    die(&names[22]).await;
    pass(6000).await;
    for (n, text) in names.iter().enumerate() {
        assert_eq!(broker.get(&id(text)).await.is_ok(), n >= 3, "{text}");
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_others_wait_for_are_forgotten_too() {
    let clock = SimulatedClock::new();
    let store = Faulty::new(MemoryStore::new(clock.clone()));
    let settings = Settings { dead_letters_max: Some(10), ..Settings::default() };
    let broker = Broker::start(store.clone(), clock, settings);
    for n in 0..12 {
        let text = format!("t{n:02}");
        let submit = Submit { retention_ms: limits::RETENTION_MS_MAX, ..named(&text) };
        let task = running(&broker, submit, one("w")).await;
        let failed = Failed { error: "no".into(), retryable: false, retry_after_ms: None };
        broker.fail(&id(&text), token(&task), failed).await.unwrap();
        broker.submit(behind(&format!("after-{text}"), &[&text])).await.unwrap();
    }
    pass(6000).await;
    for (text, waits) in [("after-t00", false), ("after-t01", false), ("after-t02", true)] {
        assert_eq!(state(&broker, text).await == StateName::Blocked, waits, "{text}");
    }
    // They do not count any more, so nobody walks through all dead letters for them again; a delay of nothing is counted.
    store.once(Verb::List, Fault::Delay(Duration::ZERO));
    pass(60_000).await;
    assert_eq!(store.fired(), 0);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn finished_tasks_are_forgotten_when_their_retention_ends() {
    let broker = start();
    let task = running(&broker, named("a"), one("w")).await;
    broker.complete(&id("a"), token(&task), None).await.unwrap();
    let waiting = broker.submit(named("b")).await.unwrap().task.record.id;
    pass(59_000).await;
    assert!(broker.get(&id("a")).await.is_ok());
    pass(1100).await;
    refused(broker.get(&id("a")).await, "not_found");
    assert!(broker.get(&waiting).await.is_ok(), "what has not finished stays");
    assert_eq!(broker.stats().await.unwrap().ledger.removed, 1);
    broker.stop().await;
}
