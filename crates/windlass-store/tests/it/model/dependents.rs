//! Tasks that wait for others among the commands.

use windlass_core::{Change, Ended, Links, Record, Refusal, TaskId, transition};
use windlass_store::{Settle, Settled};

use super::both::both;
use super::commands::Pair;

impl Pair {
    /// Now and then a task depends on some that came before, or on one that never came.
    pub(super) fn links(&mut self, number: u64) -> Option<Box<Links>> {
        if !self.one_in(3) {
            return None;
        }
        let mut dependencies: Vec<TaskId> = (0..=self.draw(3)).map(|_| self.any_id(number)).collect();
        self.keep_near(number, &mut dependencies);
        dependencies.sort();
        dependencies.dedup();
        Some(Box::new(Links { dependencies, workflow: None }))
    }

    fn any_id(&mut self, below: u64) -> TaskId {
        let far = if self.one_in(12) { 1 } else { 0 };
        let near = below.saturating_sub(self.draw(8)) + far;
        TaskId::new(&format!("task-{near}")).expect("a valid id")
    }

    /// A retry that waits for whatever; the stores must agree on what comes of it.
    pub(super) fn wait_again(&mut self, record: &Record) -> Result<Option<Change>, Refusal> {
        let number: u64 = record.id.as_str().trim_start_matches("task-").parse().unwrap_or(0);
        let mut after: Vec<TaskId> = (0..=self.draw(2)).map(|_| self.any_id(number)).collect();
        after.retain(|id| *id != record.id && self.is_near(record, id));
        after.sort();
        after.dedup();
        let change = transition::retry(record, self.now())?;
        Ok(change.map(|_| Change::Requeued { at: self.now(), after: after.into() }))
    }

    pub(super) async fn tell(&mut self) {
        let limit = 1 + self.draw(20) as usize;
        let endings = both!(self, endings(limit));
        let mut settles: Vec<Settle> = Vec::new();
        for ending in endings {
            for child in ending.children {
                // Each pair on its own: a second one for the same task meets a newer revision and is a conflict.
                let ends: &[Ended] = &[ending.ended];
                let change = child.record.as_ref().and_then(|it| transition::settle(it, ends, self.now()));
                let mut seen = child.record.map(|it| it.revision);
                if self.one_in(10) {
                    seen = seen.map(|revision| revision - 1);
                }
                let ended = match self.one_in(12) {
                    true => Ended::Cancelled,
                    false => ending.ended,
                };
                settles.push(Settle {
                    child: child.seq,
                    seen,
                    parents: vec![(ending.parent, ended)],
                    change,
                });
            }
        }
        let settled = both!(self, settle(settles.clone()));
        self.told += settled.iter().filter(|it| matches!(it, Settled::Changed(_))).count() as u64;
    }
}
