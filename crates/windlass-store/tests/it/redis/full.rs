//! A Redis without room.

use bytes::Bytes;
use windlass_core::{Payload, State, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Error, Extend, Extended, Insert};

use super::shared::{claim, task};
use super::{Server, open};

#[tokio::test]
async fn a_full_redis_takes_no_tasks_and_still_finishes_them() {
    let server = Server::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]);
    let clock = ManualClock::shared();
    let store = open(&format!("redis+unix://{}", server.socket.display()), clock.clone()).await;
    let mut added = 0;
    let refused = loop {
        let mut large = task(&format!("t{added}"), clock.now().wall);
        large.body.payload = Payload::Binary(Bytes::from(vec![7; 100_000]));
        match store.insert(Insert { tasks: vec![large].into(), atomic: false, max_depth: None }).await {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
        assert!(added < 1000, "8 MB should be full");
    };
    assert!(matches!(refused, Error::NoSpace), "{refused}");
    store.set_paused(&super::shared::name("other"), true).await.expect("pause");
    let tasks = store.claim(Claim { max: 3, ..claim() }).await.expect("claim");
    assert_eq!(tasks.len(), 3);
    for task in tasks {
        let record = task.record;
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        let extend = Extend { id: record.id.clone(), token: lease.token, lease_ms: None, progress: None };
        let extended = store.extend(vec![extend]).await.expect("extend");
        assert!(matches!(extended[..], [Extended::Until { .. }]), "{extended:?}");
        let change = transition::complete(&record, lease.token, None, clock.now().wall);
        let change = change.expect("held").expect("a change");
        let done = Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change };
        let committed = store.commit(vec![done]).await.expect("commit");
        assert!(matches!(committed[..], [Committed::Done(_)]), "{committed:?}");
    }
}
