//! Commits of several things at once: what was seen of them as guards, what was decided as acts (`lua/transact.lua`).

use redis::Value;
use windlass_core::{NewTask, Record};

use super::Shared;
use super::hints::Hint;
use super::link::{Args, Fence};
use super::row::{self, Shape, Step};
use super::{reply, script};
use crate::store::Error;

#[derive(Debug, Default)]
pub(super) struct Transaction {
    guards: Args,
    guard_count: u64,
    acts: Args,
    act_count: u64,
    /// The acts that add tasks, by their place.
    adds: Vec<usize>,
    pub(super) hint: Hint,
    pub(super) fence: Fence,
}

/// What the acts answered.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) answers: Vec<Value>,
    /// The numbers of the tasks that were added.
    pub(super) added: Vec<u64>,
}

impl Transaction {
    pub(super) fn is_empty(&self) -> bool {
        self.act_count == 0
    }

    pub(super) fn guard(&mut self, word: &str, args: &[&str]) {
        self.guard_count += 1;
        self.guards.text(word);
        for arg in args {
            self.guards.text(arg);
        }
    }

    /// The record is still at its revision.
    pub(super) fn guard_at(&mut self, record: &Record) {
        self.guard("at", &[&row::name(record.seq), &record.revision.to_string()]);
    }

    pub(super) fn act(&mut self, word: &str, args: &[&str]) {
        self.begin(word);
        for arg in args {
            self.acts.text(arg);
        }
    }

    /// A task waits for these, which must be there.
    pub(super) fn wait_for(&mut self, parents: &[String], name: &str) {
        for parent in parents {
            self.guard("there", &[parent]);
            self.act("await", &[parent, name]);
        }
    }

    pub(super) fn put(&mut self, hash: &str, field: &str, value: impl Into<bytes::Bytes>) {
        self.act("put", &[hash, field]);
        self.acts.bytes(value);
    }

    /// Adds a task; what is returned stands for its name in later acts.
    pub(super) fn add(&mut self, new: &NewTask, record: &Record) -> String {
        self.adds.push(self.act_count as usize);
        self.begin("add");
        Shape::of(new, record).args(&mut self.acts);
        row::new_args(&mut self.acts, new, record);
        self.acts.text(record.unique.as_ref().map_or("", |hold| hold.key.as_str()));
        self.hint.add(record);
        format!("+{}", self.adds.len())
    }

    /// Makes a change, of a task of this name.
    pub(super) fn change(&mut self, word: &str, step: &Step, name: &str) {
        self.begin(word);
        step.args(&mut self.acts, name);
        step.hint(&mut self.hint);
    }

    /// One more argument of the last act.
    pub(super) fn arg(&mut self, bytes: impl Into<bytes::Bytes>) {
        self.acts.bytes(bytes);
    }

    /// How many acts there are.
    pub(super) fn len(&self) -> usize {
        self.act_count as usize
    }

    fn begin(&mut self, word: &str) {
        self.act_count += 1;
        self.acts.text(word);
    }
}

impl Shared {
    /// `None` if something is not as it was seen any more: nothing was done.
    pub(super) async fn transact(&self, transaction: Transaction) -> Result<Option<Done>, Error> {
        let Transaction { guards, guard_count, acts, act_count, adds, hint, fence } = transaction;
        let mut args = self.args(&hint);
        args.fenced(fence).number(guard_count).append(guards).number(act_count).append(acts);
        let answer = self.call_and_tell(&script::TRANSACT, &args, &hint).await?.value;
        if reply::is_text(&answer, "crowded") {
            return if self.make_room().await? { Ok(None) } else { Err(Error::TooManyLanes) };
        }
        if reply::is_text(&answer, "late") {
            return Err(Error::Busy);
        }
        if reply::is_text(&answer, "stale") {
            self.renew_limits_mark().await?;
            return Ok(None);
        }
        let answers = reply::list(answer)?;
        let number = |place: &usize| reply::number(answers.get(*place).cloned().unwrap_or_default());
        let added = adds.iter().map(number).collect::<Result<_, _>>()?;
        self.heed(&hint);
        Ok(Some(Done { answers, added }))
    }
}
