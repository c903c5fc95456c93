//! Whoever observes a store hears of every change, in order. A store that cannot tell passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass_core::{Change, Name, NewTask, Progress, Record};

use super::Harness;
use super::steps::{claim, extension};
use crate::store::{Claim, Extend, Observer};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(String, &'static str, u64)>>);

impl Observer for Heard {
    fn changed(&self, change: Option<&Change>, after: &Record) {
        let what = match change {
            None => "submitted",
            Some(Change::Claimed { .. }) => "claimed",
            Some(Change::Cancelled { .. }) => "cancelled",
            Some(Change::Completed { .. }) => "completed",
            Some(Change::Released { .. }) => "released",
            Some(_) => "other",
        };
        self.0.lock().push((after.id.as_str().to_owned(), what, after.revision));
    }

    fn paused(&self, queue: &Name, _paused: bool) {
        self.0.lock().push((format!("queue {queue}"), "paused", 1));
    }

    fn progressed(&self, record: &Record, _progress: &Progress, _at: u64) {
        self.0.lock().push((record.id.as_str().to_owned(), "progressed", record.revision));
    }
}

/// What the observer heard of each task, which must be in order.
fn by_task(heard: &Heard) -> BTreeMap<String, Vec<&'static str>> {
    let mut tasks: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    let mut revisions: BTreeMap<String, u64> = BTreeMap::new();
    for (id, what, revision) in heard.0.lock().iter() {
        // What was there before anybody listened begins with a later revision.
        let first = if *what == "submitted" { 0 } else { revision - 1 };
        let before = revisions.insert(id.clone(), *revision).unwrap_or(first);
        let next = if *what == "progressed" { before } else { before + 1 };
        assert_eq!(*revision, next, "{id}: {what}");
        tasks.entry(id.clone()).or_default().push(what);
    }
    tasks
}

pub async fn every_change_is_told_in_order(h: &mut Harness) {
    let Some(observed) = h.store.signals().observed.clone() else { return };
    let heard = Arc::new(Heard::default());
    let observer: Arc<dyn Observer> = heard.clone();
    observed.observe(Arc::downgrade(&observer));
    h.add_named(&["unheard"]).await;
    observed.listen(true);
    let late = NewTask { expires_at: Some(h.wall() + 10), ..h.task("late") };
    h.add(vec![h.task("a"), late]).await;
    h.clock.advance_ms(20);
    let tasks = h.take(Claim { max: 10, ..claim() }).await;
    let a = tasks.iter().find(|task| task.record.id.as_str() == "a").expect("it was given out");
    let progress = Some(Progress { fraction: 0.5, note: None });
    h.extend(Extend { progress, ..extension(&a.record) }).await;
    h.complete(&a.record).await;
    h.pause("q", true).await;
    observed.listen(false);
    h.add_named(&["later"]).await;
    let expected = [
        ("a".to_owned(), vec!["submitted", "claimed", "progressed", "completed"]),
        // The claim came across it, and no caller hears of that.
        ("late".to_owned(), vec!["submitted", "cancelled"]),
        ("queue q".to_owned(), vec!["paused"]),
        ("unheard".to_owned(), vec!["claimed"]),
    ];
    assert_eq!(by_task(&heard), BTreeMap::from(expected));
}
