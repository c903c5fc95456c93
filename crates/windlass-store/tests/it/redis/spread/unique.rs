//! Unique keys in batches that reach over several parts.

use std::sync::Arc;

use windlass_core::{NewTask, OnConflict, Record, StateName, Transition, Unique, UniqueKey, transition};
use windlass_store::{Clock, Committed, Insert, Inserted, Store};

use super::super::shared::add;
use super::{PARTS, fresh_url, is_refused, of, store, two_apart};

fn unique(queue: &str, id: &str, on_conflict: OnConflict, now: u64) -> NewTask {
    let key = UniqueKey::new("a key").expect("a key");
    NewTask { unique: Some(Box::new(Unique { key, for_ms: None, on_conflict })), ..of(queue, id, now) }
}

async fn peek(store: &Arc<dyn Store>, id: &str) -> Record {
    store.get(&id.parse().expect("an id")).await.expect("get").expect("a task").record
}

fn change(record: &Record, change: windlass_core::Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

#[tokio::test]
async fn a_batch_that_replaces_what_it_adds_in_another_part_adds_nothing() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let plain = of(&a, "plain", now);
    let tasks = vec![
        plain,
        unique(&a, "first", OnConflict::Return, now),
        unique(&b, "second", OnConflict::Replace, now),
    ];
    let answer = store.insert(Insert { tasks: tasks.clone().into(), atomic: false, max_depth: None }).await;
    assert!(is_refused(&answer), "{answer:?}");
    assert_eq!(store.ledger().await.expect("ledger").submitted, 0, "nothing was written before");
    // Where nobody is replaced it is no matter.
    let mut mild = tasks;
    mild[2] = unique(&b, "second", OnConflict::Return, now);
    let answers = add(&store, mild).await;
    assert!(
        matches!(&answers[..], [Inserted::New(_), Inserted::New(_), Inserted::Live(task)] if task.record.id.as_str() == "first"),
        "{answers:?}"
    );
}

/// The first of a list that can have the key has it, as on one Redis.
#[tokio::test]
async fn retries_of_one_key_in_several_parts_are_decided_in_their_order() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    for (queue, id) in [(&a, "one"), (&b, "two")] {
        let answers = add(&store, vec![unique(queue, id, OnConflict::Return, now)]).await;
        assert!(matches!(answers[..], [Inserted::New(_)]), "{answers:?}");
        let record = peek(&store, id).await;
        let cancelled = transition::cancel(&record, now).expect("it is live").expect("a change");
        assert!(matches!(
            store.commit(vec![change(&record, cancelled)]).await.expect("commit")[..],
            [Committed::Done(_)]
        ));
    }
    for [first, second] in [["one", "two"], ["two", "one"], ["two", "one"], ["one", "two"]] {
        let mut retries = Vec::new();
        for id in [first, second] {
            let record = peek(&store, id).await;
            retries
                .push(change(&record, transition::retry(&record, now).expect("it ended").expect("a change")));
        }
        let committed = store.commit(retries).await.expect("commit");
        assert!(
            matches!(&committed[..], [Committed::Done(_), Committed::KeyHeld(holder)] if holder.as_str() == first),
            "{first} comes first: {committed:?}"
        );
        // One that gives the key up before another wants it does so in the same list too.
        let (gives, wants) = (peek(&store, first).await, peek(&store, second).await);
        let both = vec![
            change(&gives, transition::cancel(&gives, now).expect("it is live").expect("a change")),
            change(&wants, transition::retry(&wants, now).expect("it ended").expect("a change")),
        ];
        let committed = store.commit(both).await.expect("commit");
        assert!(matches!(committed[..], [Committed::Done(_), Committed::Done(_)]), "{committed:?}");
        let held = peek(&store, second).await;
        let cancelled = transition::cancel(&held, now).expect("it is live").expect("a change");
        store.commit(vec![change(&held, cancelled)]).await.expect("commit");
    }
}

/// A task that meets the holder of its key, or itself, in another part has what it wants.
#[tokio::test]
async fn a_batch_that_is_added_whole_may_meet_tasks_of_other_parts() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    add(&store, vec![unique(&a, "holds", OnConflict::Return, now), of(&a, "same", now)]).await;
    let insert = |tasks: Vec<NewTask>| Insert { tasks: tasks.into(), atomic: true, max_depth: None };
    let tasks = vec![of(&b, "new", now), unique(&b, "returns", OnConflict::Return, now), of(&b, "same", now)];
    let answers = store.insert(insert(tasks)).await.expect("insert");
    assert!(matches!(answers[..], [Inserted::New(_), Inserted::Live(_), Inserted::Same(_)]), "{answers:?}");
    let tasks = vec![of(&b, "newer", now), unique(&b, "rejected", OnConflict::Reject, now)];
    let answers = store.insert(insert(tasks)).await.expect("insert");
    assert!(matches!(answers[..], [Inserted::Aborted, Inserted::KeyHeld(_)]), "{answers:?}");
    assert_eq!(store.ledger().await.expect("ledger").submitted, 3);
}

#[tokio::test]
async fn a_task_of_another_part_that_expired_holds_no_key() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    for (i, rule) in [OnConflict::Return, OnConflict::Reject, OnConflict::Replace].into_iter().enumerate() {
        let now = clock.now().wall;
        let (first, second) = (format!("first-{i}"), format!("second-{i}"));
        let brief = NewTask { expires_at: Some(now + 1000), ..unique(&a, &first, OnConflict::Return, now) };
        assert!(matches!(add(&store, vec![brief]).await[..], [Inserted::New(_)]));
        clock.advance_ms(1000);
        let now = clock.now().wall;
        let answers = add(&store, vec![unique(&b, &second, rule, now)]).await;
        assert!(matches!(answers[..], [Inserted::New(_)]), "{answers:?}");
        assert_eq!(peek(&store, &first).await.state_name(), StateName::Cancelled);
        let held = peek(&store, &second).await;
        let cancelled = transition::cancel(&held, now).expect("it is live").expect("a change");
        store.commit(vec![change(&held, cancelled)]).await.expect("commit");
    }
}

/// Its id is told before its key, so a submit whose answer was lost finds its own task.
#[tokio::test]
async fn a_repeated_submit_finds_its_task_though_another_part_has_its_key() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    add(&store, vec![unique(&a, "first", OnConflict::Return, now)]).await;
    let first = peek(&store, "first").await;
    let cancelled = transition::cancel(&first, now).expect("it is live").expect("a change");
    store.commit(vec![change(&first, cancelled)]).await.expect("commit");
    add(&store, vec![unique(&b, "second", OnConflict::Return, now)]).await;
    for rule in [OnConflict::Return, OnConflict::Reject, OnConflict::Replace] {
        let answers = add(&store, vec![unique(&a, "first", rule, now)]).await;
        assert!(
            matches!(&answers[..], [Inserted::Same(task)] if task.record.id.as_str() == "first"),
            "{answers:?}"
        );
    }
}

#[tokio::test]
async fn sixty_four_clients_of_three_processes_replace_each_other_in_one_part() {
    super::super::contest::each_replaces_another(&fresh_url(PARTS), 3).await;
}
