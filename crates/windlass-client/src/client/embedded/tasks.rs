//! Looking at tasks, and acts on one.

use windlass_core::limits::PAGE_ROWS_DEFAULT;
use windlass_core::{Filter as Words, StateName, TaskId};
use windlass_proto::rest::{
    AttemptsBody, DeadGroupsBody, DependenciesBody, DependencyBody, ExplanationBody, Invalid, TaskBody,
    TaskPage,
};
use windlass_store::List;

use super::{Embedded, now, place, rows};
use crate::client::Task;
use crate::error::Error;
use crate::rest::Filter;
use crate::show;

impl Embedded {
    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Task, Error> {
        Ok(Task::from(self.0.cancel(id).await?))
    }

    pub(crate) async fn retry(&self, id: &TaskId) -> Result<Task, Error> {
        Ok(Task::from(self.0.retry(id).await?))
    }

    pub(crate) async fn forget(&self, id: &TaskId) -> Result<(), Error> {
        Ok(self.0.remove(id).await?)
    }

    pub(crate) async fn tasks(&self, filter: &Filter) -> Result<TaskPage, Error> {
        self.page(list(filter)?).await
    }

    pub(crate) async fn dead(&self, filter: &Filter) -> Result<TaskPage, Error> {
        let list = list(filter)?;
        if !list.states.is_empty() && !list.states.contains(&StateName::DeadLetter) {
            return Err(Invalid::out_of_range("state", "all dead letters are in one state").into());
        }
        self.page(List { states: vec![StateName::DeadLetter], ..list }).await
    }

    pub(crate) async fn dead_groups(&self, filter: &Filter) -> Result<DeadGroupsBody, Error> {
        filter.check_groups()?;
        let found = self.0.dead_groups(list(filter)?).await?;
        let items = found.groups.into_iter().map(show::group).collect();
        Ok(DeadGroupsBody { items, scanned: found.scanned, complete: found.complete })
    }

    async fn page(&self, list: List) -> Result<TaskPage, Error> {
        let page = self.0.list(list).await?;
        // A checkpoint is for those who look at one task.
        let item = |task| TaskBody { checkpoint_base64: None, ..TaskBody::from(task) };
        Ok(TaskPage {
            items: page.tasks.into_iter().map(item).collect(),
            next_cursor: page.next.map(|seq| seq.to_string()),
        })
    }

    pub(crate) async fn attempts(&self, id: &TaskId) -> Result<AttemptsBody, Error> {
        Ok(AttemptsBody::of(&self.0.get(id).await?))
    }

    pub(crate) async fn explain(&self, id: &TaskId) -> Result<ExplanationBody, Error> {
        let explanation = self.0.explain(id).await?;
        Ok(ExplanationBody {
            id: id.clone(),
            state: explanation.state,
            runnable: explanation.runnable,
            reasons: explanation.reasons.into_iter().map(show::reason).collect(),
        })
    }

    pub(crate) async fn dependencies(
        &self,
        id: &TaskId,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<DependenciesBody, Error> {
        let page = self.0.dependencies(id, place(cursor)?.unwrap_or(0), rows(limit)?).await?;
        let item = |it: windlass_broker::Dependency| DependencyBody::new(it.id, it.name, it.state, it.result);
        Ok(DependenciesBody {
            items: page.items.into_iter().map(item).collect(),
            total: page.total,
            next_cursor: page.next.map(|next| next.to_string()),
        })
    }
}

fn list(filter: &Filter) -> Result<List, Invalid> {
    let mut words = filter.filter.clone().unwrap_or_default();
    if let Some(key) = &filter.key {
        // Nothing that a name may contain means something to a filter.
        words = format!("{words} key:{key}");
    }
    let list = List {
        states: filter.states()?,
        queue: filter.queue.clone(),
        kind: filter.kind.clone(),
        worker: filter.worker.clone(),
        text: filter.text.clone().filter(|text| !text.is_empty()),
        created_after: filter.created_after.map(|at| at.as_ms()),
        created_before: filter.created_before.map(|at| at.as_ms()),
        filter: None,
        before: place(filter.cursor.as_deref())?,
        limit: filter.limit.map_or(Ok(PAGE_ROWS_DEFAULT), rows)?,
    };
    Ok(list.narrowed(parsed(&words)?))
}

pub(super) fn parsed(words: &str) -> Result<Words, Invalid> {
    Words::parse(words, now()).map_err(|error| Invalid::malformed("filter", error.to_string()))
}

/// For an act on tasks: whoever wants all of them says so, and not by leaving out a word.
pub(super) fn given(words: &str) -> Result<Words, Invalid> {
    let filter = parsed(words)?;
    if filter.is_empty() {
        let message = "is empty; say which tasks, or leave it out where all can be meant";
        return Err(Invalid::malformed("filter", message));
    }
    Ok(filter)
}
