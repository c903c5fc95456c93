//! What is different with a store that is spread: tasks of one number are always in one group of queues, mostly they have to do with
//! others of theirs, and what reaches over is refused, or is asked of the model in pieces.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::choice::{Mode, Queue};
use windlass_core::schedule::Schedule;
use windlass_core::{Name, NewTask, OnConflict, Record, State, Task, TaskId, Token, transition};
use windlass_store::{Claim, Error, Feature, Insert, Inserted, ScheduleChange, SetLimit, WriteSchedule};

use super::both::{both, same};
use super::commands::{Pair, QUEUES, group_of};

/// As many neighbours are in one group.
const BLOCK: u64 = 8;

fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unsupported { feature: Feature::Together, .. }))
}

fn number_of(id: &TaskId) -> u64 {
    id.as_str().trim_start_matches("task-").parse().unwrap_or(0)
}

fn token_of(task: &Task) -> Token {
    match &task.record.state {
        State::Running(lease) => lease.token,
        state => panic!("claimed: {state:?}"),
    }
}

impl Pair {
    /// The queues that the task of a number may be in.
    pub(super) fn queues_for(&self, number: u64) -> &'static [&'static str] {
        match self.table {
            None => &QUEUES,
            Some(_) if (number / BLOCK).is_multiple_of(2) => &QUEUES[..2],
            Some(_) => &QUEUES[2..],
        }
    }

    /// A queue that a task may move to.
    pub(super) fn any_near(&mut self, queue: &Name) -> Name {
        loop {
            let other = self.any(&QUEUES);
            if self.table.is_none() || group_of(&other) == group_of(queue) {
                return other;
            }
        }
    }

    pub(super) fn is_near(&self, record: &Record, id: &TaskId) -> bool {
        self.table.is_none() || self.queues_for(number_of(id)).contains(&record.queue.as_str())
    }

    /// Leaves some dependencies that cannot be waited for.
    pub(super) fn keep_near(&mut self, number: u64, dependencies: &mut Vec<TaskId>) {
        if self.table.is_some() && !self.one_in(6) {
            dependencies.retain(|id| self.queues_for(number_of(id)) == self.queues_for(number));
        }
    }

    /// The answer of the second store, unless it refused what reaches over.
    pub(super) async fn insert_far(&mut self, insert: Insert) -> Option<Vec<Inserted>> {
        let over = self.table.is_some() && self.may_reach_over(&insert);
        let answer = self.b.insert(insert).await;
        if over && is_refused(&answer) {
            self.refused += 1;
            return None;
        }
        Some(answer.expect("insert"))
    }

    /// Of a batch that is added whole a store that is spread may tell fewer reasons why it is not: those of other parts come first.
    pub(super) fn is_refused_whole(&self, atomic: bool, answers: &[Inserted], told: &[Inserted]) -> bool {
        use Inserted::{Live, New, Replaced, Same};
        let refused = |all: &[Inserted]| {
            all.iter().any(|it| !matches!(it, New(_) | Replaced { .. } | Same(_) | Live(_)))
        };
        let added = |all: &[Inserted]| all.iter().any(|it| matches!(it, New(_) | Replaced { .. }));
        if self.table.is_none() || !atomic || !refused(told) {
            return false;
        }
        assert!(refused(answers) && !added(answers) && !added(told), "{answers:?}\nand\n{told:?}");
        true
    }

    fn may_reach_over(&self, Insert { tasks, atomic, .. }: &Insert) -> bool {
        let groups: BTreeSet<String> = tasks.iter().map(|new| group_of(&new.queue)).collect();
        let waits_far = |new: &NewTask| {
            let far = |id: &TaskId| !self.queues_for(number_of(id)).contains(&new.queue.as_str());
            new.body.dependencies().iter().any(far)
        };
        let replaces = |new: &NewTask| {
            new.unique.as_ref().is_some_and(|unique| unique.on_conflict == OnConflict::Replace)
        };
        (*atomic && groups.len() > 1) || tasks.iter().any(waits_far) || tasks.iter().any(replaces)
    }

    pub(super) fn reaches_over(&self, claim: &Claim) -> bool {
        let groups: BTreeSet<String> = claim.queues.iter().map(|queue| group_of(&queue.name)).collect();
        self.table.is_some() && groups.len() > 1
    }

    /// Which queues a weighted claim over parts is served from is for that store to draw; the model follows it queue by queue.
    pub(super) async fn claim_over(&mut self, claim: Claim) {
        self.cancel_expired().await;
        let served = self.b.claim(claim.clone()).await.expect("claim");
        assert!(served.len() <= claim.max as usize, "more than was asked for: {served:?}");
        let mut models = Vec::new();
        if claim.mode == Mode::Strict {
            models = self.a.claim(claim.clone()).await.expect("claim");
            same("strict claim", &ids(&models), &ids(&served));
        } else {
            let mut by_queue: BTreeMap<Name, Vec<TaskId>> = BTreeMap::new();
            for Task { record, .. } in &served {
                by_queue.entry(record.queue.clone()).or_default().push(record.id.clone());
            }
            for (name, expected) in by_queue {
                let queues = vec![Queue { name, weight: 1 }];
                let one = Claim { queues, max: expected.len() as u32, ..claim.clone() };
                let tasks = self.a.claim(one).await.expect("claim");
                same("claim", &ids(&tasks), &expected);
                models.extend(tasks);
            }
            let left = claim.max - served.len() as u32;
            let rest = self.a.claim(Claim { max: left, ..claim }).await.expect("claim");
            assert!(rest.is_empty(), "left out: {rest:?}");
        }
        for task in &models {
            let told = served.iter().find(|it| it.record.id == task.record.id).expect("the same tasks");
            if let Some(table) = &self.table {
                table.lock().agree(token_of(told), token_of(task));
            }
        }
        for task in models {
            if let Some(task) = both!(self, get(&task.record.id)) {
                self.remember(task);
            }
        }
    }

    /// One that expired and holds a key in another part is cancelled by itself, not in the same commit.
    pub(super) async fn forget_expired(&mut self) {
        if self.table.is_some() {
            self.cancel_expired().await;
        }
    }

    /// So that it does not matter which of them a claim meets.
    async fn cancel_expired(&mut self) {
        loop {
            let due = self.due("due", self.wall(), [self.a.due(1000).await, self.b.due(1000).await]);
            if due.tasks.is_empty() {
                return;
            }
            self.commit_decided(due.tasks, |pair, task| {
                transition::tick(&task.record, pair.now()).ok().flatten()
            })
            .await;
        }
    }

    /// A schedule cannot leave its group.
    pub(super) async fn move_schedule(&mut self, id: &Name) {
        if self.table.is_none() || !self.one_in(6) {
            return;
        }
        let Some(stored) = both!(self, schedule(id)) else { return };
        let other = if id.as_str() < "s2" { "s2" } else { "s0" };
        let definition = self.definition(&other.parse().expect("a name"));
        let schedule: Schedule = stored.redefined(definition, self.now());
        let change = ScheduleChange::Put { schedule: Box::new(schedule), seen: Some(stored.revision) };
        let answer = self.b.write_schedule(WriteSchedule { id: id.clone(), change }).await;
        assert!(is_refused(&answer), "{answer:?}");
        self.refused += 1;
        both!(self, schedule(id));
    }

    /// What counts tasks of a type or key is refused if they are in several groups; else it is taken away again.
    pub(super) async fn limit_far(&mut self, set: &SetLimit) {
        let before = self.b.limit(set.scope, &set.name).await.expect("limit");
        match self.b.set_limit(set.clone()).await {
            Err(Error::LimitApart(apart)) => {
                assert_eq!((apart.scope, &apart.name), (set.scope, &set.name));
                self.refused += 1;
            }
            answer => drop(answer.expect("set_limit")),
        }
        let limit = before.map(|status| status.limit);
        self.b.set_limit(SetLimit { limit, ..set.clone() }).await.expect("set_limit");
    }
}

fn ids(tasks: &[Task]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.record.id.clone()).collect()
}
