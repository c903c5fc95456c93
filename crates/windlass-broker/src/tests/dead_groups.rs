use windlass_core::limits::DEAD_GROUPS_SCAN_MAX;
use windlass_core::{Filter, Fingerprint, StateName};
use windlass_store::List;

use super::*;
use crate::{Failed, Finish, Verdict};

/// Makes as many dead letters as there are errors.
async fn dead(broker: &Broker, like: &Submit, errors: impl Iterator<Item = String>) {
    for error in errors {
        let queues = vec![Queue { name: like.queue.clone(), weight: 1 }];
        let task = running(broker, like.clone(), ClaimRequest { queues, ..one("w") }).await;
        let report = Failed { error, retryable: false, retry_after_ms: None };
        broker.fail(&task.record.id, token(&task), report).await.unwrap();
    }
}

fn all() -> List {
    List { limit: 100, ..List::default() }
}

#[tokio::test(start_paused = true)]
async fn dead_letters_with_one_cause_are_one_group() {
    let broker = start();
    let elsewhere = Submit { queue: name("other"), ..echo() };
    dead(&broker, &echo(), (0..3).map(|n| format!("no user \"u{n}\" in shard {n}"))).await;
    dead(&broker, &echo(), std::iter::once("connection refused".to_owned())).await;
    // sleep: simulated time, so that the groups span some.
    tokio::time::sleep(Duration::from_secs(5)).await;
    dead(&broker, &elsewhere, std::iter::once("no user \"x\" in shard 9".to_owned())).await;

    let found = broker.dead_groups(all()).await.unwrap();
    assert_eq!((found.scanned, found.complete, found.groups.len()), (5, true, 2));
    let [users, refused] = found.groups.as_slice() else { panic!("two groups") };
    assert_eq!((users.count, refused.count), (4, 1));
    assert_eq!(&*users.sample_error, "no user \"x\" in shard 9", "the newest is shown");
    assert_eq!((users.queue.as_ref(), users.kind.as_ref()), (None, Some(&name("echo"))));
    assert_eq!(
        (refused.queue.as_ref(), refused.kind.as_ref()),
        (Some(&name("default")), Some(&name("echo")))
    );
    assert_eq!(users.last_at - users.first_at, 5000);
    assert_eq!(users.fingerprint, Fingerprint::of(&users.sample_error));

    let filter = Filter::parse(&format!("fingerprint:{}", users.fingerprint), 0).unwrap();
    let list = List { states: vec![StateName::DeadLetter], ..all() }.narrowed(filter);
    assert_eq!(broker.list(list).await.unwrap().tasks.len(), 4, "the filter finds the group");
    let one = broker.dead_groups(List { queue: Some(name("other")), ..all() }).await.unwrap();
    assert_eq!((one.groups.len(), one.groups[0].count, one.scanned), (1, 1, 1));
    let cut = broker.dead_groups(List { limit: 1, ..all() }).await.unwrap();
    assert_eq!((cut.groups.len(), cut.complete), (1, false), "it says that there are more groups");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bounded_number_is_looked_at() {
    let broker = start();
    let count = DEAD_GROUPS_SCAN_MAX + 1;
    for _ in 0..count.div_ceil(1000) {
        broker.submit_batch((0..1000).map(|_| echo()).collect(), true).await.unwrap();
    }
    let mut left = count;
    while left > 0 {
        let claim = ClaimRequest { max: left.min(1000) as u32, ..one("w") };
        let tasks = broker.claim(claim).await.unwrap();
        left -= tasks.len();
        let finishes = tasks.iter().map(|task| Finish {
            id: task.record.id.clone(),
            token: token(task),
            verdict: Verdict::Failed(Failed { error: "x".into(), retryable: false, retry_after_ms: None }),
        });
        broker.finish_all(finishes.collect()).await.unwrap();
    }
    let found = broker.dead_groups(all()).await.unwrap();
    assert_eq!((found.scanned, found.complete), (DEAD_GROUPS_SCAN_MAX as u64, false));
    assert_eq!(found.groups[0].count, DEAD_GROUPS_SCAN_MAX as u64);
    broker.stop().await;
}
