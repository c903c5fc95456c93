//! Whether the destination can do all that the source uses.
//!
//! A store that is spread refuses what would have to be one commit over several of its parts. In which of them tasks are to be follows from
//! their queues ([`Capabilities::part_of`]), so all of that is found before anything is written, and the first task in the way is named.

use std::collections::HashMap;

use windlass_core::flow::{self, Limit, Scope, Status};
use windlass_core::operation::{Action, Operation};
use windlass_core::schedule::Schedule;
use windlass_core::{Filter, Name, Record, Task};

use super::numbers::Numbers;
use super::walk::{Named, Tasks};
use super::{Error, Job, Progress, Survey, Watch, task_name};
use crate::store::{Capabilities, Feature, Span};

/// Workflows whose place is known without asking; beyond it they are asked for again.
const PLACES_MAX: usize = 10_000;

/// Only where the destination lacks something is the source searched for it.
pub(super) async fn check_features(
    job: &Job<'_>,
    numbers: &Numbers<'_>,
    survey: &Survey,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let able = job.to.capabilities();
    if Feature::ALL.into_iter().all(|feature| able.has(feature)) {
        return Ok(());
    }
    let counted = counted(job, &able).await?;
    let mut needs = Needs { job, able, counted, moves: Vec::new(), places: HashMap::new() };
    let mut schedules = Named::<Schedule>::new(job.from);
    loop {
        let page = schedules.next().await.map_err(Error::From)?;
        for schedule in &page {
            let what = || format!("the schedule {}", schedule.id);
            needs.check(Feature::Schedules, true, what)?;
            needs.check(Feature::Flow, schedule.definition.template.key.is_some(), what)?;
        }
        if page.is_empty() {
            break;
        }
    }
    let mut operations = Named::<Operation>::new(job.from);
    loop {
        let page = operations.next().await.map_err(Error::From)?;
        for operation in &page {
            let what = || format!("the operation {}", operation.id);
            needs.check(Feature::Operations, true, what)?;
            needs.moves.extend(Moving::of(operation, &able));
        }
        if page.is_empty() {
            break;
        }
    }
    let (mut tasks, mut done) = (Tasks::new(job.from, &[]), 0);
    while let Some(task) = tasks.next().await.map_err(Error::From)? {
        needs.check_task(&task).await?;
        // Its numbers have to have room there.
        numbers.moved(task).await?;
        done += 1;
        watch(Progress { step: "looking", done, total: survey.tasks });
    }
    Ok(())
}

struct Needs<'a> {
    job: &'a Job<'a>,
    able: Capabilities,
    /// Limits that count the tasks of a type or key, and where such tasks are to be.
    counted: HashMap<(Scope, Name), Option<u64>>,
    /// Operations under way that move tasks.
    moves: Vec<Moving>,
    /// Where the tasks of workflows are to be.
    places: HashMap<Name, Option<u64>>,
}

impl Needs<'_> {
    fn check(&self, feature: Feature, used: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
        match used && !self.able.has(feature) {
            true => Err(Error::Unsupported { what: what(), feature, store: self.able.name }),
            false => Ok(()),
        }
    }

    async fn check_task(&mut self, task: &Task) -> Result<(), Error> {
        let Task { record, body } = task;
        let what = || task_name(&record.id);
        self.check(Feature::Flow, record.key.is_some(), what)?;
        self.check(Feature::UniqueKeys, record.unique.is_some(), what)?;
        self.check(Feature::Dependencies, !body.dependencies().is_empty(), what)?;
        self.check(Feature::Workflows, record.member, what)?;
        if let Some(away) = self.moves.iter().find(|moving| moving.moves_away(record, &self.able)) {
            self.check(Feature::Together, true, || format!("the operation {}", away.operation))?;
        }
        if !self.able.has(Feature::Together) {
            let apart = self.waits_elsewhere(task).await?;
            self.check(Feature::Together, apart, what)?;
        }
        if let Some((scope, name)) = self.counted_elsewhere(record) {
            let what = || format!("{}, which the limit on {} {name} counts,", what(), scope.as_str());
            self.check(Feature::FlowTogether, true, what)?;
        }
        Ok(())
    }

    /// Where the tasks of a queue are to be.
    fn place(&self, queue: &Name) -> u64 {
        self.able.part_of(queue)
    }

    /// Whether a task depends on others, or belongs to a workflow with others, that the destination keeps apart from it.
    async fn waits_elsewhere(&mut self, task: &Task) -> Result<bool, Error> {
        let here = self.place(&task.record.queue);
        let dependencies = task.body.dependencies();
        if !dependencies.is_empty() {
            let others = self.job.from.peek_all(dependencies).await.map_err(Error::From)?;
            if others.iter().flatten().any(|other| self.place(&other.queue) != here) {
                return Ok(true);
            }
        }
        match task.body.links.as_ref().and_then(|links| links.workflow.as_ref()) {
            Some(workflow) => Ok(self.place_of(workflow).await?.is_some_and(|place| place != here)),
            None => Ok(false),
        }
    }

    /// Where the first task of a workflow that is still there is to be.
    async fn place_of(&mut self, id: &Name) -> Result<Option<u64>, Error> {
        if let Some(place) = self.places.get(id) {
            return Ok(*place);
        }
        let mut place = None;
        if let Some(workflow) = self.job.from.workflow(id).await.map_err(Error::From)? {
            let mut from = Some(workflow.first);
            while let (Some(next), None) = (from, place) {
                let span = Span { from: next, end: workflow.end(), limit: 1 };
                let page = self.job.from.span(span).await.map_err(Error::From)?;
                place = page.tasks.first().map(|task| self.place(&task.record.queue));
                from = page.next;
            }
        }
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
        }
        self.places.insert(id.clone(), place);
        Ok(place)
    }

    /// The limit that would have to count this task and one that is to be elsewhere, if there is one.
    fn counted_elsewhere(&mut self, record: &Record) -> Option<(Scope, Name)> {
        let here = self.place(&record.queue);
        flow::load(record.state_name())?;
        let of = [Some((Scope::Type, record.kind.clone())), record.key.clone().map(|key| (Scope::Key, key))];
        of.into_iter().flatten().find(|limit| {
            let known = self.counted.get_mut(limit);
            known.is_some_and(|known| known.replace(here).is_some_and(|known| known != here))
        })
    }
}

/// An operation under way that moves tasks to another queue.
struct Moving {
    operation: Name,
    filter: Filter,
    /// Where those of that queue are to be.
    place: u64,
}

impl Moving {
    fn of(operation: &Operation, able: &Capabilities) -> Option<Moving> {
        let Action::Move(queue) = &operation.order.action else { return None };
        // One whose filter cannot be read moves nothing.
        let filter = Filter::parse(&operation.order.filter, operation.created_at).ok()?;
        let (operation, runs) = (operation.id.clone(), operation.is_running());
        runs.then(|| Moving { operation, filter, place: able.part_of(queue) })
    }

    /// Whether it would move a task to a queue that is kept apart from its own, which a filter need not name.
    fn moves_away(&self, record: &Record, able: &Capabilities) -> bool {
        able.part_of(&record.queue) != self.place && self.filter.matches(record)
    }
}

/// The limits that count tasks of a type or key over all queues.
async fn counted(job: &Job<'_>, able: &Capabilities) -> Result<HashMap<(Scope, Name), Option<u64>>, Error> {
    let (mut all, mut limits) = (HashMap::new(), Named::<Status>::new(job.from));
    loop {
        let page = limits.next().await.map_err(Error::From)?;
        let Some(first) = page.first() else { return Ok(all) };
        if !able.has(Feature::Flow) {
            let what = format!("the limit on {} {}", first.scope.as_str(), first.name);
            return Err(Error::Unsupported { what, feature: Feature::Flow, store: able.name });
        }
        let counts = |limit: &Limit| {
            limit.max_concurrency.is_some() || limit.rate.is_some() || limit.max_depth.is_some()
        };
        let counting = page.into_iter().filter(|it| it.scope != Scope::Queue && counts(&it.limit));
        all.extend(counting.map(|it| ((it.scope, it.name), None)));
    }
}
