//! Tests of the store that injects faults.

use super::*;
use crate::clock::ManualClock;
use crate::memory::MemoryStore;

async fn pause(store: &Faulty, queue: &str) -> Result<(), Error> {
    store.set_paused(&Name::new(queue).unwrap(), true).await
}

async fn known(store: &Faulty) -> usize {
    store.inner.queues(None).await.unwrap().len()
}

#[tokio::test]
async fn faults_that_are_asked_for_come_once_each_and_in_order() {
    let store = Faulty::new(MemoryStore::new(ManualClock::shared()));
    store.once(Verb::SetPaused, Fault::Refuse);
    store.once(Verb::SetPaused, Fault::LoseAnswer);
    store.once(Verb::Insert, Fault::Refuse);
    assert!(matches!(pause(&store, "a").await, Err(Error::Busy)));
    assert_eq!(known(&store).await, 0, "refused before anything was done");
    assert!(matches!(pause(&store, "b").await, Err(Error::Failed(_))));
    assert_eq!(known(&store).await, 1, "done, but the answer was lost");
    assert!(pause(&store, "c").await.is_ok());
    assert_eq!(store.fired(), 2);
}

#[tokio::test]
async fn silence_does_the_work_and_never_answers() {
    let store = Faulty::new(MemoryStore::new(ManualClock::shared()));
    store.once(Verb::SetPaused, Fault::Silence);
    let call = pause(&store, "a");
    assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    assert_eq!(known(&store).await, 1);
}

#[tokio::test]
async fn a_schedule_repeats_with_its_seed_and_spares_other_verbs() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let store = Faulty::new(MemoryStore::new(ManualClock::shared()));
        let faults = vec![Fault::Refuse, Fault::LoseAnswer, Fault::Delay(Duration::ZERO)];
        store.begin(Schedule { seed, one_in: 3, verbs: vec![Verb::SetPaused], faults });
        let mut answers = Vec::new();
        for _ in 0..100 {
            answers.push(format!("{:?}", pause(&store, "a").await));
            assert!(store.ledger().await.is_ok());
        }
        assert!(store.fired() > 10, "{}", store.fired());
        store.calm();
        assert!(pause(&store, "a").await.is_ok());
        runs.push(answers);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
