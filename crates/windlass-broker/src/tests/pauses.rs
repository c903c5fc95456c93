//! The whole process is paused for a while. Workers that were alive must not lose their leases.

use windlass_core::StateName;

use super::*;

const LEASE_MS: u64 = 6000;

fn start_pausable() -> (Broker, Arc<SimulatedClock>) {
    let clock = SimulatedClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock.clone(), Settings::default());
    (broker, clock)
}

/// Pauses the process: nothing runs in between, and then every timer is due at once.
async fn freeze(clock: &SimulatedClock, ms: u64) {
    clock.resumed.store(clock.now().mono + ms, Ordering::SeqCst);
    tokio::time::advance(Duration::from_millis(ms)).await;
}

async fn crashed(broker: &Broker) -> u64 {
    broker.inner.store.ledger().await.unwrap().crashed
}

fn leased(worker: &str) -> ClaimRequest {
    ClaimRequest { lease_ms: Some(LEASE_MS), ..one(worker) }
}

#[tokio::test(start_paused = true)]
async fn leases_outlive_a_pause_and_end_a_window_after_it() {
    let (broker, clock) = start_pausable();
    let mut live = Vec::new();
    for _ in 0..100 {
        live.push(running(&broker, echo(), leased("live")).await);
    }
    let dead = running(&broker, echo(), leased("dead")).await;
    pass(1500).await;
    freeze(&clock, 15_000).await;
    // The reaper runs before any extension is read.
    pass(1000).await;
    for _ in 0..6 {
        for task in &live {
            broker.extend(&task.record.id, token(task), None, None).await.unwrap();
        }
        pass(1500).await;
    }
    assert_eq!(crashed(&broker).await, 1, "the lease of the worker that is gone");
    let dead = broker.get(&dead.record.id).await.unwrap().record;
    assert_eq!((dead.state_name(), dead.crashes), (StateName::Pending, 1));
    for task in &live {
        broker.complete(&task.record.id, token(task), None).await.unwrap();
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_beats_were_not_read_lives() {
    let (broker, clock) = start_pausable();
    let task = running(&broker, echo(), ClaimRequest { lease_ms: Some(600_000), ..one("w") }).await;
    broker.heartbeat(beat("w", 1, &[&task])).await.unwrap();
    broker.heartbeat(beat("gone", 2, &[])).await.unwrap();
    freeze(&clock, 60_000).await;
    pass(5000).await;
    let kept = broker.heartbeat(beat("w", 1, &[&task])).await.unwrap();
    assert_eq!(kept.extended, std::slice::from_ref(&task.record.id));
    pass(14_000).await;
    assert!(broker.worker(&name("gone")).await.is_ok(), "it has its full time to report again");
    pass(2000).await;
    refused(broker.worker(&name("gone")).await, "not_found");
    broker.complete(&task.record.id, token(&task), None).await.unwrap();
    assert_eq!(crashed(&broker).await, 0);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gave_up_its_connection_in_a_pause_may_come_back() {
    let (broker, clock) = start_pausable();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    broker.submit(echo()).await.unwrap();
    let claim = ClaimRequest { lease_ms: Some(600_000), ..one("w") };
    let task = session.claim(claim).await.unwrap().pop().unwrap();
    freeze(&clock, 15_000).await;
    // The worker closed the silent connection, which the broker reads only now. It reconnects after a backoff.
    drop(session);
    pass(3000).await;
    let (_session, _notices, pulse) = broker.connect(beat("w", 1, &[&task])).await.unwrap();
    assert_eq!((&pulse.extended[..], pulse.lost.len()), (&[task.record.id.clone()][..], 0));
    assert_eq!(crashed(&broker).await, 0);
    broker.stop().await;
}
