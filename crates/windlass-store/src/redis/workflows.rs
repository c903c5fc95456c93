//! Workflows: what is kept of them beside their tasks. Scripts count the tasks by state as they move.

use bytes::Bytes;
use windlass_core::limits::{ANSWER_BYTES_MAX, CONFLICT_TRIES_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, Record, Workflow};

use super::Shared;
use super::link::{Args, Fence};
use super::plan::Plan;
use super::read::Walk;
use super::row::Row;
use super::{reply, script};
use crate::depth::Room;
use crate::store::{Error, InsertWorkflow, Inserted, ListWorkflows, Page, Span, WorkflowInserted};

impl Shared {
    pub(super) async fn insert_workflow(
        &self,
        insert: InsertWorkflow,
        fence: Fence,
    ) -> Result<WorkflowInserted, Error> {
        self.check_open()?;
        if let Some(refused) = insert.refusal() {
            return Ok(refused);
        }
        self.waits.settled().await;
        let room = Room::Bounded { max_depth: insert.max_depth };
        for _ in 0..CONFLICT_TRIES_MAX {
            let era = self.link.era();
            if let Some(stored) = self.workflow(&insert.id).await? {
                let same = stored.fingerprint == insert.fingerprint;
                if same && !self.link.is_kept(era).await? {
                    continue;
                }
                return Ok(if same {
                    WorkflowInserted::Same(Box::new(stored))
                } else {
                    WorkflowInserted::Clash
                });
            }
            let outlook = self.outlook(&insert.tasks, room).await?;
            if insert.tasks.iter().any(|task| outlook.is_taken(&task.id)) {
                let taken = insert.tasks.iter().map(|task| outlook.is_taken(&task.id));
                let answers = taken.map(|taken| if taken { Inserted::Clash } else { Inserted::Aborted });
                return Ok(WorkflowInserted::Refused(answers.collect()));
            }
            let mut plan = Plan::new(outlook, room);
            insert.tasks.iter().for_each(|new| plan.weigh(new));
            if plan.refuses() {
                if self.limits_moved(plan.limits()).await? {
                    continue;
                }
                return Ok(WorkflowInserted::Refused(plan.aborted()));
            }
            let (mut transaction, drafts) = plan.finish();
            transaction.fence = fence;
            transaction.guard("is", &["workflows", insert.id.as_str(), ""]);
            transaction.put(
                "workflows",
                insert.id.as_str(),
                encode(insert.tasks.len(), insert.created_at, &insert.fingerprint),
            );
            transaction.act("rank", &["workflow_order", "+1", insert.id.as_str()]);
            if let Some(done) = self.transact(transaction).await? {
                let answers = drafts.into_iter().map(|draft| draft.resolve(&done.added));
                return added(insert, answers.collect::<Result<_, _>>()?);
            }
        }
        Err(Error::Busy)
    }

    pub(super) async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        Ok(self.find_workflows(id.as_str(), None, 1).await?.pop())
    }

    pub(super) async fn workflows(&self, list: &ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.find_workflows("", list.before, list.limit).await
    }

    async fn find_workflows(
        &self,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Workflow>, Error> {
        self.check_open()?;
        let mut args = Args::new("");
        args.text(id).bound(before).number(limit.min(PAGE_ROWS_MAX) as u64);
        let rows = reply::list(self.link.run(&script::WORKFLOWS, &args).await?)?;
        rows.into_iter().map(decode).collect()
    }

    pub(super) async fn span(&self, span: &Span) -> Result<Page, Error> {
        self.check_open()?;
        if span.end <= span.from {
            return Ok(Page::default());
        }
        let walk = Walk {
            down: false,
            beyond: span.from.checked_sub(1),
            until: Some(span.end - 1),
            states: &[],
            limit: span.limit.clamp(1, PAGE_ROWS_MAX),
            with_body: true,
            enough: ANSWER_BYTES_MAX,
        };
        let (rows, next) = self.page(walk).await?;
        Ok(Page { tasks: rows.into_iter().map(Row::task).collect::<Result<_, _>>()?, next })
    }
}

fn added(insert: InsertWorkflow, answers: Vec<Inserted>) -> Result<WorkflowInserted, Error> {
    let record = |answer| match answer {
        Inserted::New(record) => Ok(record),
        _ => Err(reply::wrong("a node that was not added")),
    };
    let records: Vec<Record> = answers.into_iter().map(record).collect::<Result<_, _>>()?;
    let mut workflow = Workflow {
        id: insert.id,
        first: records.first().map_or(0, |record| record.seq),
        size: records.len() as u32,
        created_at: insert.created_at,
        by_state: [0; 8],
        fingerprint: insert.fingerprint,
    };
    records.iter().for_each(|record| workflow.moved(None, Some(record.state_name())));
    Ok(WorkflowInserted::New(Box::new(workflow), records))
}

/// Size and moment as text, and the fingerprint.
pub(super) fn encode(size: usize, created_at: u64, fingerprint: &[u8; 16]) -> Vec<u8> {
    let mut value = format!("{size} {created_at} ").into_bytes();
    value.extend_from_slice(fingerprint);
    value
}

fn decode(row: redis::Value) -> Result<Workflow, Error> {
    let damaged = || reply::wrong("a workflow of another shape");
    let mut fields = reply::list(row)?.into_iter();
    let mut field = || fields.next().ok_or_else(damaged);
    let id = Name::new(&reply::text(field()?)?).map_err(|_| damaged())?;
    let first = reply::number(field()?)?;
    let value: Bytes = reply::bytes(field()?)?;
    let (head, fingerprint) = value.split_last_chunk::<16>().ok_or_else(damaged)?;
    let head = std::str::from_utf8(head).map_err(|_| damaged())?;
    let (size, created_at) = head.trim_end().split_once(' ').ok_or_else(damaged)?;
    let mut by_state = [0; 8];
    for count in &mut by_state {
        *count = reply::number(field()?)?;
    }
    Ok(Workflow {
        id,
        first,
        size: size.parse().map_err(|_| damaged())?,
        created_at: created_at.parse().map_err(|_| damaged())?,
        by_state,
        fingerprint: *fingerprint,
    })
}
