//! Looking at both stores.

use std::sync::Arc;

use windlass_core::{Filter, Record, StateName, Task};
use windlass_store::List;

use super::both::{both, same, walk};
use super::commands::{Pair, QUEUES, TYPES, WORKERS};

impl Pair {
    /// Looks for names without tasks twice, so that both stores release all of them.
    pub(super) async fn release_names(&self) {
        for store in [&self.a, &self.a, &self.b, &self.b] {
            store.release_names().await.expect("release_names");
        }
        both!(self, queues(None));
    }

    pub(super) async fn look(&mut self) {
        let list = List {
            states: (0..self.draw(3)).map(|_| StateName::ALL[self.draw(8) as usize]).collect(),
            queue: self.one_in(3).then(|| self.any(&QUEUES)),
            kind: self.one_in(3).then(|| self.any(&TYPES)),
            worker: self.one_in(5).then(|| self.any(&WORKERS)),
            text: self.one_in(4).then(|| self.draw(30).to_string()),
            created_after: None,
            created_before: None,
            filter: self.one_in(3).then(|| Arc::new(self.filter())),
            before: self.one_in(3).then(|| self.draw(self.tasks + 1)),
            limit: 1 + self.draw(30) as usize,
        };
        self.compare_scans(list.clone()).await;
        self.compare_lists(list).await;
        if let Some(Task { record, .. }) = self.recall()
            && let Some(record) = both!(self, peek(&record.id))
        {
            self.compare_positions(&record).await;
        }
        let queue = self.any(&QUEUES);
        both!(self, queues(Some(&queue)));
        both!(self, ledger());
    }

    fn filter(&mut self) -> Filter {
        let texts =
            ["-state:pending", "priority:>=100", "worker:w1", "error:\"error 3\"", "type:t1,t2 -queue:q0"];
        let text = texts[self.draw(texts.len() as u64) as usize];
        Filter::parse(text, self.wall()).expect("a valid filter")
    }

    /// The pages may be cut differently; what they hold together may not.
    pub(super) async fn compare_lists(&self, list: List) -> Vec<Task> {
        let (a, b) = (walk(&self.a, list.clone()).await, walk(&self.b, list).await);
        same("list", &a, &b);
        a
    }

    pub(super) async fn compare_positions(&self, record: &Record) {
        let a = self.a.position(record).await.expect("position");
        let b = self.b.position(record).await.expect("position");
        if b.is_some() || a.is_none_or(|place| place < self.far) {
            same("position", &a, &b);
        }
    }
}
