//! Looking without changing.

use redis::Value;
use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX, PAGE_SCAN_MAX};
use windlass_core::{Name, Record, StateName, Task, TaskId, Token, Wakes};

use super::Shared;
use super::link::Args;
use super::row::{self, Row};
use super::{reply, script};
use crate::store::{Due, Error, Ledger, List, ListQueues, Page, QueueCounts, Scan};

/// How far back a place in line is told.
const POSITION_MAX: u64 = 10_000;
/// Rows that are read at once while a filter looks for what it wants, and queues.
const CHUNK: usize = 500;

/// How a task is found.
#[derive(Debug, Clone, Copy)]
pub(super) enum By<'a> {
    Id(&'a TaskId),
    Number(u64),
    Key(&'a str),
}

impl Shared {
    pub(super) async fn look_up<'a>(
        &self,
        wanted: impl IntoIterator<Item = By<'a>>,
        with_body: bool,
    ) -> Result<Vec<Option<Row>>, Error> {
        self.look_up_some(wanted, with_body, 1 << 40).await
    }

    /// The same, but for those behind so many bytes.
    async fn look_up_some<'a>(
        &self,
        wanted: impl IntoIterator<Item = By<'a>>,
        with_body: bool,
        enough: u64,
    ) -> Result<Vec<Option<Row>>, Error> {
        let wanted: Vec<By<'_>> = wanted.into_iter().collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = Args::new("");
        args.flag(with_body).number(enough).number(wanted.len() as u64);
        for by in wanted {
            match by {
                By::Id(id) => args.text("id").text(id.as_str()),
                By::Number(seq) => args.text("name").text(&row::name(seq)),
                By::Key(key) => args.text("key").text(key),
            };
        }
        let rows = reply::list(self.link.run(&script::READ, &args).await?)?;
        rows.into_iter().map(Row::read).collect()
    }

    pub(super) async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.check_open()?;
        self.look_up([By::Id(id)], true).await?.pop().flatten().map(Row::task).transpose()
    }

    /// Whether records are still as they were seen, and where an answered write would be.
    pub(super) async fn are_kept(&self, seen: &[Record]) -> Result<bool, Error> {
        if self.link.replicas.is_none() || seen.is_empty() {
            return Ok(true);
        }
        let era = self.link.era();
        let ids: Vec<TaskId> = seen.iter().map(|record| record.id.clone()).collect();
        let state = |record: &Record| (record.seq, record.revision);
        let found = self.peek_all(&ids).await?.into_iter().map(|found| found.as_ref().map(state));
        Ok(found.eq(seen.iter().map(|seen| Some(state(seen)))) && self.link.is_kept(era).await?)
    }

    pub(super) async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        self.check_open()?;
        let rows = self.look_up(ids.iter().map(By::Id), false).await?;
        self.recent.remember(rows.iter().flatten().map(|row| &row.record));
        Ok(rows.into_iter().map(|row| row.map(|row| row.record)).collect())
    }

    /// Records that leases are reported on, of which this process may know those that it gave out.
    pub(super) async fn peek_held(
        &self,
        ids: &[TaskId],
        tokens: &[Token],
    ) -> Result<Vec<Option<Record>>, Error> {
        self.check_open()?;
        let mut records: Vec<Option<Record>> =
            ids.iter().zip(tokens).map(|(id, token)| self.recent.held(id, *token)).collect();
        let unknown = ids.iter().zip(&records).filter(|(_, record)| record.is_none());
        let unknown: Vec<TaskId> = unknown.map(|(id, _)| id.clone()).collect();
        let mut found = self.peek_all(&unknown).await?.into_iter();
        for record in records.iter_mut().filter(|record| record.is_none()) {
            *record = found.next().flatten();
        }
        Ok(records)
    }

    pub(super) async fn list(&self, list: &List) -> Result<Page, Error> {
        let Scan { records, next } = self.scan(list, usize::MAX).await?;
        let mut page = Page { tasks: Vec::with_capacity(records.len()), next };
        let mut bytes = 0;
        for chunk in records.chunks(CHUNK) {
            let numbers = chunk.iter().map(|record| By::Number(record.seq));
            // What Redis counts is a little more than what a page counts.
            let rows = self.look_up_some(numbers, true, 2 * ANSWER_BYTES_MAX as u64).await?;
            let left_out = rows.len() < chunk.len();
            let reached = rows.len().checked_sub(1).map(|last| chunk[last].seq);
            for row in rows.into_iter().flatten() {
                if bytes >= ANSWER_BYTES_MAX {
                    page.next = page.tasks.last().map(|task: &Task| task.record.seq);
                    return Ok(page);
                }
                let task = row.task()?;
                bytes += task.bytes();
                // It may have changed since its record was read.
                if list.matches(&task.record) {
                    page.tasks.push(task);
                }
            }
            if left_out {
                page.next = reached;
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// Records that match, and where to go on; looks at no more than [`PAGE_SCAN_MAX`].
    pub(super) async fn scan(&self, list: &List, enough: usize) -> Result<Scan, Error> {
        self.check_open()?;
        let limit = list.limit.min(PAGE_ROWS_MAX);
        let mut scan = Scan::default();
        if limit == 0 {
            return Ok(scan);
        }
        let mut before = list.before;
        let mut looked = 0;
        loop {
            let chunk = if filters(list) { CHUNK } else { limit - scan.records.len() };
            let (rows, more) = self.page(Walk::down(before, &list.states, chunk, enough)).await?;
            looked += rows.len();
            let last = rows.last().map(|row| row.record.seq);
            for row in rows {
                if scan.records.len() == limit {
                    // The rest of the chunk is for the next page.
                    return Ok(scan);
                }
                scan.next = Some(row.record.seq);
                if list.matches(&row.record) {
                    scan.records.push(row.record);
                }
            }
            if more.is_none() {
                scan.next = None;
                return Ok(scan);
            }
            before = last;
            if scan.records.len() == limit || looked >= PAGE_SCAN_MAX {
                return Ok(scan);
            }
        }
    }

    /// Rows in order of number, and the first that was left out.
    pub(super) async fn page(&self, walk: Walk<'_>) -> Result<(Vec<Row>, Option<u64>), Error> {
        let mut args = Args::new("");
        args.text(if walk.down { "down" } else { "up" }).bound(walk.beyond).bound(walk.until);
        args.number(walk.limit as u64).flag(walk.with_body).number(walk.enough.min(1 << 40) as u64);
        let wanted = |state: &StateName| walk.states.is_empty() || walk.states.contains(state);
        for state in StateName::ALL.into_iter().filter(wanted) {
            args.number(state.index() as u64);
        }
        let [rows, more] = reply::fixed(self.link.run(&script::PAGE, &args).await?)?;
        Ok((row::rows(rows)?, reply::maybe_number(more)?))
    }

    pub(super) async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.check_open()?;
        let mut key = self.key(&format!("ready/{}/{}", record.queue, record.kind));
        if let Some(own) = &record.key {
            key.push_str(&format!("/{own}"));
        }
        let rank = self.link.ask(redis::cmd("ZRANK").arg(&key).arg(row::name(record.seq))).await?;
        if matches!(rank, redis::Value::Nil) {
            return Ok(None);
        }
        let mut rank = reply::number(rank)?;
        if self.ages(&record.queue).await? {
            // Only those of its priority count.
            let level = u64::from(u8::MAX - record.priority.0);
            let mut before = redis::cmd("ZCOUNT");
            before.arg(key).arg("-inf").arg(format!("({}", level * row::ORDERS));
            rank = rank.saturating_sub(reply::number(self.link.ask(&before).await?)?);
        }
        Ok(Some(rank).filter(|rank| *rank <= POSITION_MAX))
    }

    pub(super) async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        match name {
            None => self.queue_page(ListQueues { after: None, limit: usize::MAX }).await,
            Some(name) => self.some_queues(name.as_str(), "", 1).await,
        }
    }

    pub(super) async fn queue_page(&self, list: ListQueues) -> Result<Vec<QueueCounts>, Error> {
        let mut found: Vec<QueueCounts> = Vec::new();
        while found.len() < list.limit {
            let after = found.last().map(|queue| &queue.name).or(list.after.as_ref());
            let rows = CHUNK.min(list.limit - found.len());
            let page = self.some_queues("", after.map_or("", Name::as_str), rows).await?;
            let full = page.len() == rows;
            found.extend(page);
            if !full {
                break;
            }
        }
        Ok(found)
    }

    async fn some_queues(&self, only: &str, after: &str, rows: usize) -> Result<Vec<QueueCounts>, Error> {
        self.check_open()?;
        let mut args = Args::new("");
        args.text(only).text(after).number(rows as u64);
        let page = reply::list(self.link.run(&script::QUEUES, &args).await?)?;
        page.into_iter().map(counts).collect()
    }

    pub(super) async fn ledger(&self) -> Result<Ledger, Error> {
        self.check_open()?;
        let mut command = redis::cmd("HMGET");
        command.arg(self.key("ledger"));
        for (field, _) in ledger_fields(&Ledger::default()) {
            command.arg(field);
        }
        let mut counts = reply::list(self.link.ask(&command).await?)?.into_iter();
        let mut count = || match counts.next() {
            None | Some(redis::Value::Nil) => Ok(0),
            Some(value) => reply::number(value),
        };
        Ok(Ledger {
            submitted: count()?,
            completed: count()?,
            failed: count()?,
            crashed: count()?,
            dead_lettered: count()?,
            cancelled: count()?,
            expired: count()?,
            removed: count()?,
        })
    }

    /// Live tasks whose time has come, if this process leads.
    pub(super) async fn due(&self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now();
        let orders = [("wakes", now.wall), ("elapses", now.elapsed())];
        let Some(answer) = self.come_up(&orders, limit).await? else { return Ok(Due::default()) };
        let [on_wall, wall, counted, elapsed] = reply::fixed(answer)?;
        let next = Wakes { wall: reply::maybe_number(wall)?, elapsed: reply::maybe_number(elapsed)? };
        let due = Due::of_both(row::tasks(on_wall)?, row::tasks(counted)?, next, now.stamp(), limit);
        self.due.set(due.next);
        Ok(due)
    }

    /// Finished tasks whose retention has ended, if this process leads.
    pub(super) async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now();
        let answer = self.come_up(&[("prunes", now.elapsed())], limit).await?;
        let Some(answer) = answer else { return Ok(Due::default()) };
        let [tasks, next] = reply::fixed(answer)?;
        let next = reply::maybe_number(next)?.map(|at| now.stamp().shown(at));
        self.prune.set(next);
        Ok(Due { tasks: row::tasks(tasks)?, next })
    }

    /// Reads what is due in these orders, each with the present time on its time line; `None` if this process does not lead.
    async fn come_up(&self, orders: &[(&str, u64)], limit: usize) -> Result<Option<Value>, Error> {
        self.check_open()?;
        let Some(mark) = self.leading().await? else { return Ok(None) };
        let mut args = Args::new("");
        args.text(&mark).number(limit.min(PAGE_ROWS_MAX) as u64).number(ANSWER_BYTES_MAX as u64);
        for (order, now) in orders {
            args.text(order).number(*now);
        }
        let answer = self.link.run(&script::DUE, &args).await?;
        if reply::is_text(&answer, "stranger") {
            self.leader.lose();
            return Ok(None);
        }
        Ok(Some(answer))
    }
}

/// Which rows are read, and in which direction.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) down: bool,
    pub(super) beyond: Option<u64>,
    pub(super) until: Option<u64>,
    pub(super) states: &'a [StateName],
    pub(super) limit: usize,
    pub(super) with_body: bool,
    pub(super) enough: usize,
}

impl<'a> Walk<'a> {
    fn down(beyond: Option<u64>, states: &'a [StateName], limit: usize, enough: usize) -> Self {
        Walk { down: true, beyond, until: None, states, limit, with_body: false, enough }
    }
}

/// Whether a list looks at more than states.
fn filters(list: &List) -> bool {
    list.queue.is_some()
        || list.kind.is_some()
        || list.worker.is_some()
        || list.text.is_some()
        || list.created_after.is_some()
        || list.created_before.is_some()
        || list.filter.is_some()
}

fn counts(queue: redis::Value) -> Result<QueueCounts, Error> {
    let mut fields = reply::list(queue)?.into_iter();
    let mut field = || fields.next().ok_or_else(|| reply::wrong("a short row of a queue"));
    let name = Name::new(&reply::text(field()?)?).map_err(|_| reply::wrong("a wrong name of a queue"))?;
    let paused = reply::text(field()?)? == "1";
    let mut by_state = [0; 8];
    for count in &mut by_state {
        *count = reply::number(field()?)?;
    }
    let mut pending_by_class = [0; 4];
    for count in &mut pending_by_class {
        *count = reply::number(field()?)?;
    }
    let oldest_pending_at = reply::maybe_number(field()?)?;
    Ok(QueueCounts { name, paused, by_state, pending_by_class, oldest_pending_at })
}

/// The counters of the ledger by the names of their fields.
pub(super) fn ledger_fields(ledger: &Ledger) -> [(&'static str, u64); 8] {
    [
        ("submitted", ledger.submitted),
        ("completed", ledger.completed),
        ("failed", ledger.failed),
        ("crashed", ledger.crashed),
        ("dead_lettered", ledger.dead_lettered),
        ("cancelled", ledger.cancelled),
        ("expired", ledger.expired),
        ("removed", ledger.removed),
    ]
}
