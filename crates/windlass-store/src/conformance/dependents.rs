//! Tasks that wait for others.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::transition;
use windlass_core::{CancelReason, Change, Ended, Links, NewTask, OnConflict, Record, State, StateName};
use windlass_core::{TaskId, Unique, UniqueKey};

use super::Harness;
use super::steps::{claim, id, ids, name};
use crate::store::{Claim, Committed, Ending, Insert, Inserted, Settle, Settled};

impl Harness {
    fn behind(&self, text: &str, parents: &[&str]) -> NewTask {
        let mut task = self.task(text);
        let dependencies = parents.iter().map(|text| id(text)).collect();
        task.body.links = Some(Box::new(Links { dependencies, workflow: None }));
        task
    }

    async fn endings(&self, limit: usize) -> Vec<Ending> {
        self.store.endings(limit).await.expect("endings")
    }

    async fn settle(&self, settles: Vec<Settle>) -> Vec<Settled> {
        self.store.settle(settles).await.expect("settle")
    }

    /// What the broker does with some ends.
    fn decided(&self, endings: Vec<Ending>) -> Vec<Settle> {
        type Ends = (Option<Record>, Vec<(u64, Ended)>);
        let mut all: BTreeMap<u64, Ends> = BTreeMap::new();
        for ending in endings {
            for child in ending.children {
                let entry = all.entry(child.seq).or_insert_with(|| (child.record, Vec::new()));
                entry.1.push((ending.parent, ending.ended));
            }
        }
        let settle = |(child, (record, parents)): (u64, Ends)| {
            let ends: Vec<Ended> = parents.iter().map(|(_, ended)| *ended).collect();
            let change = record.as_ref().and_then(|it| transition::settle(it, &ends, self.wall()));
            Settle { child, seen: record.map(|it| it.revision), parents, change }
        };
        all.into_iter().map(settle).collect()
    }

    /// Tells everything there is to tell, some pairs at a time; returns how many steps it took.
    async fn tell(&self, limit: usize) -> usize {
        for step in 0.. {
            let endings = self.endings(limit).await;
            if endings.is_empty() {
                return step;
            }
            let pairs: usize = endings.iter().map(|ending| ending.children.len()).sum();
            assert!((1..=limit).contains(&pairs), "{pairs} pairs in a step");
            for settled in self.settle(self.decided(endings)).await {
                assert_ne!(settled, Settled::Conflict);
            }
        }
        unreachable!("there is an end to it")
    }

    async fn finish(&self, text: &str) -> Record {
        let task = self.take_one().await;
        assert_eq!(task.record.id, id(text));
        self.complete(&task.record).await
    }

    /// A retry that looks at the dependencies, as the broker's does.
    async fn retry_behind(&self, text: &str) -> Record {
        let task = self.store.get(&id(text)).await.expect("get").expect("it is there");
        let parents = self.store.peek_all(task.body.dependencies()).await.expect("peek_all");
        let parents: Vec<(TaskId, &Record)> =
            parents.iter().flatten().map(|parent| (parent.id.clone(), parent)).collect();
        self.done(&task.record, transition::retry_behind(&task.record, &parents, self.wall())).await
    }
}

pub async fn a_task_waits_for_its_dependencies(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    let later = NewTask { scheduled_at: Some(h.wall() + 500), ..h.behind("later", &["a"]) };
    let added = h.add(vec![h.behind("c", &["a", "b"]), h.behind("d", &["c"]), later]).await;
    let states: Vec<&State> = added.iter().map(|record| &record.state).collect();
    assert_eq!(
        states,
        [&State::Blocked { open: 2 }, &State::Blocked { open: 1 }, &State::Blocked { open: 1 }]
    );
    assert!(h.peek("a").await.awaited && h.peek("c").await.awaited && !h.peek("d").await.awaited);
    assert_eq!(h.counts("q").await.by_state[StateName::Blocked.index()], 3);
    let task = h.store.get(&id("c")).await.expect("get").expect("it is there");
    assert_eq!(task.body.dependencies(), [id("a"), id("b")]);
    h.finish("a").await;
    assert_eq!(h.tell(10).await, 1);
    assert_eq!(h.peek("c").await.state, State::Blocked { open: 1 });
    assert_eq!(h.peek("later").await.state, State::Scheduled { at: h.wall() + 500 });
    assert!(!h.peek("a").await.awaited, "everybody knows");
    h.finish("b").await;
    assert!(h.take(claim()).await.is_empty(), "nobody has been told yet");
    h.tell(10).await;
    h.finish("c").await;
    h.tell(10).await;
    h.finish("d").await;
    assert!(h.endings(10).await.is_empty());
}

pub async fn what_cannot_be_waited_for_is_told(h: &mut Harness) {
    h.add_named(&["done", "gone", "live"]).await;
    h.finish("done").await;
    h.cancel(&h.peek("gone").await).await;
    let tasks = vec![
        h.behind("a", &["done"]),
        h.behind("b", &["live", "nowhere", "gone"]),
        h.behind("c", &["live", "gone", "nowhere"]),
        h.behind("self", &["self"]),
    ];
    let answers = h.insert(tasks).await;
    assert!(matches!(&answers[0], Inserted::New(record) if record.state == State::Pending));
    assert_eq!(answers[1], Inserted::Dependency { id: id("nowhere"), cancelled: false });
    assert_eq!(answers[2], Inserted::Dependency { id: id("gone"), cancelled: true });
    assert_eq!(answers[3], Inserted::Dependency { id: id("self"), cancelled: false });
    assert!(!h.peek("live").await.awaited, "a refused task leaves no trace");
    let again = h.insert(vec![h.behind("a", &["done"])]).await;
    assert!(matches!(again[0], Inserted::Same(_)), "a taken id is told first");
}

pub async fn a_batch_may_depend_on_what_stands_before(h: &mut Harness) {
    let batch = |last: &[&str]| {
        let tasks = vec![h.task("a"), h.behind("b", &["a"]), h.behind("c", last)];
        Insert { tasks: tasks.into(), atomic: true, max_depth: None }
    };
    let refused = h.store.insert(batch(&["a", "b", "d"])).await.expect("insert");
    assert_eq!(refused[2], Inserted::Dependency { id: id("d"), cancelled: false });
    assert_eq!(refused[..2], [Inserted::Aborted, Inserted::Aborted]);
    let added = h.store.insert(batch(&["a", "b"])).await.expect("insert");
    assert!(added.iter().all(|answer| matches!(answer, Inserted::New(_))), "{added:?}");
    assert_eq!(h.peek("c").await.state, State::Blocked { open: 2 });
    let plain = h.insert(vec![h.behind("y", &["z"]), h.task("z"), h.behind("x", &["z"])]).await;
    assert_eq!(plain[0], Inserted::Dependency { id: id("z"), cancelled: false }, "it stands behind");
    assert!(matches!(plain[2], Inserted::New(_)));
}

pub async fn a_cancelled_dependency_cancels_all_behind_it(h: &mut Harness) {
    h.add_named(&["a", "other"]).await;
    h.add(vec![h.behind("b", &["a", "other"]), h.behind("c", &["b"]), h.behind("d", &["other"])]).await;
    h.cancel(&h.peek("a").await).await;
    assert_eq!(h.tell(10).await, 2, "one step for each level");
    for text in ["b", "c"] {
        let state = h.peek(text).await.state;
        assert_eq!(state, State::Cancelled { at: h.wall(), reason: CancelReason::Dependency });
    }
    h.finish("other").await;
    h.tell(10).await;
    assert_eq!(h.state("b").await, StateName::Cancelled, "it waits no more");
    assert_eq!(h.state("d").await, StateName::Pending);
    assert_eq!(h.store.ledger().await.expect("ledger").cancelled, 3);
}

pub async fn an_end_counts_once(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    h.add(vec![h.behind("c", &["a", "b"])]).await;
    h.finish("a").await;
    let mut settles = h.decided(h.endings(10).await);
    assert!(matches!(h.settle(settles.clone()).await[..], [Settled::Changed(_)]));
    assert_eq!(h.settle(settles.clone()).await, [Settled::Conflict], "by the revision");
    settles[0].seen = Some(h.peek("c").await.revision);
    assert_eq!(h.settle(settles).await, [Settled::Conflict], "by the pair, which is gone");
    assert_eq!(h.peek("c").await.state, State::Blocked { open: 1 });
}

pub async fn a_decision_on_what_changed_is_a_conflict(h: &mut Harness) {
    h.add_named(&["a"]).await;
    h.add(vec![h.behind("b", &["a"])]).await;
    h.cancel(&h.peek("a").await).await;
    let settles = h.decided(h.endings(10).await);
    h.retry(&h.peek("a").await).await;
    assert!(h.endings(10).await.is_empty(), "it lives again");
    assert_eq!(h.settle(settles).await, [Settled::Conflict]);
    assert_eq!(h.peek("b").await.state, State::Blocked { open: 1 });
    h.finish("a").await;
    let settles = h.decided(h.endings(10).await);
    h.cancel(&h.peek("b").await).await;
    assert_eq!(h.settle(settles).await, [Settled::Conflict]);
    h.tell(10).await;
    assert_eq!(h.state("b").await, StateName::Cancelled);
}

/// A cascade takes several steps. A retry in between keeps the dependents that it has not reached; a second cancel takes all.
pub async fn a_retry_stops_a_cascade(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let children = ["b0", "b1", "b2", "b3", "b4"];
    h.add(children.iter().map(|text| h.behind(text, &["a"])).collect()).await;
    h.cancel(&h.peek("a").await).await;
    h.settle(h.decided(h.endings(2).await)).await;
    assert!(h.peek("a").await.must_tell(), "some do not know yet");
    let late = h.decided(h.endings(2).await);
    h.retry_behind("a").await;
    assert_eq!(h.settle(late.clone()).await, [Settled::Conflict, Settled::Conflict]);
    assert!(h.endings(10).await.is_empty());
    let cancelled = async || {
        let mut names = Vec::new();
        for text in children {
            if h.state(text).await == StateName::Cancelled {
                names.push(text);
            }
        }
        names
    };
    assert_eq!(cancelled().await, ["b0", "b1"]);
    for text in cancelled().await {
        assert_eq!(h.retry_behind(text).await.state, State::Blocked { open: 1 });
    }
    let again = h.cancel(&h.peek("a").await).await;
    assert!(again.must_tell());
    assert_eq!(h.tell(2).await, 3);
    assert_eq!(cancelled().await, children);
    assert!(!h.peek("a").await.must_tell(), "all know");
    assert_eq!(h.settle(late).await, [Settled::Conflict, Settled::Conflict]);
}

pub async fn a_dead_letter_is_waited_for(h: &mut Harness) {
    h.add_named(&["a"]).await;
    h.add(vec![h.behind("b", &["a"])]).await;
    let task = h.take_one().await;
    let fatal = transition::Failure { retryable: false, ..super::steps::failure() };
    let dead = h.fail(&task, fatal).await;
    assert!(h.endings(10).await.is_empty());
    let late = h.add(vec![h.behind("c", &["a"])]).await.remove(0);
    assert_eq!(late.state, State::Blocked { open: 1 });
    h.retry(&Record { awaited: true, ..dead }).await;
    h.finish("a").await;
    h.tell(10).await;
    assert_eq!((h.state("b").await, h.state("c").await), (StateName::Pending, StateName::Pending));
}

pub async fn what_others_wait_for_is_not_forgotten_before_they_know(h: &mut Harness) {
    let first = h.add_named(&["a", "b"]).await;
    let task = h.behind("c", &["a"]);
    h.add(vec![task]).await;
    // Decided before anybody waited: the revision is the same.
    let removed = Change::Removed { at: h.wall().into() };
    assert_eq!(h.commit(&first[0], removed.clone()).await, Committed::Conflict);
    h.remove(&h.peek("a").await).await;
    let state = h.peek("a").await.state;
    assert_eq!(state, State::Cancelled { at: h.wall(), reason: CancelReason::Forgotten });
    let prunable = async || ids(&h.store.prunable(9).await.expect("prunable").tasks).join(" ");
    assert_eq!(prunable().await, "");
    h.tell(10).await;
    assert_eq!(h.state("c").await, StateName::Cancelled);
    assert_eq!(prunable().await, "a");
    h.remove(&h.peek("a").await).await;
    assert!(matches!(h.commit(&first[1], removed).await, Committed::Done(_)), "nobody waits for this one");
}

pub async fn a_retried_task_waits_again(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    h.add(vec![h.behind("c", &["a", "b"]), h.behind("d", &["c"])]).await;
    h.cancel(&h.peek("a").await).await;
    h.tell(10).await;
    h.retry_behind("a").await;
    h.finish("b").await;
    // It completed and has not told yet: the pair from before is still there, and must not count twice.
    let again = h.retry_behind("c").await;
    assert_eq!(again.state, State::Blocked { open: 2 });
    assert_eq!(h.retry_behind("d").await.state, State::Blocked { open: 1 });
    h.tell(10).await;
    assert_eq!(h.peek("c").await.state, State::Blocked { open: 1 });
    h.finish("a").await;
    h.tell(10).await;
    h.finish("c").await;
    h.tell(10).await;
    h.finish("d").await;
    // A task that it should wait for was forgotten under the decision.
    let gone = h.add_named(&["x"]).await.remove(0);
    let y = h.cancel(&h.add_named(&["y"]).await[0]).await;
    h.remove(&gone).await;
    let after = Change::Requeued { at: h.wall().into(), after: [id("x")].into() };
    assert_eq!(h.commit(&y, after).await, Committed::Conflict);
}

pub async fn a_dependency_that_is_named_twice_counts_once(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    let added = h.add(vec![h.behind("c", &["a", "b", "a"])]).await.remove(0);
    assert_eq!(added.state, State::Blocked { open: 2 });
    let cancelled = h.cancel(&added).await;
    let after = [id("b"), id("a"), id("b")].into();
    let again = h.commit(&cancelled, Change::Requeued { at: h.wall().into(), after }).await;
    assert!(
        matches!(&again, Committed::Done(record) if record.state == State::Blocked { open: 2 }),
        "{again:?}"
    );
    h.cancel(&h.peek("c").await).await;
    assert_eq!(h.retry_behind("c").await.state, State::Blocked { open: 2 });
    for text in ["a", "b", "c"] {
        h.finish(text).await;
        h.tell(10).await;
    }
}

pub async fn a_task_cannot_wait_for_what_gives_way_to_it(h: &mut Harness) {
    let key = |task: NewTask| {
        let key = UniqueKey::new("k").expect("a key");
        let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Replace };
        NewTask { unique: Some(Box::new(unique)), ..task }
    };
    h.add(vec![key(h.task("a"))]).await;
    let refused = Inserted::Dependency { id: id("a"), cancelled: true };
    assert_eq!(h.insert(vec![key(h.behind("b", &["a"]))]).await, std::slice::from_ref(&refused));
    let batch = |tasks: Vec<NewTask>| Insert { tasks: tasks.into(), atomic: true, max_depth: None };
    let answers = h.store.insert(batch(vec![key(h.behind("b", &["a"]))])).await.expect("insert");
    assert_eq!(answers, [refused]);
    let both = vec![key(h.task("c")), key(h.behind("d", &["c"]))];
    let answers = h.store.insert(batch(both)).await.expect("insert");
    assert_eq!(answers, [Inserted::Aborted, Inserted::Dependency { id: id("c"), cancelled: true }]);
    let first = h.peek("a").await;
    assert_eq!((first.state, first.awaited), (State::Pending, false), "nothing happened to it");
    assert!(matches!(h.insert(vec![key(h.task("e"))]).await[..], [Inserted::Replaced { .. }]));
}

pub async fn a_dependent_that_is_gone_is_passed_over(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let b = h.add(vec![h.behind("b", &["a"]), h.behind("c", &["a"])]).await.remove(0);
    h.remove(&b).await;
    h.finish("a").await;
    let endings = h.endings(10).await;
    let there: Vec<bool> = endings[0].children.iter().map(|child| child.record.is_some()).collect();
    assert_eq!(there, [false, true]);
    let settled = h.settle(h.decided(endings)).await;
    assert!(matches!(settled[..], [Settled::Dropped, Settled::Changed(_)]), "{settled:?}");
    assert!(h.endings(10).await.is_empty());
}

pub async fn a_wide_graph_is_told_in_small_steps(h: &mut Harness) {
    fan_out_and_in(h, 2500).await;
}

/// One task, then `width` behind it, then one behind all of these.
pub async fn fan_out_and_in(h: &mut Harness, width: usize) {
    let middle: Vec<String> = (0..width).map(|i| format!("m{i}")).collect();
    h.add_named(&["first"]).await;
    for some in middle.chunks(500) {
        h.add(some.iter().map(|text| h.behind(text, &["first"])).collect()).await;
    }
    let names: Vec<&str> = middle.iter().map(String::as_str).collect();
    h.add(vec![h.behind("last", &names)]).await;
    assert_eq!(h.peek("last").await.state, State::Blocked { open: width as u32 });
    h.finish("first").await;
    assert_eq!(h.tell(100).await, width / 100);
    let mut done = 0;
    while done < width {
        let tasks = h.take(Claim { max: 500, worker: name("w"), ..claim() }).await;
        assert!(!tasks.is_empty());
        h.complete_all(&tasks).await;
        done += tasks.len();
        if done == 1000 {
            h.reopen().await;
        }
    }
    assert_eq!(h.state("last").await, StateName::Blocked);
    assert_eq!(h.tell(1000).await, width.div_ceil(1000));
    h.finish("last").await;
}

pub async fn an_end_is_signalled(h: &mut Harness) {
    h.add_named(&["a"]).await;
    h.add(vec![h.behind("b", &["a"])]).await;
    h.finish("a").await;
    let signal = h.store.signals().dependents.notified();
    tokio::time::timeout(Duration::from_secs(30), signal).await.expect("an end was not signalled");
}

pub async fn who_waits_outlives_a_reopen(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    h.add(vec![h.behind("c", &["a", "b"]), h.behind("d", &["c"])]).await;
    h.reopen().await;
    h.finish("a").await;
    let endings = h.endings(10).await;
    assert_eq!(endings.len(), 1);
    h.reopen().await;
    assert_eq!(h.endings(10).await, endings, "it has yet to be told");
    h.tell(10).await;
    h.reopen().await;
    assert!(h.endings(10).await.is_empty(), "it was told");
    h.finish("b").await;
    h.tell(10).await;
    h.finish("c").await;
    h.reopen().await;
    h.tell(10).await;
    h.finish("d").await;
}
