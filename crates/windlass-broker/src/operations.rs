//! Acts on many tasks: the verbs. The walk itself is driven by `loops::operator`, a page at a time.

use std::time::Instant;

use windlass_core::limits::{
    LOOP_STEP_MAX, OPERATION_BY_BYTES_MAX, OPERATION_COUNT_PAGES_MAX, OPERATION_SAMPLE_MAX, PAGE_ROWS_MAX,
};
use windlass_core::operation::{Action, Expected, Operation, Order, Standing};
use windlass_core::{Filter, Name, Record, Stamp, StateName};
use windlass_store::{List, ListOperations, OperationChange, OperationWritten, Scan, WriteOperation};

use crate::broker::Broker;
use crate::change::{Happened, done};
use crate::error::Error;

/// What an operation would find.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    pub matched: Expected,
    /// Of the matching tasks that were looked at, how many it would change.
    pub would_change: Expected,
    /// A few of those that match, newest first.
    pub sample: Vec<Record>,
}

impl Broker {
    /// Begins an operation on the tasks that match now. It goes on by itself, also after a restart.
    pub async fn start_operation(&self, order: Order) -> Result<Operation, Error> {
        let now = self.now().wall;
        let filter = check(&order, now)?;
        let expected = self.count(&filter).await?;
        let id = Name::new(crate::submit::new_id(now).as_str()).expect("an id is a valid name");
        let operation = Box::new(Operation::new(id.clone(), order, expected, now));
        match self.write_operation(id, OperationChange::Start { operation }).await? {
            OperationWritten::Done { operation, .. } => Ok(*operation),
            OperationWritten::TooMany => Err(Error::TooManyOperations),
            OperationWritten::Conflict | OperationWritten::Missing => Err(Error::Busy),
        }
    }

    /// What an operation would do, with bounded effort.
    pub async fn preview_operation(&self, order: &Order) -> Result<Preview, Error> {
        let now = self.now().stamp();
        let filter = check(order, now.wall)?;
        let exact = self.counted(&filter).await?;
        let mut list = List { limit: PAGE_ROWS_MAX, ..List::default() }.narrowed(filter);
        let (mut count, mut would, mut sample) = (0, 0, Vec::new());
        let mut at_least = true;
        for _ in 0..OPERATION_COUNT_PAGES_MAX {
            let page = self.scan(list.clone()).await?;
            count += page.records.len() as u64;
            would += self.would_change(&order.action, &page.records, now).await?;
            let room = OPERATION_SAMPLE_MAX - sample.len();
            sample.extend(page.records.into_iter().take(room));
            list.before = page.next;
            if page.next.is_none() {
                at_least = false;
                break;
            }
        }
        let matched = match exact {
            Some(count) if at_least => Expected { count, at_least: false },
            _ => Expected { count, at_least },
        };
        Ok(Preview { matched, would_change: Expected { count: would as u64, at_least }, sample })
    }

    async fn would_change(&self, action: &Action, mut rest: &[Record], now: Stamp) -> Result<usize, Error> {
        let mut count = 0;
        while !rest.is_empty() {
            let (behind, some) = self.behind(action, rest).await?;
            count += action.decide_all(&rest[..some], &behind, now).len();
            rest = &rest[some..];
        }
        Ok(count)
    }

    pub async fn operation(&self, id: &Name) -> Result<Operation, Error> {
        self.inner.store.operation(id).await?.ok_or(Error::NotFound("operation"))
    }

    /// Newest first.
    pub async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        Ok(self.inner.store.operations(list).await?)
    }

    /// Ends an operation where it is; what it changed stays changed.
    pub async fn cancel_operation(&self, id: &Name) -> Result<Operation, Error> {
        let standing = Standing::Cancelled { at: self.now().wall };
        match self.write_operation(id.clone(), OperationChange::End { standing }).await? {
            OperationWritten::Done { operation, .. } => Ok(*operation),
            OperationWritten::Missing => Err(Error::NotFound("operation")),
            OperationWritten::Conflict | OperationWritten::TooMany => Err(Error::OperationEnded),
        }
    }

    /// One step: the next page, or the tasks that changed under the last one.
    pub(crate) async fn advance_operation(&self, operation: Operation) -> Result<(), Error> {
        let filter = match Filter::parse(&operation.order.filter, operation.created_at) {
            Ok(filter) => filter,
            // It was read when the operation began, so a version with another language wrote it.
            Err(error) => return self.fail_operation(operation.id, error.to_string()).await,
        };
        let list = List { before: Some(operation.cursor), limit: LOOP_STEP_MAX, ..List::default() };
        let list = list.narrowed(filter);
        let (mut found, mut cursor) = if operation.again.is_empty() {
            let page = self.scan(list).await?;
            (page.records, page.next.unwrap_or(0))
        } else {
            // They stand above the cursor.
            let list = List { before: Some(operation.first), ..list };
            (self.named(&list, &operation.again).await?, operation.cursor)
        };
        let (mut behind, mut some) = self.behind(&operation.order.action, &found).await?;
        if some < found.len() && operation.again.is_empty() {
            found.truncate(some);
            cursor = found.last().map_or(cursor, |record| record.seq);
        }
        // What is left over from a step is about what fitted into it, and all of it must be decided on.
        while some < found.len() {
            let (more, count) = self.behind(&operation.order.action, &found[some..]).await?;
            behind.extend(more);
            some += count;
        }
        let (step, transitions) = operation.plan_behind(&found, &behind, cursor, self.now());
        let happened: Vec<Happened> = transitions.iter().map(|it| Happened::of(&it.change)).collect();
        let change = OperationChange::Step { step, transitions };
        let written = match self.write_operation(operation.id.clone(), change).await {
            Err(error @ (Error::TooManyLanes | Error::Unsupported { .. } | Error::LimitApart(_))) => {
                return self.fail_operation(operation.id, error.to_string()).await;
            }
            written => written?,
        };
        // Otherwise it was cancelled, or somebody else took this step.
        if let OperationWritten::Done { committed, .. } = written {
            self.happened(done(happened, &committed), None, self.now());
        }
        Ok(())
    }

    async fn fail_operation(&self, id: Name, reason: String) -> Result<(), Error> {
        tracing::warn!(operation = %id, reason, "an operation cannot go on");
        let standing = Standing::Failed { at: self.now().wall, reason: reason.into_boxed_str() };
        self.write_operation(id, OperationChange::End { standing }).await.map(drop)
    }

    async fn write_operation(&self, id: Name, change: OperationChange) -> Result<OperationWritten, Error> {
        let began = Instant::now();
        let written = self.inner.store.write_operation(WriteOperation { id, change }).await;
        let now = self.now();
        self.inner.counters.happened(std::iter::empty(), Some(began.elapsed()), now.mono);
        self.progressed(written, now)
    }

    /// How many tasks match, as far as that is found out with bounded effort.
    async fn count(&self, filter: &Filter) -> Result<Expected, Error> {
        if let Some(count) = self.counted(filter).await? {
            return Ok(Expected { count, at_least: false });
        }
        let mut list = List { limit: PAGE_ROWS_MAX, ..List::default() }.narrowed(filter.clone());
        let mut count = 0;
        for _ in 0..OPERATION_COUNT_PAGES_MAX {
            let page = self.scan(list.clone()).await?;
            count += page.records.len() as u64;
            list.before = page.next;
            if page.next.is_none() {
                return Ok(Expected { count, at_least: false });
            }
        }
        Ok(Expected { count, at_least: true })
    }

    /// The store keeps this number when nothing but states and queues is asked for.
    async fn counted(&self, filter: &Filter) -> Result<Option<u64>, Error> {
        let mut count = 0;
        for queue in self.inner.store.queues(filter.queue().as_ref()).await? {
            for state in StateName::ALL {
                match filter.passes_all(&queue.name, state) {
                    Some(true) => count += queue.by_state[state.index()],
                    Some(false) => {}
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(count))
    }

    /// A page of records; tasks that the filter names are not searched for.
    pub(crate) async fn scan(&self, list: List) -> Result<Scan, Error> {
        let Some(ids) = list.filter.as_ref().and_then(|filter| filter.ids()) else {
            return Ok(self.inner.store.scan(list).await?);
        };
        Ok(Scan { records: self.named(&list, &ids).await?, next: None })
    }
}

/// An act on everything is not something to slip into.
fn check(order: &Order, now: u64) -> Result<Filter, Error> {
    let invalid = |field, message: String| Error::Invalid { field, message };
    let filter = Filter::parse(&order.filter, now).map_err(|error| invalid("filter", error.to_string()))?;
    if filter.is_empty() {
        let message = "must say which tasks are meant; state:… takes all of a state".to_owned();
        return Err(invalid("filter", message));
    }
    if order.by.as_ref().is_some_and(|by| by.len() > OPERATION_BY_BYTES_MAX) {
        return Err(invalid("by", format!("must be at most {OPERATION_BY_BYTES_MAX} bytes long")));
    }
    Ok(filter)
}
