//! Adding tasks: in one call where each stands alone, or by a plan where they look at others.

use std::collections::HashMap;

use windlass_core::limits::LANES_MAX;
use windlass_core::{NewTask, Record};

use super::Shared;
use super::hints::Hint;
use super::key_locks::{Tries, keys_of};
use super::limits;
use super::link::{Args, Fence, is_brief};
use super::outlook::Outlook;
use super::plan::Plan;
use super::row::{self, Row, Shape};
use super::{reply, script};
use crate::depth::Room;
use crate::store::{Error, Insert, Inserted};

/// A limit that is full is told by this many words; a row has more.
const LIMIT_FULL_WORDS: usize = 3;

impl Shared {
    pub(super) async fn insert(&self, insert: Insert, fence: Fence) -> Result<Vec<Inserted>, Error> {
        self.check_open()?;
        if insert.tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.waits.settled().await;
        let alone = |task: &NewTask| task.unique.is_none() && task.body.dependencies().is_empty();
        if insert.tasks.iter().all(alone) && (!insert.atomic || insert.tasks.len() == 1) {
            return self.insert_alone(&insert, fence).await;
        }
        let room = Room::Bounded { max_depth: insert.max_depth };
        self.insert_by_plan(&insert.tasks, insert.atomic, room, fence).await
    }

    async fn insert_alone(&self, insert: &Insert, fence: Fence) -> Result<Vec<Inserted>, Error> {
        let records: Vec<Record> = insert.tasks.iter().map(|new| Record::submitted(new, 0)).collect();
        let mut hint = Hint::default();
        records.iter().for_each(|record| hint.add(record));
        let answer = loop {
            let mut args = self.args(&hint);
            args.fenced(fence).outliving(records.iter().any(|record| is_brief(record.retention_ms)));
            args.bound(insert.max_depth).number(LANES_MAX as u64);
            add_tasks(&mut args, &insert.tasks, &records);
            let answer = self.call_and_tell(&script::INSERT, &args, &hint).await?;
            if !reply::is_text(&answer.value, "crowded") {
                break answer;
            }
            if !self.make_room().await? {
                return Err(Error::TooManyLanes);
            }
        };
        let repeated = answer.repeated;
        let answers = reply::list(answer.value)?.into_iter();
        let answers = answers.zip(insert.tasks.iter().zip(records));
        let answers = answers.map(|(answer, (new, record))| inserted(answer, new, record, repeated));
        let answers = answers.collect::<Result<_, _>>()?;
        self.heed(&hint);
        Ok(answers)
    }

    /// Reads what the tasks look at, decides, and commits under the condition that it is still like that.
    async fn insert_by_plan(
        &self,
        tasks: &[NewTask],
        atomic: bool,
        room: Room,
        fence: Fence,
    ) -> Result<Vec<Inserted>, Error> {
        let keys = keys_of(tasks);
        let mut tries = Tries::new(&self.key_locks, &keys);
        while tries.next().await {
            let era = self.link.era();
            let outlook = self.outlook(tasks, room).await?;
            let mut plan = Plan::new(outlook, room);
            tasks.iter().for_each(|new| plan.weigh(new));
            if atomic && plan.refuses() {
                // No guard sees to it that the limits are as they were seen.
                if self.limits_moved(plan.limits()).await? {
                    continue;
                }
                return Ok(plan.aborted());
            }
            let (mut transaction, drafts) = plan.finish();
            transaction.fence = fence;
            if transaction.is_empty() {
                let answers = drafts.into_iter().map(|draft| draft.resolve(&[]));
                let answers = answers.collect::<Result<Vec<_>, _>>()?;
                // Nothing is written by this call; what it relies on may have been by one that nobody confirmed.
                let relies = |answer: &Inserted| matches!(answer, Inserted::Same(_) | Inserted::Live(_));
                if answers.iter().any(relies) && !self.link.is_kept(era).await? {
                    continue;
                }
                return Ok(answers);
            }
            if let Some(done) = self.transact(transaction).await? {
                return drafts.into_iter().map(|draft| draft.resolve(&done.added)).collect();
            }
        }
        Err(Error::Busy)
    }

    pub(super) async fn outlook(&self, tasks: &[NewTask], room: Room) -> Result<Outlook, Error> {
        Outlook::read(self, tasks, room).await
    }
}

/// Shapes once, and each task with the number of its own.
fn add_tasks(args: &mut Args, tasks: &[NewTask], records: &[Record]) {
    let (mut shapes, mut own) = (Args::default(), Args::default());
    let mut places: HashMap<Shape<'_>, u64> = HashMap::new();
    for (new, record) in tasks.iter().zip(records) {
        let shape = Shape::of(new, record);
        let next = places.len() as u64 + 1;
        let place = *places.entry(shape).or_insert_with(|| {
            shape.args(&mut shapes);
            next
        });
        row::new_args(own.number(place), new, record);
    }
    args.number(places.len() as u64).append(shapes).number(tasks.len() as u64).append(own);
}

/// The answer to one task. Its id was just made if it has no fingerprint: if it is taken by the time a lost answer is asked for
/// again, that was the first call.
fn inserted(answer: redis::Value, new: &NewTask, record: Record, repeated: bool) -> Result<Inserted, Error> {
    match answer {
        redis::Value::Int(number) => {
            let number = u64::try_from(number).map_err(|_| reply::wrong("a negative number"))?;
            Ok(Inserted::New(Record { seq: number, order: number, ..record }))
        }
        redis::Value::Array(words) if words.len() == LIMIT_FULL_WORDS => {
            Ok(Inserted::LimitFull(Box::new(limits::full(words)?)))
        }
        value if reply::is_text(&value, "late") => Err(Error::Busy),
        redis::Value::Array(_) => {
            let row = Row::read(answer)?.ok_or_else(|| reply::wrong("a row without fields"))?;
            if repeated && new.body.fingerprint.is_none() {
                return Ok(Inserted::New(row.record));
            }
            let task = row.task()?;
            if task.body.repeats(&new.body) {
                Ok(Inserted::Same(Box::new(task)))
            } else {
                Ok(Inserted::Clash)
            }
        }
        _ => Ok(Inserted::QueueFull),
    }
}
