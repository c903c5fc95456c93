//! Looking through the tasks.

use std::collections::BTreeSet;

use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::transition::Failure;
use windlass_core::{Filter, NewTask, StateName};

use super::Harness;
use super::steps::{claim, failure, ids, name};
use crate::store::{Claim, List};

fn all(limit: usize) -> List {
    List { limit, ..List::default() }
}

pub async fn pages_go_from_newest_to_oldest(h: &mut Harness) {
    assert!(h.walk(all(3)).await.is_empty());
    h.add_named(&["a", "b", "c", "d", "e"]).await;
    let first = h.store.list(all(2)).await.expect("list");
    assert_eq!(ids(&first.tasks), ["e", "d"]);
    let second = h.store.list(List { before: first.next, ..all(2) }).await.expect("list");
    assert_eq!(ids(&second.tasks), ["c", "b"]);
    for limit in 1..7 {
        assert_eq!(ids(&h.walk(all(limit)).await), ["e", "d", "c", "b", "a"], "pages of {limit}");
    }
}

pub async fn filters_select(h: &mut Harness) {
    let start = h.wall();
    let later = NewTask { scheduled_at: Some(start + 9000), ..h.task("order-later") };
    let elsewhere = NewTask { queue: name("r"), kind: name("mail"), ..h.task("elsewhere") };
    h.add(vec![h.task("order-1"), h.task("order-2"), later]).await;
    h.add(vec![elsewhere]).await;
    h.clock.advance_ms(10);
    h.add_named(&["new"]).await;
    let held = h.take(Claim { worker: name("w7"), ..claim() }).await.remove(0);
    let broken = h.take_one().await;
    h.fail(&broken, Failure { error: "no route to host".into(), retryable: false, ..failure() }).await;
    assert_eq!(held.record.id.as_str(), "order-1");
    h.reopen().await;

    let check = async |list: List, expected: &str| {
        for limit in [1, 2, 100] {
            let tasks = h.walk(List { limit, ..list.clone() }).await;
            assert_eq!(ids(&tasks).join(" "), expected, "{list:?}");
        }
    };
    let states = |states: &[StateName]| List { states: states.to_vec(), ..List::default() };
    let text = |text: &str| List { text: Some(text.into()), ..List::default() };
    check(states(&[StateName::Running]), "order-1").await;
    check(states(&[StateName::Scheduled, StateName::DeadLetter]), "order-later order-2").await;
    check(states(&[StateName::Running, StateName::Pending, StateName::Running]), "new elsewhere order-1")
        .await;
    check(states(&[StateName::Blocked]), "").await;
    check(List { queue: Some(name("r")), ..List::default() }, "elsewhere").await;
    check(List { queue: Some(name("unknown")), ..List::default() }, "").await;
    check(List { kind: Some(name("t")), ..List::default() }, "new order-later order-2 order-1").await;
    check(List { worker: Some(name("w7")), ..List::default() }, "order-1").await;
    check(List { worker: Some(name("w")), ..List::default() }, "").await;
    check(text("order-"), "order-later order-2 order-1").await;
    check(text("route to"), "order-2").await;
    check(text("mail"), "elsewhere").await;
    check(List { created_after: Some(start), ..List::default() }, "new").await;
    check(List { created_before: Some(start + 10), ..text("else") }, "elsewhere").await;
    check(List { queue: Some(name("q")), ..states(&[StateName::Pending]) }, "new").await;
    let filter = |text: &str| List::default().narrowed(Filter::parse(text, start).expect("a filter"));
    check(filter("queue:r"), "elsewhere").await;
    check(filter("queue:q -state:pending,scheduled"), "order-2 order-1").await;
    check(filter("state:dead error:\"NO route\""), "order-2").await;
    check(filter("worker:w*"), "order-2 order-1").await;
    check(filter("type:t* id:order-*"), "order-later order-2 order-1").await;
    check(filter("state:dead state:pending"), "").await;
    check(filter("created:>2026-01-01 -id:new"), "elsewhere order-later order-2 order-1").await;
    check(List { before: Some(h.peek("order-later").await.seq), ..List::default() }, "order-2 order-1").await;
}

pub async fn a_walk_misses_nothing_while_tasks_are_added(h: &mut Harness) {
    let before: Vec<NewTask> = (0..50).map(|i| h.task(&format!("old-{i}"))).collect();
    h.add(before).await;
    let mut seen = BTreeSet::new();
    let mut list = all(7);
    for round in 0.. {
        let page = h.store.list(list.clone()).await.expect("list");
        for task in &page.tasks {
            assert!(seen.insert(task.record.id.clone()), "{} came twice", task.record.id);
        }
        h.add_named(&[&format!("new-{round}")]).await;
        let claimed = h.take_one().await;
        h.complete(&claimed.record).await;
        match page.next {
            Some(next) => list.before = Some(next),
            None => break,
        }
    }
    let old = seen.iter().filter(|id| id.as_str().starts_with("old-")).count();
    assert_eq!((old, seen.len()), (50, 50), "all that was there when the walk began, and nothing newer");
}

pub async fn a_page_has_a_ceiling(h: &mut Harness) {
    for batch in 0..2 {
        h.add((0..600).map(|i| h.task(&format!("task-{batch}-{i}"))).collect()).await;
    }
    let page = h.store.list(all(usize::MAX)).await.expect("list");
    assert_eq!(page.tasks.len(), PAGE_ROWS_MAX);
    let rest = h.store.list(List { before: page.next, ..all(usize::MAX) }).await.expect("list");
    assert_eq!(page.tasks.len() + rest.tasks.len(), 1200);
    // A rare match at the far end is found by following the pages, however short they are.
    let rare = List { text: Some("task-0-0".into()), ..all(1) };
    assert_eq!(ids(&h.walk(rare).await), ["task-0-0"]);
}
