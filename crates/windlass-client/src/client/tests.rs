//! The producer on a broker in the same process; the wires are tested against the real binary.

use windlass_broker::{Broker, Settings};
use windlass_core::OnConflict;
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::*;
use crate::worker::embedded::BrokerPort;
use crate::worker::{Context, Failure, Worker};
use tokio_util::sync::CancellationToken;

fn broker() -> Broker {
    let clock = SystemClock::shared();
    Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default())
}

#[tokio::test]
async fn results_are_typed_and_failures_are_errors() {
    let broker = broker();
    let client = Client::embedded(broker.clone());
    let worker = Worker::builder(BrokerPort::new(broker))
        .handler("double", |_: Context, n: u32| async move {
            n.checked_mul(2).ok_or_else(|| Failure::fatal("too large"))
        })
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));
    let fine = client.submit(Submit::new("double", &21).unwrap()).await.unwrap();
    let long = Duration::from_secs(30);
    assert_eq!(client.result::<u32>(&fine.id, long).await.unwrap(), 42);
    assert!(matches!(client.result::<String>(&fine.id, long).await, Err(Error::Answer(_))));
    let broken = client.submit(Submit::new("double", &u32::MAX).unwrap()).await.unwrap();
    let error = client.result::<u32>(&broken.id, long).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{} is dead_letter: too large", broken.id));
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn the_same_submit_again_makes_no_second_task() {
    let client = Client::embedded(broker());
    let submit = Submit::new("a", "x").unwrap().queue("q").delay(Duration::from_secs(60));
    let first = client.submit(submit.clone()).await.unwrap();
    assert_eq!(client.submit(submit.clone()).await.unwrap(), first);
    let other = Submit::new("a", "y").unwrap().id(first.id.clone());
    assert_eq!(client.submit(other).await.unwrap_err().code(), Some("task_exists"));
    let wrong = Submit::new("a b", "x").unwrap();
    let error = client.submit(wrong).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("malformed"), Some(400)));
}

#[tokio::test]
async fn a_unique_key_makes_one_live_task() {
    let client = Client::embedded(broker());
    let submit = || Submit::new("a", &1).unwrap().unique_key("k");
    let first = client.submit(submit()).await.unwrap();
    assert_eq!(client.submit(submit()).await.unwrap().id, first.id);
    let refused = client.submit(submit().on_conflict(OnConflict::Reject)).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (Some(409), Some("unique_conflict")));
    assert_eq!(refused.holder(), Some(first.id.clone()));
    let second = client.submit(submit().on_conflict(OnConflict::Replace)).await.unwrap();
    assert_ne!(second.id, first.id);
    let replaced = client.task(&first.id).await.unwrap();
    assert_eq!(replaced.cancel_reason.as_deref(), Some("replaced"));
}

#[tokio::test]
async fn batches_answer_for_each_task_or_for_all() {
    let client = Client::embedded(broker());
    let taken = Submit::new("a", &1).unwrap();
    client.submit(taken.clone()).await.unwrap();
    let clash = Submit::new("a", &2).unwrap().id(taken.task_id().clone());
    let fresh: Vec<Submit> = (0..2500).map(|n| Submit::new("a", &n).unwrap()).collect();
    let answers = client.submit_batch(&fresh).await.unwrap();
    assert!(
        answers.iter().zip(&fresh).all(|(answer, submit)| answer.as_ref().unwrap().id == *submit.task_id())
    );
    let mixed = [Submit::new("a", &1).unwrap(), clash];
    let error = client.submit_all(&mixed).await.unwrap_err();
    assert_eq!(error.code(), Some("task_exists"));
    let gone = client.task(mixed[0].task_id()).await.unwrap_err();
    assert_eq!(gone.code(), Some("not_found"), "nothing of it was added");
}

#[test]
fn a_portion_is_bounded_by_number_bytes_and_dependencies() {
    let small = vec![Submit::new("a", &1).unwrap(); 2000];
    assert_eq!(portion(&small), BATCH_TASKS_MAX);
    let large = vec![Submit::binary("a", vec![0; BATCH_BYTES_MAX / 2]); 5];
    assert_eq!(portion(&large), 2);
    let huge = vec![Submit::binary("a", vec![0; 2 * BATCH_BYTES_MAX]); 2];
    assert_eq!(portion(&huge), 1);
    let one = Submit::new("a", &1).unwrap();
    let wide = Submit { dependencies: vec![one.task_id().clone(); BATCH_DEPENDENCIES_MAX / 2], ..one };
    assert_eq!(portion(&vec![wide; 5]), 2);
}
