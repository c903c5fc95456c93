//! What follows from unique keys and checkpoints beyond the store.

use windlass_core::{OnConflict, StateName, Unique, UniqueKey};

use super::*;
use crate::{Failed, Selection};

fn unique(key: &str, on_conflict: OnConflict) -> Submit {
    let key = UniqueKey::new(key).unwrap();
    Submit { unique: Some(Box::new(Unique { key, for_ms: None, on_conflict })), ..echo() }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_task_is_announced_counted_and_whoever_waits_for_it_is_told() {
    let broker = start();
    let task = running(&broker, unique("k", OnConflict::Return), one("w")).await;
    let id = task.record.id.clone();
    let waiting = tokio::spawn({
        let (broker, id) = (broker.clone(), id.clone());
        async move { broker.wait(&id, 60_000).await }
    });
    tokio::task::yield_now().await;
    let mut events = broker.subscribe();
    let answer = broker.submit(unique("k", OnConflict::Replace)).await.unwrap();
    assert!(!answer.existed);
    assert_eq!(heard(&mut events), [EventKind::Cancelled, EventKind::Submitted]);
    assert_eq!(waiting.await.unwrap().unwrap().record.state_name(), StateName::Cancelled);
    let pulse = broker.heartbeat(beat("w", 1, &[&task])).await.unwrap();
    assert_eq!(pulse.cancel, [id]);
    assert!(broker.submit(unique("k", OnConflict::Return)).await.unwrap().existed);
    assert_eq!(heard(&mut events), [], "what adds nothing is no event");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_key_is_held_is_left_where_it_is() {
    let broker = start();
    let fatal = || Failed { error: "no".to_owned(), retryable: false, retry_after_ms: None };
    let mut dead = Vec::new();
    for key in ["held", "free"] {
        let task = running(&broker, unique(key, OnConflict::Return), one("w")).await;
        broker.fail(&task.record.id, token(&task), fatal()).await.unwrap();
        dead.push(task.record.id);
    }
    let holder = broker.submit(unique("held", OnConflict::Return)).await.unwrap().task.record.id;
    let refused = broker.retry(&dead[0]).await.unwrap_err();
    assert!(matches!(&refused, Error::UniqueConflict(id) if *id == holder), "{refused}");
    assert_eq!(broker.retry_dead(Selection::Filter(Default::default())).await.unwrap(), 1);
    assert_eq!(broker.get(&dead[0]).await.unwrap().record.state_name(), StateName::DeadLetter);
    assert_eq!(broker.get(&dead[1]).await.unwrap().record.state_name(), StateName::Pending);
    broker.cancel(&holder).await.unwrap();
    assert_eq!(broker.retry_dead(Selection::Ids(vec![dead[0].clone()])).await.unwrap(), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_bounded_and_comes_with_the_next_claim() {
    let broker = start();
    let task = running(&broker, echo(), one("w")).await;
    let id = &task.record.id;
    let large = Bytes::from(vec![0; limits::CHECKPOINT_BYTES_MAX + 1]);
    refused(broker.save_checkpoint(id, token(&task), large).await, "invalid");
    broker.save_checkpoint(id, token(&task), Bytes::from_static(b"page 7")).await.unwrap();
    // The lease is as good as before: reports go by the token, not by what was seen.
    pass(40_000).await;
    refused(broker.save_checkpoint(id, token(&task), Bytes::new()).await, "lease_lost");
    let again = broker.claim(ClaimRequest { wait_ms: 20_000, ..one("w2") }).await.unwrap().pop().unwrap();
    assert_eq!((again.record.crashes, &again.record.id), (1, id));
    assert_eq!(again.record.checkpoint.as_ref().map(|it| &it.bytes[..]), Some(&b"page 7"[..]));
    broker.stop().await;
}
