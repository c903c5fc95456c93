//! Graphs of tasks that are added as one.

use windlass_core::workflow::task_id;
use windlass_core::{Links, NewTask, OnConflict, StateName, Unique, UniqueKey, Workflow, transition};

use super::Harness;
use super::steps::{claim, failure, id, name};
use crate::store::{Claim, InsertWorkflow, Inserted, ListWorkflows, Span, WorkflowInserted};

impl Harness {
    /// `nodes` are names with those that they depend on.
    fn graph(&self, workflow: &str, nodes: &[(&str, &[&str])]) -> InsertWorkflow {
        let node = |(text, after): &(&str, &[&str])| -> NewTask {
            let own = |text: &str| task_id(&name(workflow), &name(text)).expect("a valid id");
            let mut task = self.task(own(text).as_str());
            let dependencies = after.iter().map(|text| own(text)).collect();
            task.body.links = Some(Box::new(Links { dependencies, workflow: Some(name(workflow)) }));
            task
        };
        InsertWorkflow {
            id: name(workflow),
            created_at: self.wall(),
            fingerprint: [nodes.len() as u8; 16],
            tasks: nodes.iter().map(node).collect(),
            max_depth: None,
        }
    }

    async fn add_graph(&self, insert: InsertWorkflow) -> Workflow {
        match self.store.insert_workflow(insert).await.expect("insert_workflow") {
            WorkflowInserted::New(workflow, _) => *workflow,
            answer => panic!("not new: {answer:?}"),
        }
    }

    async fn workflow(&self, text: &str) -> Option<Workflow> {
        self.store.workflow(&name(text)).await.expect("workflow")
    }

    async fn by_state(&self, text: &str) -> Vec<(StateName, u64)> {
        let workflow = self.workflow(text).await.expect("the workflow is there");
        let states = StateName::ALL.into_iter().zip(workflow.by_state);
        states.filter(|(_, count)| *count > 0).collect()
    }
}

pub async fn a_graph_is_added_whole(h: &mut Harness) {
    h.add_named(&["before"]).await;
    let insert = h.graph("w", &[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]);
    let answer = h.store.insert_workflow(insert.clone()).await.expect("insert_workflow");
    let WorkflowInserted::New(workflow, records) = answer else { panic!("{answer:?}") };
    assert_eq!(records.len(), 3);
    assert_eq!((workflow.first, workflow.size, workflow.kept()), (records[0].seq, 3, 3));
    assert!(records.iter().all(|record| record.member));
    assert_eq!(h.workflow("w").await, Some(*workflow.clone()));
    use StateName::{Blocked, Pending};
    assert_eq!(h.by_state("w").await, [(Blocked, 2), (Pending, 1)]);
    let same = h.store.insert_workflow(insert.clone()).await.expect("insert_workflow");
    assert_eq!(same, WorkflowInserted::Same(workflow));
    let other = InsertWorkflow { fingerprint: [9; 16], ..insert };
    assert_eq!(h.store.insert_workflow(other).await.expect("insert_workflow"), WorkflowInserted::Clash);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 4);
}

pub async fn a_graph_that_cannot_be_added_leaves_no_trace(h: &mut Harness) {
    h.add(vec![h.task("w:b")]).await;
    let insert = h.graph("w", &[("a", &[]), ("b", &["a"])]);
    let answer = h.store.insert_workflow(insert).await.expect("insert_workflow");
    assert_eq!(answer, WorkflowInserted::Refused(vec![Inserted::Aborted, Inserted::Clash]));
    let broken = h.graph("w", &[("a", &["nowhere"])]);
    let answer = h.store.insert_workflow(broken).await.expect("insert_workflow");
    let missing = Inserted::Dependency { id: id("w:nowhere"), cancelled: false };
    assert_eq!(answer, WorkflowInserted::Refused(vec![missing]));
    let deep = InsertWorkflow { max_depth: Some(2), ..h.graph("w", &[("x", &[]), ("y", &[])]) };
    let answer = h.store.insert_workflow(deep).await.expect("insert_workflow");
    assert_eq!(answer, WorkflowInserted::Refused(vec![Inserted::Aborted, Inserted::QueueFull]));
    assert_eq!(h.workflow("w").await, None);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
}

pub async fn the_tasks_of_a_graph_are_new(h: &mut Harness) {
    let unique = |key: &str| {
        let key = UniqueKey::new(key).expect("a key");
        Some(Box::new(Unique { key, for_ms: None, on_conflict: OnConflict::Return }))
    };
    h.add(vec![NewTask { unique: unique("k"), ..h.task("holder") }]).await;
    for key in ["k", "free"] {
        let mut insert = h.graph("w", &[("a", &[]), ("b", &["a"])]);
        insert.tasks[1].unique = unique(key);
        let answer = h.store.insert_workflow(insert).await.expect("insert_workflow");
        assert_eq!(answer, WorkflowInserted::Refused(vec![Inserted::Aborted, Inserted::Clash]));
    }
    let twice = h.graph("w", &[("a", &[]), ("a", &[])]);
    let answer = h.store.insert_workflow(twice).await.expect("insert_workflow");
    assert_eq!(answer, WorkflowInserted::Refused(vec![Inserted::Aborted, Inserted::Clash]));
    h.reopen().await;
    assert_eq!((h.workflow("w").await, h.store.ledger().await.expect("ledger").submitted), (None, 1));
    h.add_graph(h.graph("w", &[("a", &[]), ("b", &["a"])])).await;
}

pub async fn progress_follows_the_tasks(h: &mut Harness) {
    h.add_graph(h.graph("w", &[("a", &[]), ("b", &["a"]), ("c", &[])])).await;
    h.add_graph(h.graph("v", &[("a", &[])])).await;
    use StateName::{Blocked, Completed, DeadLetter, Pending, Running};
    let tasks = h.take(Claim { max: 2, ..claim() }).await;
    assert_eq!(h.by_state("w").await, [(Blocked, 1), (Running, 2)]);
    h.complete(&tasks[0].record).await;
    let fatal = transition::Failure { retryable: false, ..failure() };
    h.fail(&tasks[1], fatal).await;
    assert_eq!(h.by_state("w").await, [(Blocked, 1), (Completed, 1), (DeadLetter, 1)]);
    h.reopen().await;
    assert_eq!(h.by_state("w").await, [(Blocked, 1), (Completed, 1), (DeadLetter, 1)]);
    assert_eq!(h.by_state("v").await, [(Pending, 1)]);
}

pub async fn a_workflow_is_forgotten_with_its_last_task(h: &mut Harness) {
    h.add_graph(h.graph("w", &[("a", &[]), ("b", &[])])).await;
    h.remove(&h.peek("w:a").await).await;
    assert_eq!(h.workflow("w").await.expect("it is there").kept(), 1);
    h.reopen().await;
    h.remove(&h.peek("w:b").await).await;
    assert_eq!(h.workflow("w").await, None);
    let again = h.add_graph(h.graph("w", &[("a", &[])])).await;
    h.reopen().await;
    assert_eq!(h.workflow("w").await, Some(again));
}

pub async fn workflows_and_their_tasks_are_listed(h: &mut Harness) {
    for i in 0..5 {
        h.add_named(&[&*format!("between-{i}")]).await;
        h.add_graph(h.graph(&format!("w{i}"), &[("a", &[]), ("b", &["a"]), ("c", &["b"])])).await;
        if i == 2 {
            h.reopen().await;
        }
    }
    h.remove(&h.peek("w1:c").await).await;
    let page =
        async |before, limit| h.store.workflows(ListWorkflows { before, limit }).await.expect("workflows");
    let ids = |page: &[Workflow]| page.iter().map(|it| it.id.to_string()).collect::<Vec<_>>().join(" ");
    let all = page(None, 100).await;
    assert_eq!(ids(&all), "w4 w3 w2 w1 w0");
    assert_eq!(ids(&page(Some(all[1].first), 2).await), "w2 w1");
    let w1 = &all[3];
    let mut from = Some(w1.first);
    let mut found = Vec::new();
    while let Some(next) = from {
        let page = h.store.span(Span { from: next, end: w1.end(), limit: 2 }).await.expect("span");
        assert!(page.tasks.len() <= 2);
        found.extend(page.tasks.into_iter().map(|task| task.record.id.to_string()));
        from = page.next;
    }
    // The last one was waited for by nobody, so it is gone at once.
    assert_eq!(found, ["w1:a", "w1:b"]);
}
