//! Checkpoints under way on one stream. Messages with checkpoints are carried out side by side, but those of one task in the
//! order in which they came: the last one sent is the one that stays.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(super) struct Saves(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// Who came last for a task. There are only as many as messages under way name.
    last: HashMap<String, (u64, CancellationToken)>,
}

/// A place behind all that came before for the same tasks. It is given up when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    saves: Arc<Saves>,
    number: u64,
    tasks: Vec<String>,
    before: Vec<CancellationToken>,
    over: CancellationToken,
}

impl Saves {
    pub(super) fn queue(self: &Arc<Self>, mut tasks: Vec<String>) -> Turn {
        // Nobody stands behind himself.
        tasks.sort_unstable();
        tasks.dedup();
        let over = CancellationToken::new();
        let mut queue = self.0.lock();
        queue.next += 1;
        let number = queue.next;
        let behind = |task: &String| {
            let before = queue.last.insert(task.clone(), (number, over.clone()));
            before.map(|(_, over)| over)
        };
        let before = tasks.iter().filter_map(behind).collect();
        Turn { saves: self.clone(), number, tasks, before, over }
    }
}

impl Turn {
    /// Ready when those before are done.
    pub(super) async fn comes(&self) {
        for before in &self.before {
            before.cancelled().await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.saves.0.lock();
        for task in &self.tasks {
            if queue.last.get(task).is_some_and(|(number, _)| *number == self.number) {
                queue.last.remove(task);
            }
        }
        self.over.cancel();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn messages_of_one_task_go_in_order_and_others_beside_them() {
        let saves = Arc::new(Saves::default());
        let turn = |tasks: &[&str]| saves.queue(tasks.iter().map(|task| (*task).to_owned()).collect());
        let comes = |turn: &Turn| turn.comes().now_or_never().is_some();
        let (first, second) = (turn(&["a", "a"]), turn(&["b"]));
        let (both, third) = (turn(&["b", "a"]), turn(&["b"]));
        assert_eq!([&first, &second, &both, &third].map(comes), [true, true, false, false]);
        drop(first);
        assert_eq!([&second, &both, &third].map(comes), [true, false, false]);
        drop(second);
        assert_eq!([&both, &third].map(comes), [true, false]);
        drop(both);
        assert!(comes(&third) && comes(&turn(&["a"])));
        drop(third);
        assert!(saves.0.lock().last.is_empty(), "nothing is kept of what is done");
    }
}
