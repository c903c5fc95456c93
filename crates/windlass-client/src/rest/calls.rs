//! One method per call of the interface.

use std::time::Duration;

use reqwest::Method;
use windlass_core::{Name, TaskId};
use windlass_proto::rest::{
    Affected, AttemptsBody, BatchResults, BeatBody, ClaimBody, Claimed, CompleteBody, DeadGroupsBody,
    DeadSelection, ExplanationBody, ExtendBody, Extended, FailBody, HealthBody, Invalid, OutcomeBody,
    PulseBody, QueueBody, QueuesBody, ReleaseBody, StatsBody, SubmitBody, TaskBody, TaskPage, WorkerBody,
    WorkersBody,
};

use super::{ANSWER_TIMEOUT, Client, Filter, json, read, repeat, send};
use crate::error::Error;

const TASKS: [&str; 3] = ["api", "v1", "tasks"];
const QUEUES: [&str; 3] = ["api", "v1", "queues"];
const WORKERS: [&str; 3] = ["api", "v1", "workers"];
const DEAD: [&str; 3] = ["api", "v1", "dlq"];

impl Client {
    /// Submits a task. One without an id gets a UUID v7 here, so that sending it again cannot make a second task.
    pub async fn submit(&self, mut body: SubmitBody<'_>) -> Result<TaskBody, Error> {
        if body.id.is_none() {
            let id = uuid::Uuid::now_v7().to_string();
            body.id = Some(TaskId::new(&id).expect("a UUID is a valid id"));
        }
        read(repeat(json(self.request(Method::POST, &TASKS)?, &body)?).await?).await
    }

    /// One try.
    pub(crate) async fn try_submit(&self, body: &SubmitBody<'_>) -> Result<TaskBody, Error> {
        self.post(&TASKS, body).await
    }

    /// One try.
    pub(crate) async fn try_submit_batch(
        &self,
        tasks: &[SubmitBody<'_>],
        atomic: bool,
    ) -> Result<BatchResults, Error> {
        #[derive(serde::Serialize)]
        struct Batch<'a> {
            tasks: &'a [SubmitBody<'a>],
            atomic: bool,
        }
        let [a, b, c] = TASKS;
        self.post(&[a, b, c, "batch"], &Batch { tasks, atomic }).await
    }

    pub async fn task(&self, id: &TaskId) -> Result<TaskBody, Error> {
        self.get(&task(id, None), &[]).await
    }

    /// The task as soon as it is finished, or as it is when the wait is over.
    pub async fn wait(&self, id: &TaskId, wait: Duration) -> Result<TaskBody, Error> {
        let query = [("wait", format!("{}ms", wait.as_millis()))];
        let request =
            self.request(Method::GET, &task(id, None))?.query(&query).timeout(wait + ANSWER_TIMEOUT);
        read(repeat(request).await?).await
    }

    pub async fn tasks(&self, filter: &Filter) -> Result<TaskPage, Error> {
        self.get(&TASKS, &filter.query()).await
    }

    pub async fn attempts(&self, id: &TaskId) -> Result<AttemptsBody, Error> {
        self.get(&task(id, Some("attempts")), &[]).await
    }

    pub async fn explain(&self, id: &TaskId) -> Result<ExplanationBody, Error> {
        self.get(&task(id, Some("explain")), &[]).await
    }

    pub async fn cancel(&self, id: &TaskId) -> Result<TaskBody, Error> {
        self.act(Method::POST, &task(id, Some("cancel"))).await
    }

    pub async fn retry(&self, id: &TaskId) -> Result<TaskBody, Error> {
        self.act(Method::POST, &task(id, Some("retry"))).await
    }

    /// Forgets a finished task.
    pub async fn forget(&self, id: &TaskId) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &task(id, None))?.query(&[("purge", "true")]);
        send(request).await.map(drop)
    }

    /// In order of name.
    pub async fn queues(&self, limit: usize, cursor: Option<&str>) -> Result<QueuesBody, Error> {
        self.get(&QUEUES, &page(limit, cursor)).await
    }

    pub async fn queue(&self, name: &Name) -> Result<QueueBody, Error> {
        self.get(&within(QUEUES, name, None), &[]).await
    }

    pub async fn pause_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        self.act(Method::POST, &within(QUEUES, name, Some("pause"))).await
    }

    pub async fn resume_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        self.act(Method::POST, &within(QUEUES, name, Some("resume"))).await
    }

    /// Forgets the pending tasks of a queue.
    pub async fn purge_queue(&self, name: &Name) -> Result<Affected, Error> {
        self.act(Method::DELETE, &within(QUEUES, name, Some("tasks"))).await
    }

    pub async fn dead(&self, filter: &Filter) -> Result<TaskPage, Error> {
        self.get(&DEAD, &filter.query()).await
    }

    /// The newest dead letters grouped by what their errors are like. Queue, type, filter line and limit of `filter` can be
    /// given; the broker refuses everything else.
    pub async fn dead_groups(&self, filter: &Filter) -> Result<DeadGroupsBody, Error> {
        let [a, b, c] = DEAD;
        self.get(&[a, b, c, "groups"], &filter.query()).await
    }

    pub async fn retry_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        let [a, b, c] = DEAD;
        self.post(&[a, b, c, "retry"], which).await
    }

    pub async fn clear_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        // The route clears all when nothing is named; who means that says so.
        if which.ids.is_none() && !which.all {
            return Err(Invalid::malformed("all", "must be true unless ids are given").into());
        }
        let mut query = Vec::new();
        let mut add = |key, value: Option<String>| query.extend(value.map(|value| (key, value)));
        let ids = |ids: &Vec<TaskId>| ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(",");
        add("ids", which.ids.as_ref().map(ids));
        add("queue", which.queue.as_ref().map(Name::to_string));
        add("type", which.kind.as_ref().map(Name::to_string));
        add("q", which.q.clone());
        add("filter", which.filter.clone());
        add("dry_run", which.dry_run.then(|| "true".to_owned()));
        read(send(self.request(Method::DELETE, &DEAD)?.query(&query)).await?).await
    }

    /// In order of name.
    pub async fn workers(&self, limit: usize, cursor: Option<&str>) -> Result<WorkersBody, Error> {
        self.get(&WORKERS, &page(limit, cursor)).await
    }

    pub async fn worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        self.get(&within(WORKERS, id, None), &[]).await
    }

    pub async fn pause_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        self.act(Method::POST, &within(WORKERS, id, Some("pause"))).await
    }

    pub async fn resume_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        self.act(Method::POST, &within(WORKERS, id, Some("resume"))).await
    }

    pub async fn stats(&self) -> Result<StatsBody, Error> {
        self.get(&["api", "v1", "stats"], &[]).await
    }

    /// An unhealthy broker answers 503 and says what is wrong: that is an answer, not an error.
    pub async fn health(&self) -> Result<HealthBody, Error> {
        let response = self.request(Method::GET, &["health"])?.send().await.map_err(Error::from_transport)?;
        match response.status().as_u16() {
            200 | 503 => read(response).await,
            _ => Err(Error::from_response(response).await),
        }
    }

    pub async fn claim(&self, body: &ClaimBody, wait: Duration) -> Result<Claimed, Error> {
        let request = self.request(Method::POST, &["api", "v1", "claim"])?.timeout(wait + ANSWER_TIMEOUT);
        read(send(json(request, body)?).await?).await
    }

    pub async fn complete(&self, id: &TaskId, body: &CompleteBody<'_>) -> Result<OutcomeBody, Error> {
        self.post(&task(id, Some("complete")), body).await
    }

    pub async fn fail(&self, id: &TaskId, body: &FailBody) -> Result<OutcomeBody, Error> {
        self.post(&task(id, Some("fail")), body).await
    }

    pub async fn release(&self, id: &TaskId, body: &ReleaseBody) -> Result<OutcomeBody, Error> {
        self.post(&task(id, Some("release")), body).await
    }

    pub async fn extend(&self, id: &TaskId, body: &ExtendBody) -> Result<Extended, Error> {
        self.post(&task(id, Some("extend")), body).await
    }

    pub async fn heartbeat(&self, worker: &Name, body: &BeatBody) -> Result<PulseBody, Error> {
        self.post(&within(WORKERS, worker, Some("heartbeat")), body).await
    }
}

fn task<'a>(id: &'a TaskId, act: Option<&'a str>) -> Vec<&'a str> {
    TASKS.into_iter().chain([id.as_str()]).chain(act).collect()
}

fn page(limit: usize, cursor: Option<&str>) -> Vec<(&'static str, String)> {
    let from = cursor.map(|cursor| ("cursor", cursor.to_owned()));
    [("limit", limit.to_string())].into_iter().chain(from).collect()
}

fn within<'a>(kind: [&'a str; 3], name: &'a Name, act: Option<&'a str>) -> Vec<&'a str> {
    kind.into_iter().chain([name.as_str()]).chain(act).collect()
}
