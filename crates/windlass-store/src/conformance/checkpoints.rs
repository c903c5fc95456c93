//! What a worker saves of its work.

use bytes::Bytes;
use windlass_core::transition::{self, Failure};
use windlass_core::{Record, Refusal, StateName};

use super::Harness;
use super::steps::{claim, expire, extension, failure, token};
use crate::store::{Claim, Committed, Extend, Extended};

fn kept(record: &Record) -> Option<&[u8]> {
    record.checkpoint.as_ref().map(|checkpoint| &checkpoint.bytes[..])
}

async fn save(h: &Harness, record: &Record, bytes: &'static [u8]) -> Record {
    let bytes = Bytes::from_static(bytes);
    h.done(record, transition::save(record, token(record), bytes, h.wall())).await
}

pub async fn a_checkpoint_is_kept_until_the_task_completes(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let mut task = h.take_one().await;
    assert_eq!(kept(&task.record), None);
    save(h, &task.record, b"page 1").await;
    task.record = save(h, &h.peek("a").await, b"page 2").await;
    assert_eq!(kept(&task.record), Some(&b"page 2"[..]));
    h.fail(&task, failure()).await;
    h.clock.advance_ms(3_600_000);
    h.promote().await;
    let again = h.take_one().await.record;
    assert_eq!(kept(&again), Some(&b"page 2"[..]), "kept over a failure");
    h.release(&again).await;
    let again = h.take_one().await;
    assert_eq!(kept(&again.record), Some(&b"page 2"[..]), "and a release");
    h.lose(&again).await;
    let again = h.take_one().await;
    assert_eq!(kept(&again.record), Some(&b"page 2"[..]), "and a lost lease");
    let dead = h.fail(&again, Failure { retryable: false, ..failure() }).await;
    h.retry(&dead).await;
    let again = h.take_one().await.record;
    assert_eq!(kept(&again), Some(&b"page 2"[..]), "and a retry by hand");
    let completed = h.complete(&again).await;
    assert_eq!(kept(&completed), None);
    assert_eq!(h.peek("a").await, completed);
}

pub async fn an_empty_checkpoint_takes_the_last_one_away(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = save(h, &h.take_one().await.record, b"page 1").await;
    assert_eq!(kept(&save(h, &record, b"").await), None);
    h.release(&h.peek("a").await).await;
    assert_eq!(kept(&h.take_one().await.record), None);
}

pub async fn only_the_holder_saves(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let old = h.take_one().await;
    h.lose(&old).await;
    h.take_one().await;
    let late = |record: &Record| transition::save(record, token(&old.record), Bytes::new(), h.wall());
    assert_eq!(late(&h.peek("a").await), Err(Refusal::LeaseLost));
    let decided = late(&old.record).expect("it was the holder then").expect("a change");
    assert_eq!(h.commit(&old.record, decided).await, Committed::Conflict);
    assert_eq!(kept(&h.peek("a").await), None);
}

pub async fn saving_leaves_the_lease_as_it_was(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take(Claim { lease_ms: 1000, ..claim() }).await.remove(0).record;
    h.clock.advance_ms(400);
    let progress = windlass_core::Progress { fraction: 0.5, note: None };
    let extended = Extend { progress: Some(progress.clone()), ..extension(&record) };
    let Extended::Until { expires_at } = h.extend(extended).await else { panic!("not extended") };
    h.clock.advance_ms(700);
    let saved = save(h, &h.peek("a").await, b"x").await;
    assert_eq!((saved.state_name(), saved.progress), (StateName::Running, Some(progress)));
    let windlass_core::State::Running(lease) = saved.state else { unreachable!() };
    assert_eq!(lease.expires_at, expires_at);
    h.clock.advance_ms(299);
    assert!(h.store.expired(expire()).await.expect("expired").tasks.is_empty());
    h.clock.advance_ms(1);
    assert_eq!(h.store.expired(expire()).await.expect("expired").tasks.len(), 1, "no later than before");
    // What the reaper was given stays with it: a checkpoint that comes in between makes it look again.
    let saved = save(h, &h.peek("a").await, b"y").await;
    assert_eq!(h.extend(extension(&saved)).await, Extended::LeaseLost);
    let again = h.store.expired(expire()).await.expect("expired").tasks.remove(0);
    h.lose(&again).await;
    assert_eq!(kept(&h.take_one().await.record), Some(&b"y"[..]));
}

pub async fn checkpoints_outlive_a_reopen(h: &mut Harness) {
    let large: &'static [u8] = &[7; windlass_core::limits::CHECKPOINT_BYTES_MAX];
    h.add_named(&["a", "b"]).await;
    for bytes in [b"small", large] {
        save(h, &h.take_one().await.record, bytes).await;
    }
    let before = [h.peek("a").await, h.peek("b").await];
    for _ in 0..2 {
        if !h.reopen().await {
            return;
        }
        for (text, before) in ["a", "b"].into_iter().zip(&before) {
            assert_eq!(h.peek(text).await.checkpoint, before.checkpoint);
        }
    }
    let record = h.peek("b").await;
    h.complete(&record).await;
    h.reopen().await;
    assert_eq!(h.peek("b").await.checkpoint, None);
    assert_eq!(h.peek("a").await.checkpoint, before[0].checkpoint);
}
