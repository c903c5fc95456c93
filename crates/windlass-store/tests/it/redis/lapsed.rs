//! A process that was stopped for longer than its lead lasts.

use std::time::Duration;

use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Expire};

use super::shared::{add, claim, task};
use super::{fresh_url, open};

/// All of it is on one thread, so nothing of this process goes on meanwhile.
#[tokio::test]
async fn who_was_held_up_acts_on_time_at_once() {
    let clock = ManualClock::shared();
    let store = open(&fresh_url(), clock.clone()).await;
    let now = clock.now().wall;
    let later = windlass_core::NewTask { scheduled_at: Some(now + 1000), ..task("later", now) };
    add(&store, vec![task("held", now), later]).await;
    assert_eq!(store.claim(Claim { lease_ms: 5000, ..claim() }).await.expect("claim").len(), 1);
    let none = || Expire { dead_workers: Vec::new(), limit: 10 };
    assert!(store.expired(none()).await.expect("expired").tasks.is_empty());
    // sleep: the lead ends by the clock of Redis.
    std::thread::sleep(Duration::from_secs(7));
    clock.advance_ms(1000);
    assert_eq!(store.due(10).await.expect("due").tasks.len(), 1, "it leads");
    clock.advance_ms(4000);
    let expired = store.expired(none()).await.expect("expired").tasks;
    assert_eq!(expired.len(), 1, "what it timed before still holds, for nobody else led");
}
