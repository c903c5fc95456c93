//! The calls that are the same over every line, for [`Client`] and for [`blocking::Client`].
//!
//! Each line (`Grpc`, `rest::Client`, `Embedded`) has a method of the same name and signature; this is the list. Calls that may
//! be carried out twice without harm are asked `again` while the broker cannot be reached, for the client's patience; others are
//! asked `once`, because nobody knows whether a call without an answer had an effect.

use windlass_core::flow::Scope;
use windlass_core::{Name, TaskId};
use windlass_proto::rest::{
    Affected, AttemptsBody, DeadGroupsBody, DeadSelection, DependenciesBody, ExplanationBody, FiresBody,
    HealthBody, LimitBody, LimitInput, LimitPage, OperationBody, OperationInput, OperationPage, PreviewBody,
    QueueBody, QueuesBody, ScheduleBody, SchedulePage, SlotsBody, StatsBody, TaskPage, WorkerBody,
    WorkersBody, WorkflowBody, WorkflowPage,
};

use super::patience::Patience;
use super::{Client, Line, NewSchedule, NewWorkflow, Task, blocking};
use crate::error::Error;
use crate::rest::Filter;

macro_rules! calls {
    ($($(#[$doc:meta])* $mode:ident fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl Client {
            $($(#[$doc])*
            pub async fn $name(&self $(, $arg: $kind)*) -> Result<$answer, Error> {
                calls!(@$mode self, $name($($arg),*))
            })*
        }

        impl blocking::Client {
            $($(#[$doc])*
            pub fn $name(&self $(, $arg: $kind)*) -> Result<$answer, Error> {
                self.runtime.block_on(self.inner.$name($($arg),*))
            })*
        }
    };
    (@once $client:ident, $name:ident($($arg:ident),*)) => {
        match &$client.line {
            Line::Grpc(line) => line.$name($($arg),*).await,
            Line::Rest(line) => line.$name($($arg),*).await,
            #[cfg(any(test, feature = "embedded"))]
            Line::Broker(line) => line.$name($($arg),*).await,
        }
    };
    (@again $client:ident, $name:ident($($arg:ident),*)) => {{
        let mut patience = Patience::new($client.patience);
        loop {
            match calls!(@once $client, $name($($arg),*)) {
                Err(error) => patience.after(error).await?,
                answered => return answered,
            }
        }
    }};
}

calls! {
    /// Cancels a task that has not ended. Its handler is told if it runs.
    once fn cancel(id: &TaskId) -> Task;
    /// Runs a dead or cancelled task again.
    once fn retry(id: &TaskId) -> Task;
    /// Forgets a task that has ended, before its time.
    once fn forget(id: &TaskId) -> ();
    /// A page of the tasks that match, newest first.
    again fn tasks(filter: &Filter) -> TaskPage;
    /// The attempts of a task, oldest first.
    again fn attempts(id: &TaskId) -> AttemptsBody;
    /// Why a task is not running now.
    again fn explain(id: &TaskId) -> ExplanationBody;
    /// What a task depends on, with states and results, from where `cursor` says.
    again fn dependencies(id: &TaskId, limit: usize, cursor: Option<&str>) -> DependenciesBody;

    /// Adds a graph of tasks, all or none. The answer has their ids by name.
    again fn submit_workflow(graph: &NewWorkflow) -> WorkflowBody;
    /// Its progress and some of its tasks, from where `cursor` says.
    again fn workflow(id: &Name, limit: usize, cursor: Option<&str>) -> WorkflowBody;
    /// Newest first.
    again fn workflows(limit: usize, cursor: Option<&str>) -> WorkflowPage;
    /// Cancels every task of it that has not ended.
    once fn cancel_workflow(id: &Name) -> WorkflowBody;
    /// Runs it again from where it failed.
    once fn retry_workflow(id: &Name) -> WorkflowBody;

    /// Makes a schedule; an id that is taken is refused.
    once fn create_schedule(schedule: &NewSchedule) -> ScheduleBody;
    /// Makes a schedule, or gives it another definition; its history stays.
    again fn put_schedule(schedule: &NewSchedule) -> ScheduleBody;
    again fn schedule(id: &Name) -> ScheduleBody;
    /// In order of id.
    again fn schedules(limit: usize, cursor: Option<&str>) -> SchedulePage;
    /// Forgets a schedule; tasks that it made stay.
    once fn remove_schedule(id: &Name) -> ();
    /// Makes a task of it now, whatever its slots and rules say.
    once fn run_schedule(id: &Name) -> Task;
    again fn pause_schedule(id: &Name) -> ScheduleBody;
    /// It fires again, from now on.
    again fn resume_schedule(id: &Name) -> ScheduleBody;
    /// The next slots, earliest first, as if it were not paused; up to 100.
    again fn next_slots(id: &Name, count: usize) -> SlotsBody;
    /// The last fires and what became of them, newest first; the last 100 are kept.
    again fn schedule_fires(id: &Name, limit: usize) -> FiresBody;

    /// Sets or replaces the limit of a queue, a type or a key; it holds from the next claim on.
    again fn set_limit(scope: Scope, name: &Name, limit: &LimitInput) -> LimitBody;
    again fn limit(scope: Scope, name: &Name) -> LimitBody;
    /// In order of scope and name.
    again fn limits(scope: Option<Scope>, limit: usize, cursor: Option<&str>) -> LimitPage;
    once fn remove_limit(scope: Scope, name: &Name) -> ();

    /// Does something with all tasks that match a filter. It goes on by itself; [`Client::operation`] says how far it is.
    once fn start_operation(order: &OperationInput) -> OperationBody;
    /// What an operation would find, without doing it.
    again fn preview_operation(order: &OperationInput) -> PreviewBody;
    again fn operation(id: &Name) -> OperationBody;
    /// Newest first.
    again fn operations(limit: usize, cursor: Option<&str>) -> OperationPage;
    /// Ends it where it is; what it changed stays changed.
    once fn cancel_operation(id: &Name) -> OperationBody;

    /// In order of name.
    again fn queues(limit: usize, cursor: Option<&str>) -> QueuesBody;
    again fn queue(name: &Name) -> QueueBody;
    /// Nothing of it is given out until it is resumed.
    again fn pause_queue(name: &Name) -> QueueBody;
    again fn resume_queue(name: &Name) -> QueueBody;
    /// Forgets the pending tasks of a queue.
    once fn purge_queue(name: &Name) -> Affected;

    /// A page of the dead letters that match, newest first.
    again fn dead(filter: &Filter) -> TaskPage;
    /// The newest dead letters grouped by what their errors are like. Queue, type, filter line and limit of `filter` can be
    /// given; everything else is refused.
    again fn dead_groups(filter: &Filter) -> DeadGroupsBody;
    /// Sends dead letters back to their queues.
    once fn retry_dead(which: &DeadSelection) -> Affected;
    /// Forgets dead letters.
    once fn clear_dead(which: &DeadSelection) -> Affected;

    /// In order of name.
    again fn workers(limit: usize, cursor: Option<&str>) -> WorkersBody;
    /// One worker with the tasks that it holds.
    again fn worker(id: &Name) -> WorkerBody;
    /// It gets no more tasks until it is resumed.
    again fn pause_worker(id: &Name) -> WorkerBody;
    again fn resume_worker(id: &Name) -> WorkerBody;

    /// The whole broker in numbers.
    again fn stats() -> StatsBody;
    /// Whether it gets its work done. A broker that does not says what is wrong: that is an answer, not an error.
    again fn health() -> HealthBody;
}
