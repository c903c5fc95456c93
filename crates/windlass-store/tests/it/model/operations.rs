//! Operations among the commands.

use windlass_core::Priority;
use windlass_core::operation::{Action, Expected, Operation, Order, Standing};
use windlass_store::{List, ListOperations, OperationChange, OperationWritten, WriteOperation};

use super::both::{both, same, walk};
use super::commands::{Pair, QUEUES};

const OPERATIONS: [&str; 3] = ["o0", "o1", "o2"];

impl Pair {
    pub(super) async fn operate(&mut self) {
        let id = self.any(&OPERATIONS);
        let stored = both!(self, operation(&id));
        let change = match stored {
            None => OperationChange::Start { operation: Box::new(self.new_operation(&id)) },
            Some(stored) if !stored.is_running() => OperationChange::Remove,
            Some(_) if self.one_in(20) => {
                let at = self.wall();
                OperationChange::End { standing: Standing::Cancelled { at } }
            }
            Some(stored) => self.next_step(stored).await,
        };
        let write = WriteOperation { id, change };
        if let OperationWritten::Done { operation, committed } = both!(self, write_operation(write.clone())) {
            self.operated += committed.len() as u64;
            self.left_over += operation.again.len() as u64;
        }
        self.compare_operations().await;
    }

    fn new_operation(&mut self, id: &windlass_core::Name) -> Operation {
        let action = match self.draw(5) {
            0 => Action::Retry,
            1 => Action::Cancel,
            2 if self.one_in(4) => Action::Delete,
            3 => Action::SetPriority(Priority(self.draw(256) as u8)),
            // Tasks of all groups would come into one.
            _ if self.table.is_some() => Action::SetPriority(Priority(7)),
            _ => Action::Move(self.any(&QUEUES)),
        };
        let order = Order { action, filter: "state:dead".into(), by: None };
        Operation::new(
            id.clone(),
            order,
            Expected { count: self.draw(9), at_least: self.one_in(2) },
            self.wall(),
        )
    }

    /// A page of the walk, or what is left over from the last one; now and then decided on what is out of date.
    async fn next_step(&mut self, stored: Operation) -> OperationChange {
        let list = List { before: Some(stored.cursor), limit: 1 + self.draw(12) as usize, ..List::default() };
        let (mut found, cursor) = if stored.again.is_empty() {
            // The stores may cut their pages differently; both go on with the first one's.
            let page = self.a.scan(list).await.expect("scan");
            (page.records, page.next.unwrap_or(0))
        } else {
            let again = both!(self, peek_all(&stored.again));
            (again.into_iter().flatten().collect(), stored.cursor)
        };
        for record in &mut found {
            record.revision -= u64::from(record.revision > 1 && self.one_in(6));
        }
        let (mut step, transitions) = stored.plan(&found, cursor, self.now());
        step.revision -= u64::from(self.one_in(10));
        OperationChange::Step { step, transitions }
    }

    pub(super) async fn compare_operations(&self) {
        both!(self, operations(ListOperations { before: None, running: false, limit: 9 }));
        both!(self, operations(ListOperations { before: None, running: true, limit: 1 }));
    }

    /// Records alone are the records of the tasks; a checkpoint in between may cut the pages differently.
    pub(super) async fn compare_scans(&self, list: List) {
        for store in [&self.a, &self.b] {
            let mut scanned = Vec::new();
            let mut rest = list.clone();
            loop {
                let page = store.scan(rest.clone()).await.expect("scan");
                scanned.extend(page.records.iter().map(|record| (record.seq, record.revision)));
                match page.next {
                    Some(next) => rest.before = Some(next),
                    None => break,
                }
            }
            let tasks = walk(store, list.clone()).await;
            let listed = tasks.iter().map(|task| (task.record.seq, task.record.revision)).collect::<Vec<_>>();
            same("scan", &scanned, &listed);
        }
    }
}
