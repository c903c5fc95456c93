//! How long a worker may hold a task.

use windlass_core::{Progress, Refusal, State, StateName, transition};

use super::Harness;
use super::steps::{claim, expire, extension, id, ids, name, token};
use crate::clock::Clock;
use crate::store::{Claim, Committed, Due, Expire, Extend, Extended};

async fn expired(h: &Harness) -> Due {
    h.store.expired(expire()).await.expect("expired")
}

pub async fn a_lease_runs_out(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    let start = h.clock.now().mono;
    for lease_ms in [3000, 1000, 2000] {
        h.take(Claim { lease_ms, ..claim() }).await;
    }
    let due = expired(h).await;
    assert_eq!((due.tasks.len(), due.next), (0, Some(start + 1000)));
    h.clock.advance_ms(999);
    assert!(expired(h).await.tasks.is_empty());
    h.clock.advance_ms(1001);
    let due = expired(h).await;
    assert_eq!((ids(&due.tasks), due.next), (vec!["b", "c"], Some(start + 3000)));
    for task in &due.tasks {
        let lost = h.lose(task).await;
        assert_eq!((lost.state_name(), lost.crashes, lost.attempts), (StateName::Pending, 1, 1));
    }
    assert!(expired(h).await.tasks.is_empty());
    assert_eq!(ids(&h.take(Claim { max: 9, ..claim() }).await), ["b", "c"]);
    assert_eq!(h.store.ledger().await.expect("ledger").crashed, 2);
}

/// A process that was paused could not read extensions. It must not treat the leases as expired.
pub async fn a_pause_gives_every_lease_one_fresh_window(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    for lease_ms in [1000, 3000, 60_000] {
        h.take(Claim { lease_ms, ..claim() }).await;
    }
    h.clock.advance_ms(500);
    h.clock.pause_ms(15_000);
    let resumed = h.clock.now().mono;
    let due = expired(h).await;
    assert_eq!((ids(&due.tasks), due.next), (vec![], Some(resumed + 1000)));
    let record = h.peek("b").await;
    let extended = h.extend(extension(&record)).await;
    assert_eq!(extended, Extended::Until { expires_at: h.wall() + 3000 });
    h.clock.advance_ms(999);
    assert!(expired(h).await.tasks.is_empty());
    h.clock.advance_ms(1);
    assert_eq!(ids(&expired(h).await.tasks), ["a"], "once only");
    let lost = h.extend(extension(&h.peek("a").await)).await;
    assert_eq!(lost, Extended::LeaseLost);
    // A lease that was found expired before a pause stays lost after it.
    h.clock.pause_ms(15_000);
    let due = expired(h).await;
    assert_eq!((ids(&due.tasks), due.next), (vec!["a"], Some(resumed + 1000 + 15_000 + 3000)));
    h.lose(&due.tasks[0]).await;
    h.clock.advance_ms(3000);
    assert_eq!(ids(&expired(h).await.tasks), ["b"]);
    h.clock.advance_ms(57_000);
    assert_eq!(ids(&expired(h).await.tasks), ["b", "c"]);
}

pub async fn an_extension_moves_the_deadline(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take(Claim { lease_ms: 1000, ..claim() }).await.remove(0).record;
    h.clock.advance_ms(900);
    let progress = Some(Progress { fraction: 0.5, note: Some("half".into()) });
    let answer = h.extend(Extend { progress: progress.clone(), ..extension(&record) }).await;
    assert_eq!(answer, Extended::Until { expires_at: h.wall() + 1000 });
    let seen = h.peek("a").await;
    let State::Running(lease) = &seen.state else { panic!("{seen:?}") };
    assert_eq!((lease.expires_at, lease.lease_ms), (h.wall() + 1000, 1000));
    assert_eq!((seen.revision, &seen.progress), (record.revision, &progress));
    h.clock.advance_ms(900);
    assert!(expired(h).await.tasks.is_empty());
    // A longer one just this once; the progress stays as it was.
    let answer = h.extend(Extend { lease_ms: Some(5000), ..extension(&record) }).await;
    assert_eq!(answer, Extended::Until { expires_at: h.wall() + 5000 });
    assert_eq!(h.peek("a").await.progress, progress);
    h.clock.advance_ms(4999);
    assert!(expired(h).await.tasks.is_empty());
    h.clock.advance_ms(1);
    assert_eq!(ids(&expired(h).await.tasks), ["a"]);
    let unknown = Extend { id: id("unknown"), ..extension(&record) };
    assert_eq!(h.extend(unknown).await, Extended::Missing);
}

pub async fn an_extension_after_the_end_was_noticed_is_refused(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take(Claim { lease_ms: 1000, ..claim() }).await.remove(0).record;
    h.clock.advance_ms(5000);
    let late = h.extend(extension(&record)).await;
    assert_eq!(late, Extended::Until { expires_at: h.wall() + 1000 }, "nobody had noticed");
    h.clock.advance_ms(1000);
    for _ in 0..2 {
        assert_eq!(ids(&expired(h).await.tasks), ["a"], "told again until it changes");
        assert_eq!(h.extend(extension(&record)).await, Extended::LeaseLost);
    }
}

pub async fn a_report_may_still_win_against_the_reaper(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take(Claim { lease_ms: 1000, ..claim() }).await.remove(0).record;
    h.clock.advance_ms(1000);
    let noticed = expired(h).await.tasks.remove(0);
    h.complete(&record).await;
    let decided = transition::lose_lease(&noticed.record, &noticed.body, "gone", h.wall());
    let change = decided.expect("it was running").expect("a change");
    assert_eq!(h.commit(&noticed.record, change).await, Committed::Conflict);
    assert_eq!(h.state("a").await, StateName::Completed);
    assert!(expired(h).await.tasks.is_empty());
}

pub async fn dead_workers_lose_their_leases_at_once(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    for worker in ["w1", "w2", "w1"] {
        h.take(Claim { worker: name(worker), ..claim() }).await;
    }
    let dead = Expire { dead_workers: vec![name("w1"), name("w9")], limit: 1000 };
    let due = h.store.expired(dead).await.expect("expired");
    assert_eq!(ids(&due.tasks), ["a", "c"]);
    assert_eq!(h.extend(extension(&due.tasks[0].record)).await, Extended::LeaseLost);
    assert_eq!(ids(&expired(h).await.tasks), ["a", "c"], "told again, named or not");
    let alive = h.peek("b").await;
    assert!(matches!(h.extend(extension(&alive)).await, Extended::Until { .. }));
}

pub async fn a_lost_lease_can_do_nothing(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let old = h.take_one().await;
    h.lose(&old).await;
    assert_eq!(h.extend(extension(&old.record)).await, Extended::LeaseLost);
    let current = h.take_one().await;
    let (stale, at) = (token(&old.record), h.wall());
    assert_ne!(stale, token(&current.record));
    assert!(token(&current.record).number > stale.number);
    assert_eq!(h.extend(extension(&old.record)).await, Extended::LeaseLost);
    assert_eq!(transition::complete(&current.record, stale, None, at), Err(Refusal::LeaseLost));
    assert_eq!(transition::release(&current.record, stale, None, at), Err(Refusal::LeaseLost));
    // What the old holder decided on the record it saw comes too late as well.
    let change = transition::complete(&old.record, stale, None, at).expect("held then").expect("a change");
    assert_eq!(h.commit(&old.record, change).await, Committed::Conflict);
    h.complete(&current.record).await;
    assert_eq!(h.peek("a").await.history.len(), 2);
}

pub async fn too_many_crashes_are_a_dead_letter(h: &mut Harness) {
    h.add_named(&["a"]).await;
    for _ in 0..2 {
        assert_eq!(h.lose(&h.take_one().await).await.state_name(), StateName::Pending);
    }
    assert_eq!(h.lose(&h.take_one().await).await.state_name(), StateName::DeadLetter);
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!((ledger.crashed, ledger.dead_lettered), (3, 1));
}

pub async fn a_jump_of_the_wall_clock_ends_no_lease(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take(Claim { lease_ms: 1000, ..claim() }).await.remove(0).record;
    h.clock.jump_wall_ms(3_600_000);
    assert!(expired(h).await.tasks.is_empty());
    assert_eq!(h.extend(extension(&record)).await, Extended::Until { expires_at: h.wall() + 1000 });
    h.clock.jump_wall_ms(-7_200_000);
    h.clock.advance_ms(999);
    assert!(expired(h).await.tasks.is_empty());
    h.clock.advance_ms(1);
    assert_eq!(ids(&expired(h).await.tasks), ["a"], "nor does it keep one alive");
}

pub async fn a_cancelled_holder_is_told(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take_one().await.record;
    h.cancel(&record).await;
    assert_eq!(h.extend(extension(&record)).await, Extended::CancelRequested);
    let decision = transition::complete(&h.peek("a").await, token(&record), None, h.wall());
    assert_eq!(decision, Err(Refusal::LeaseLost));
}

pub async fn expired_keeps_to_its_limit(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    h.take(Claim { lease_ms: 1000, max: 3, ..claim() }).await;
    h.clock.advance_ms(1000);
    let mut seen = 0;
    for expected in [2, 1, 0] {
        let due = h.store.expired(Expire { limit: 2, ..expire() }).await.expect("expired");
        assert_eq!(due.tasks.len(), expected);
        for task in &due.tasks {
            h.lose(task).await;
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

pub async fn running_leases_get_a_fresh_window_after_a_reopen(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    let tasks = h.take(Claim { lease_ms: 1000, max: 2, ..claim() }).await;
    h.clock.advance_ms(999);
    if !h.reopen().await {
        return;
    }
    h.clock.advance_ms(999);
    assert!(expired(h).await.tasks.is_empty(), "time while the store was closed does not count");
    assert!(
        matches!(h.extend(extension(&tasks[0].record)).await, Extended::Until { .. }),
        "the token still counts"
    );
    h.clock.advance_ms(1);
    assert_eq!(ids(&expired(h).await.tasks), ["b"]);
    h.complete(&tasks[0].record).await;
    let again = h.lose(&tasks[1]).await;
    let task = h.take_one().await;
    assert_eq!(task.record.id, again.id);
    assert!(token(&task.record).number > token(&tasks[1].record).number, "tokens go on growing");
}
