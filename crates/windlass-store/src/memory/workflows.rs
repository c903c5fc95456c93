//! Workflows: what is kept of them beside their tasks.

use std::collections::{BTreeMap, HashMap};

use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, NewTask, Now, StateName, Workflow};

use super::tables::Tables;
use crate::depth::Room;
use crate::store::{InsertWorkflow, Inserted, ListWorkflows, Page, Span, WorkflowInserted};

#[derive(Debug, Default)]
pub(super) struct Workflows {
    /// By the number of the first task.
    by_first: BTreeMap<u64, Workflow>,
    ids: HashMap<Name, u64>,
}

impl Workflows {
    pub(super) fn get(&self, id: &Name) -> Option<&Workflow> {
        self.ids.get(id).map(|first| &self.by_first[first])
    }

    pub(super) fn list(&self, list: &ListWorkflows) -> Vec<Workflow> {
        let older = self.by_first.range(..list.before.unwrap_or(u64::MAX)).rev();
        older.map(|(_, workflow)| workflow.clone()).take(list.limit.min(PAGE_ROWS_MAX)).collect()
    }

    /// A workflow whose tasks are yet to come.
    pub(super) fn restore(&mut self, workflow: Workflow) {
        if !self.ids.contains_key(&workflow.id) {
            self.ids.insert(workflow.id.clone(), workflow.first);
            self.by_first.insert(workflow.first, Workflow { by_state: [0; 8], ..workflow });
        }
    }

    /// One of the tasks moved; a workflow without tasks is forgotten.
    pub(super) fn moved(&mut self, seq: u64, from: Option<StateName>, to: Option<StateName>) {
        let found = self.by_first.range_mut(..=seq).next_back();
        let (first, workflow) = found.expect("a node belongs to a workflow");
        workflow.moved(from, to);
        let first = *first;
        if workflow.kept() == 0 {
            let gone = self.by_first.remove(&first).expect("it was just there");
            self.ids.remove(&gone.id);
        }
    }
}

impl Tables {
    pub(super) fn insert_workflow(&mut self, insert: InsertWorkflow, now: Now) -> WorkflowInserted {
        if let Some(refused) = insert.refusal() {
            return refused;
        }
        if let Some(stored) = self.workflows.get(&insert.id) {
            let same = stored.fingerprint == insert.fingerprint;
            return if same {
                WorkflowInserted::Same(Box::new(stored.clone()))
            } else {
                WorkflowInserted::Clash
            };
        }
        let taken = |task: &NewTask| self.ids.contains_key(&task.id);
        if insert.tasks.iter().any(taken) {
            let answer = |task| if taken(task) { Inserted::Clash } else { Inserted::Aborted };
            return WorkflowInserted::Refused(insert.tasks.iter().map(answer).collect());
        }
        let workflow = Workflow {
            id: insert.id,
            first: self.next_seq(),
            size: insert.tasks.len() as u32,
            created_at: insert.created_at,
            by_state: [0; 8],
            fingerprint: insert.fingerprint,
        };
        let (id, first) = (workflow.id.clone(), workflow.first);
        self.workflows.ids.insert(id.clone(), first);
        self.workflows.by_first.insert(first, workflow);
        let room = Room::Bounded { max_depth: insert.max_depth };
        let answers = self.insert(insert.tasks, true, room, now);
        if answers.iter().any(|answer| !matches!(answer, Inserted::New(_))) {
            self.workflows.ids.remove(&id);
            self.workflows.by_first.remove(&first);
            return WorkflowInserted::Refused(answers);
        }
        let record = |answer| match answer {
            Inserted::New(record) => Some(record),
            _ => None,
        };
        let records = answers.into_iter().filter_map(record).collect();
        WorkflowInserted::New(Box::new(self.workflows.by_first[&first].clone()), records)
    }

    pub(super) fn span(&self, span: &Span) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        for (seq, task) in self.tasks.range(span.from..span.end.max(span.from)) {
            if page.tasks.len() >= span.limit.clamp(1, PAGE_ROWS_MAX) || bytes >= ANSWER_BYTES_MAX {
                page.next = Some(*seq);
                break;
            }
            bytes += task.bytes();
            page.tasks.push(task.clone());
        }
        page
    }
}
