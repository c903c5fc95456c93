//! What becomes of tasks that look at others: at who has a unique key, at what they depend on, or at each other in a batch
//! that is added whole or not at all.
//!
//! What they look at is read first ([`Outlook`]). Then each task is weighed in order, as if those before it had been added, by
//! the same rules of core as in every store. The result is one transaction, whose guards are what the decisions rest on. If
//! one of them fails, everything is read and weighed again.

use std::collections::{BTreeSet, HashMap, HashSet};

use windlass_core::flow::{Full, Scope};
use windlass_core::limits::LANES_MAX;
use windlass_core::unique::{self, Contest};
use windlass_core::{Body, Ended, Name, NewTask, Record, Task, TaskId};

use super::commit::Decided;
use super::limits;
use super::outlook::{Bound, Outlook};
use super::reply;
use super::row;
use super::transact::Transaction;
use crate::depth::{Depths, Room};
use crate::store::{Error, Inserted, depends_on};

/// A task that is to be added.
#[derive(Debug)]
struct Added {
    record: Record,
    body: Body,
    /// Its name in the transaction.
    name: String,
}

/// Where a record that a task met is.
#[derive(Debug, Clone, Copy)]
enum Met {
    /// In the store, by number.
    Stored(u64),
    /// In the batch, by its place among those that are added.
    Added(usize),
}

#[derive(Debug)]
pub(super) struct Plan {
    outlook: Outlook,
    room: Room,
    pub(super) transaction: Transaction,
    drafts: Vec<Draft>,
    added: Vec<Added>,
    ids: HashMap<TaskId, usize>,
    keys: HashMap<String, Met>,
    /// Tasks of the store that give way or are waited for, as they are then.
    changed: HashMap<u64, Record>,
    evicted: HashSet<u64>,
    depths: Depths,
}

/// An answer, but for the numbers that only the commit gives.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "they live for the length of a call")]
pub(super) enum Draft {
    Answer(Inserted),
    /// The place among those that are added, and the record.
    New(usize, Record),
    Replaced {
        new: (usize, Record),
        old: (Option<usize>, Record),
    },
    /// Repeats a task of the batch.
    Same(usize, Task),
    /// A task of the batch has the key.
    Live(usize, Task),
}

impl Plan {
    pub(super) fn new(outlook: Outlook, room: Room) -> Plan {
        Plan {
            outlook,
            room,
            transaction: Transaction::default(),
            drafts: Vec::new(),
            added: Vec::new(),
            ids: HashMap::new(),
            keys: HashMap::new(),
            changed: HashMap::new(),
            evicted: HashSet::new(),
            depths: Depths::default(),
        }
    }

    pub(super) fn weigh(&mut self, new: &NewTask) {
        let draft = self.draft(new);
        self.drafts.push(draft);
    }

    /// Whether a batch that is added whole cannot be.
    pub(super) fn refuses(&self) -> bool {
        use Inserted::{Clash, Dependency, KeyHeld, LimitFull, QueueFull};
        self.drafts.iter().any(|draft| {
            matches!(draft, Draft::Answer(Clash | QueueFull | LimitFull(_) | KeyHeld(_) | Dependency { .. }))
        })
    }

    /// The limits that it was weighed under.
    pub(super) fn limits(&self) -> &str {
        &self.outlook.limits
    }

    /// The answers to a batch of which nothing is added: what is shown of the store is as it was before.
    pub(super) fn aborted(self) -> Vec<Inserted> {
        let answer = |draft| match draft {
            Draft::Answer(Inserted::Live(mut task)) => {
                task.record = self.outlook.records.get(&task.record.seq).unwrap_or(&task.record).clone();
                Inserted::Live(task)
            }
            Draft::Answer(answer) => answer,
            _ => Inserted::Aborted,
        };
        self.drafts.into_iter().map(answer).collect()
    }

    pub(super) fn finish(mut self) -> (Transaction, Vec<Draft>) {
        let queues: BTreeSet<&Name> = self.added.iter().map(|added| &added.record.queue).collect();
        for queue in queues {
            self.transaction.guard("queue", &[queue.as_str(), &LANES_MAX.to_string()]);
        }
        let Room::Bounded { max_depth } = self.room else { return (self.transaction, self.drafts) };
        self.transaction.guard("is", &["meta", limits::MARK, &self.outlook.limits]);
        for ((scope, name), more) in self.depths.all().filter(|(_, more)| *more > 0) {
            let left = |max: u64| i64::try_from(max).unwrap_or(i64::MAX).saturating_sub(more).to_string();
            if let Some(max) = max_depth.filter(|_| *scope == Scope::Queue) {
                self.transaction.guard("room", &[name.as_str(), &left(max)]);
            }
            if let Some(bound) = self.outlook.bounds.get(&(*scope, name.clone())) {
                self.transaction.guard("under", &[&limits::known_as(*scope, name), &left(bound.max)]);
            }
        }
        (self.transaction, self.drafts)
    }

    fn draft(&mut self, new: &NewTask) -> Draft {
        if let Some(draft) = self.known(new) {
            return draft;
        }
        if let Some((id, cancelled)) = self.broken_dependency(new) {
            return Draft::Answer(Inserted::Dependency { id, cancelled });
        }
        let holder = new.unique.as_ref().and_then(|asked| self.holder(asked.key.as_str()));
        let record = holder.map(|met| self.current(met).clone());
        let contest =
            new.unique.as_ref().map(|asked| unique::contend(asked.on_conflict, record.as_ref(), new.stamp()));
        let evict = match (contest, holder) {
            (None | Some(Contest::Free), _) | (_, None) => None,
            (Some(Contest::Return), Some(met)) => return self.live(new, met),
            (Some(Contest::Reject), Some(met)) => {
                return Draft::Answer(Inserted::KeyHeld(self.current(met).id.clone()));
            }
            (Some(Contest::Evict(change)), Some(met)) => Some((met, self.current(met).clone(), change)),
        };
        if let Some(refused) = evict.as_ref().and_then(|(_, holder, _)| depends_on(new, holder)) {
            return Draft::Answer(refused);
        }
        evict.iter().for_each(|(_, holder, _)| self.depths.go(holder));
        if let Some(refused) = self.no_room(new) {
            evict.iter().for_each(|(_, holder, _)| self.depths.stay(holder));
            return Draft::Answer(refused);
        }
        self.guard(new, holder);
        let old = evict.map(|(met, holder, change)| self.evict(met, holder, change));
        let place = self.add(new);
        let record = self.added[place].record.clone();
        match old {
            Some(old) => Draft::Replaced { new: (place, record), old },
            None => Draft::New(place, record),
        }
    }

    /// The answer to a submit whose id is taken.
    fn known(&self, new: &NewTask) -> Option<Draft> {
        if let Some(task) = self.outlook.ids.get(&new.id) {
            let record = self.current(Met::Stored(task.record.seq));
            let task = Task { record: record.clone(), body: task.body.clone() };
            let same = task.body.repeats(&new.body);
            return Some(Draft::Answer(if same { Inserted::Same(Box::new(task)) } else { Inserted::Clash }));
        }
        let place = *self.ids.get(&new.id)?;
        let Added { record, body, .. } = &self.added[place];
        if !body.repeats(&new.body) {
            return Some(Draft::Answer(Inserted::Clash));
        }
        Some(Draft::Same(place, Task { record: record.clone(), body: body.clone() }))
    }

    fn live(&self, new: &NewTask, met: Met) -> Draft {
        match met {
            Met::Added(place) => {
                let Added { record, body, .. } = &self.added[place];
                Draft::Live(place, Task { record: record.clone(), body: body.clone() })
            }
            Met::Stored(_) => {
                let key = new.unique.as_ref().map_or("", |asked| asked.key.as_str());
                let body = self.outlook.holders[key].body.clone();
                Draft::Answer(Inserted::Live(Box::new(Task { record: self.current(met).clone(), body })))
            }
        }
    }

    /// The first dependency that a task cannot wait for, and whether it was cancelled.
    fn broken_dependency(&self, new: &NewTask) -> Option<(TaskId, bool)> {
        let cancelled = |record: &Record| Ended::of(record) == Some(Ended::Cancelled);
        new.body.dependencies().iter().find_map(|id| {
            let Some(met) = self.find(id) else { return Some((id.clone(), false)) };
            cancelled(self.current(met)).then(|| (id.clone(), true))
        })
    }

    fn find(&self, id: &TaskId) -> Option<Met> {
        let stored = self.outlook.parents.get(id).map(|record| Met::Stored(record.seq));
        stored.or_else(|| self.ids.get(id).map(|place| Met::Added(*place)))
    }

    fn holder(&self, key: &str) -> Option<Met> {
        let stored = || self.outlook.holders.get(key).map(|task| Met::Stored(task.record.seq));
        self.keys.get(key).copied().or_else(stored)
    }

    /// A record as it is at this point of the batch.
    fn current(&self, met: Met) -> &Record {
        match met {
            Met::Added(place) => &self.added[place].record,
            Met::Stored(seq) => self.changed.get(&seq).unwrap_or_else(|| self.stored(seq)),
        }
    }

    fn stored(&self, seq: u64) -> &Record {
        self.outlook.records.get(&seq).expect("what was met was read")
    }

    /// The answer to a task for which there is no room, if what was looked at before it were done.
    fn no_room(&self, new: &NewTask) -> Option<Inserted> {
        let Room::Bounded { max_depth } = self.room else { return None };
        let is_full = |waiting: u64, more: i64, max: u64| {
            waiting as i64 + more >= i64::try_from(max).unwrap_or(i64::MAX)
        };
        let waiting = self.outlook.waiting.get(&new.queue).copied().unwrap_or(0);
        if max_depth.is_some_and(|max| is_full(waiting, self.depths.of(Scope::Queue, &new.queue), max)) {
            return Some(Inserted::QueueFull);
        }
        limits::scopes(&new.queue, &new.kind, new.key.as_ref()).find_map(|(scope, name)| {
            let Bound { max, waiting } = *self.outlook.bounds.get(&(scope, name.clone()))?;
            let full = || Box::new(Full { scope, name: name.clone(), max });
            is_full(waiting, self.depths.of(scope, name), max).then(|| Inserted::LimitFull(full()))
        })
    }

    /// What must still be true for the task to be added.
    fn guard(&mut self, new: &NewTask, holder: Option<Met>) {
        self.transaction.guard("free", &[new.id.as_str()]);
        if let Some(asked) = &new.unique {
            match holder {
                Some(Met::Stored(seq)) if !self.evicted.contains(&seq) => {
                    let record = self.stored(seq).clone();
                    self.transaction.guard("holder", &[asked.key.as_str(), &row::name(seq)]);
                    self.transaction.guard_at(&record);
                }
                None => self.transaction.guard("holder", &[asked.key.as_str(), ""]),
                _ => {}
            }
        }
        for id in new.body.dependencies() {
            if let Some(Met::Stored(seq)) = self.find(id) {
                let record = self.stored(seq).clone();
                self.transaction.guard_at(&record);
            }
        }
    }

    fn evict(&mut self, met: Met, holder: Record, change: windlass_core::Change) -> (Option<usize>, Record) {
        let step = Decided::plain((holder, change)).step();
        let after = step.after.clone();
        match met {
            Met::Stored(seq) => {
                self.transaction.change("change", &step, &row::name(seq));
                self.changed.insert(seq, after.clone());
                self.evicted.insert(seq);
                (None, after)
            }
            Met::Added(place) => {
                let name = self.added[place].name.clone();
                self.transaction.change("change", &step, &name);
                self.added[place].record = after.clone();
                (Some(place), after)
            }
        }
    }

    fn add(&mut self, new: &NewTask) -> usize {
        let mut open: Vec<String> = Vec::new();
        for id in new.body.dependencies() {
            let Some(met) = self.find(id).filter(|met| Ended::of(self.current(*met)).is_none()) else {
                continue;
            };
            let name = self.await_end(met);
            if !open.contains(&name) {
                open.push(name);
            }
        }
        let mut record = Record::submitted(new, 0);
        record.wait_for(open.len() as u32);
        let name = self.transaction.add(new, &record);
        for parent in &open {
            self.transaction.act("await", &[parent, &name]);
        }
        let place = self.added.len();
        self.depths.come(new);
        self.ids.insert(new.id.clone(), place);
        if let Some(asked) = &new.unique {
            self.keys.insert(asked.key.as_str().to_owned(), Met::Added(place));
        }
        self.added.push(Added { record, body: new.body.clone(), name });
        place
    }
}

impl Plan {
    /// Others wait for a task from now on; returns its name.
    fn await_end(&mut self, met: Met) -> String {
        match met {
            Met::Stored(seq) => {
                let record = Record { awaited: true, ..self.current(met).clone() };
                self.changed.insert(seq, record);
                row::name(seq)
            }
            Met::Added(place) => {
                self.added[place].record.awaited = true;
                self.added[place].name.clone()
            }
        }
    }
}

impl Draft {
    /// Puts in the numbers that the tasks were given.
    pub(super) fn resolve(self, numbers: &[u64]) -> Result<Inserted, Error> {
        let numbered = |place: usize, record: Record| {
            let number = numbers.get(place).ok_or_else(|| reply::wrong("fewer numbers than tasks"))?;
            Ok::<_, Error>(Record { seq: *number, order: *number, ..record })
        };
        let whole = |place: usize, Task { record, body }: Task| {
            Ok::<_, Error>(Box::new(Task { record: numbered(place, record)?, body }))
        };
        Ok(match self {
            Draft::Answer(answer) => answer,
            Draft::New(place, record) => Inserted::New(numbered(place, record)?),
            Draft::Replaced { new: (place, record), old: (old_place, old) } => Inserted::Replaced {
                new: Box::new(numbered(place, record)?),
                old: Box::new(match old_place {
                    Some(place) => numbered(place, old)?,
                    None => old,
                }),
            },
            Draft::Same(place, task) => Inserted::Same(whole(place, task)?),
            Draft::Live(place, task) => Inserted::Live(whole(place, task)?),
        })
    }
}
