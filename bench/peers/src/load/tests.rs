//! The loops on a queue that lives in this process.

use std::collections::VecDeque;

use super::*;
use crate::driver;

/// A queue without a server.
#[derive(Debug, Clone, Default)]
struct Local {
    tasks: Rc<std::cell::RefCell<VecDeque<Vec<u8>>>>,
    completed: Rc<Cell<u64>>,
}

impl Driver for Local {
    type Producer = Local;
    type Worker = LocalWorker;

    async fn producer(&self) -> Result<Local> {
        Ok(self.clone())
    }

    async fn worker(&self, _number: usize, batch: usize) -> Result<LocalWorker> {
        Ok(LocalWorker { queue: self.clone(), batch })
    }
}

impl driver::Producer for Local {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        tokio::task::yield_now().await;
        self.tasks.borrow_mut().extend(payloads.iter().map(|payload| payload.to_vec()));
        Ok(())
    }
}

#[derive(Debug)]
struct LocalWorker {
    queue: Local,
    batch: usize,
}

impl driver::Worker for LocalWorker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        tokio::task::yield_now().await;
        let mut count = 0;
        while count < self.batch
            && let Some(task) = self.queue.tasks.borrow_mut().pop_front()
        {
            start(&task);
            count += 1;
        }
        self.queue.completed.set(self.queue.completed.get() + count as u64);
        Ok(count)
    }
}

const SHORT: Duration = Duration::from_millis(50);

async fn check<F: Future<Output = ()>>(test: F) {
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_backlog_is_filled_to_the_count_and_drained_to_the_end() {
    check(async {
        let queue = Local::default();
        assert_eq!(fill(&queue, 2345, Duration::from_secs(60)).await.unwrap(), 2345);
        assert_eq!(queue.tasks.borrow().len(), 2345);
        let sample = drain(&queue, 100, 2345, Duration::from_secs(60)).await.unwrap();
        assert_eq!((sample.operations, queue.completed.get()), (2345, 2345));
    })
    .await;
}

#[tokio::test]
async fn an_empty_backlog_is_an_error_and_not_a_rate() {
    check(async {
        assert!(drain(&Local::default(), 1, 10, SHORT).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn submits_are_counted_by_task() {
    check(async {
        let queue = Local::default();
        let sample = submit(&queue, 2, 10, SHORT).await.unwrap();
        assert!(sample.operations > 0 && sample.operations.is_multiple_of(10));
        let warm = 2;
        assert_eq!(sample.operations + warm, queue.tasks.borrow().len() as u64);
        assert!(sample.latency.is_some());
    })
    .await;
}

#[tokio::test]
async fn producers_do_not_run_away_from_workers() {
    check(async {
        let queue = Local::default();
        let sample = flow(&queue, 100, SHORT).await.unwrap();
        assert!(sample.operations > 0 && sample.operations <= queue.completed.get());
        assert!((queue.tasks.borrow().len() as u64) <= AHEAD + 100 * BATCHES as u64);
    })
    .await;
}

#[tokio::test]
async fn every_task_of_a_steady_rate_is_seen() {
    check(async {
        let queue = Local::default();
        let sample = latency(&queue, 1000, SHORT).await.unwrap();
        assert_eq!((sample.operations, queue.completed.get()), (50, 50));
    })
    .await;
}
