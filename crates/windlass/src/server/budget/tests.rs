//! The budget with simulated time.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::*;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

async fn grown(purse: &mut Purse, bytes: usize) -> bool {
    poll_fn(|cx| purse.poll_set(cx, bytes, bytes)).await
}

#[tokio::test(start_paused = true)]
async fn small_things_count_nothing_and_large_ones_until_they_go() {
    let budget = Budget::new(4 * MIB);
    let account = budget.connect().unwrap();
    assert_eq!(budget.usage().used, CONNECTION_BYTES);
    let mut purse = Purse::new(account.clone());
    purse.set(UNCOUNTED_BYTES_MAX);
    let small = account.hold(UNCOUNTED_BYTES_MAX);
    assert_eq!(budget.usage().used, CONNECTION_BYTES);
    assert!(grown(&mut purse, MIB).await);
    let large = account.hold(MIB);
    assert_eq!(budget.usage().used, CONNECTION_BYTES + 2 * MIB);
    assert!(account.try_hold(2 * MIB).is_none(), "a part is kept for those who hold little");
    drop(account.try_hold(512 * KIB).unwrap());
    drop((purse, large, small));
    assert_eq!(budget.usage().used, CONNECTION_BYTES);
    drop(account);
    assert_eq!((budget.usage().used, budget.accounts.lock().len()), (0, 0));
}

#[tokio::test]
async fn connections_leave_half_of_the_budget() {
    let budget = Budget::new(10 * CONNECTION_BYTES);
    let mut accounts: Vec<_> = (0..5).map(|_| budget.connect().unwrap()).collect();
    assert!(budget.connect().is_none());
    accounts.pop();
    assert!(budget.connect().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_waits_its_turn_and_is_refused_in_the_end() {
    let budget = Budget::new(4 * MIB);
    let account = budget.without_connection();
    let first = account.hold(4 * MIB + 1);
    let mut late = Purse::new(account.clone());
    assert!(!grown(&mut late, MIB).await, "nothing was freed in time");
    assert!(account.reserve(MIB).await.is_none());
    assert_eq!(budget.usage().refused, 2);

    let mut purses = [Purse::new(account.clone()), Purse::new(account.clone())];
    let [one, two] = &mut purses;
    let freed = async {
        tokio::task::yield_now().await;
        assert!(budget.is_short());
        drop(first);
    };
    let (one, two, ()) = tokio::join!(grown(one, MIB), grown(two, MIB), freed);
    assert!(one && two);
    assert_eq!(budget.usage().used, 2 * MIB);
    assert!(!budget.is_short());
}

/// A connection that holds so much and keeps the broker waiting for its client.
fn stalled(budget: &Arc<Budget>, bytes: usize) -> (Arc<Account>, Held) {
    let account = budget.without_connection();
    account.note_writing(Some(Waker::noop()));
    let held = account.hold(bytes);
    (account, held)
}

#[tokio::test(start_paused = true)]
async fn the_slowest_and_largest_is_cut_and_those_who_move_are_not() {
    let budget = Budget::new(64 * MIB / 7);
    let keeping = tokio::spawn(keep(budget.clone()));
    let small = stalled(&budget, MIB);
    let (large, held) = stalled(&budget, 2 * MIB);
    let fast = stalled(&budget, 2 * MIB);
    // It waits for the store, not for its client.
    let innocent = budget.without_connection();
    let innocent_held = innocent.hold(3 * MIB);
    let moving = async {
        loop {
            fast.0.note_moved(MIB / 2);
            // sleep: simulated time, the pace of a client.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let cutting = async move {
        while !large.is_cut() {
            // sleep: simulated time, until it is cut.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(held);
    };
    tokio::spawn(cutting);
    let asker = budget.without_connection();
    let mut purse = Purse::new(asker.clone());
    tokio::select! {
        () = moving => unreachable!(),
        given = grown(&mut purse, MIB) => assert!(given),
    }
    assert_eq!(budget.usage().cut, 1);
    assert!(!small.0.is_cut() && !fast.0.is_cut() && !innocent.is_cut() && !asker.is_cut());
    drop(innocent_held);
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn bodies_that_wait_for_each_other_do_not_wait_for_ever() {
    let budget = Budget::new(32 * MIB / 7);
    let keeping = tokio::spawn(keep(budget.clone()));
    let body = async |first: usize| {
        let account = budget.without_connection();
        let mut purse = Purse::new(account.clone());
        assert!(grown(&mut purse, first).await);
        tokio::task::yield_now().await;
        let given = tokio::select! {
            given = grown(&mut purse, 4 * MIB) => given,
            () = poll_fn(|cx| {
                account.wakes(cx.waker());
                if account.is_cut() { Poll::Ready(()) } else { Poll::Pending }
            }) => false,
        };
        drop(purse);
        given
    };
    let (little, much) = tokio::join!(body(MIB), body(2 * MIB));
    assert!(!little && much, "the one that has come further gets through");
    assert_eq!(budget.usage().used, 0);
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn those_who_hold_little_have_their_part_when_others_take_more_than_the_budget() {
    let budget = Budget::new(8 * MIB);
    let keeping = tokio::spawn(keep(budget.clone()));
    let account = budget.without_connection();
    let kept = account.hold(9 * MIB);
    let clients: Vec<_> = (0..8).map(|_| budget.without_connection()).collect();
    let mut purses: Vec<_> = clients.iter().map(|it| Purse::new(it.clone())).collect();
    for purse in &mut purses {
        let given = tokio::time::timeout(Duration::ZERO, grown(purse, 128 * KIB)).await;
        assert_eq!(given, Ok(true), "at once");
    }
    let late = budget.without_connection();
    let mut one_more = Purse::new(late.clone());
    assert!(!grown(&mut one_more, 128 * KIB).await, "an eighth is all there is");
    assert!(
        clients.iter().all(|it| !it.is_cut()) && !late.is_cut(),
        "little is not cut for those who want much"
    );
    // A purse that shrinks returns its part.
    purses[0].set(0);
    assert!(grown(&mut one_more, 128 * KIB).await);
    drop((purses, one_more, kept));
    assert_eq!((budget.usage().used, budget.little.load(Ordering::Relaxed)), (0, 0));
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_purse_that_leaves_the_line_delays_nobody() {
    let budget = Budget::new(8 * MIB);
    let account = budget.without_connection();
    let kept = account.hold(8 * MIB);
    let mut first = Purse::new(account.clone());
    let polled = poll_fn(|cx| Poll::Ready(first.poll_set(cx, 2 * MIB, 2 * MIB))).await;
    assert!(polled.is_pending());
    first.stop_waiting();
    drop(kept);
    let mut second = Purse::new(account.clone());
    let given = tokio::time::timeout(Duration::ZERO, grown(&mut second, 2 * MIB)).await;
    assert_eq!(given, Ok(true));
    assert!(!budget.is_short());
}

#[tokio::test(start_paused = true)]
async fn room_is_not_kept_for_a_call_that_waits_for_something_else() {
    let budget = Budget::new(8 * MIB);
    let account = budget.without_connection();
    let mut room = account.reserve(2 * MIB).await.unwrap();
    // sleep: simulated time, a call that is quick.
    room.while_quick(tokio::time::sleep(Duration::from_millis(10))).await;
    assert_eq!(budget.usage().used, 2 * MIB);
    // sleep: simulated time, a call that waits.
    room.while_quick(tokio::time::sleep(Duration::from_secs(60))).await;
    assert_eq!(budget.usage().used, 0);
}
