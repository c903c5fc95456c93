use windlass_core::workflow::Phase;
use windlass_core::{Links, OnConflict, StateName, Unique, UniqueKey};
use windlass_store::ListWorkflows;

use super::dependents::{finish, state};
use super::*;
use crate::{Failed, Node, SubmitWorkflow};

fn graph(id: &str, nodes: &[(&str, &[&str])]) -> SubmitWorkflow {
    let node = |(text, after): &(&str, &[&str])| Node {
        name: name(text),
        submit: echo(),
        after: after.iter().map(|text| name(text)).collect(),
    };
    SubmitWorkflow {
        id: Some(name(id)),
        nodes: nodes.iter().map(node).collect(),
        fingerprint: Some([nodes.len() as u8; 16]),
    }
}

const DIAMOND: [(&str, &[&str]); 4] = [("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])];

async fn fail(broker: &Broker, text: &str) {
    let task = broker.claim(ClaimRequest { wait_ms: 30_000, ..one("w") }).await.unwrap().pop().unwrap();
    assert_eq!(task.record.id, id(text));
    let fatal = Failed { error: "boom".to_owned(), retryable: false, retry_after_ms: None };
    broker.fail(&id(text), token(&task), fatal).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_graph_runs_to_its_end() {
    let broker = start();
    let submitted = broker.submit_workflow(graph("w", &DIAMOND)).await.unwrap();
    assert!(!submitted.existed);
    assert_eq!((submitted.workflow.size, submitted.workflow.phase()), (4, Phase::Running));
    assert!(broker.submit_workflow(graph("w", &DIAMOND)).await.unwrap().existed);
    refused(broker.submit_workflow(graph("w", &DIAMOND[..2])).await, "workflow_exists");
    for text in ["w:a", "w:b", "w:c", "w:d"] {
        finish(&broker, text).await;
    }
    let view = broker.workflow_view(&name("w"), None, 3).await.unwrap();
    assert_eq!(view.workflow.phase(), Phase::Completed);
    assert_eq!(view.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    let rest = broker.workflow_view(&name("w"), view.next, 3).await.unwrap();
    assert_eq!(
        (&*rest.nodes[0].name, &rest.nodes[0].after[..]),
        ("d", &["b".to_owned(), "c".to_owned()][..])
    );
    assert_eq!(rest.next, None);
    let parents = broker.dependencies(&id("w:d"), 0, 10).await.unwrap();
    assert_eq!(parents.items[1].name.as_deref(), Some("c"));
    let (all, next) = broker.workflows(ListWorkflows { before: None, limit: 10 }).await.unwrap();
    assert_eq!((all.len(), next), (1, None));
    refused(broker.workflow(&name("x")).await, "not_found");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_goes_on_from_the_failed_node() {
    let broker = start();
    broker.submit_workflow(graph("w", &DIAMOND)).await.unwrap();
    finish(&broker, "w:a").await;
    fail(&broker, "w:b").await;
    finish(&broker, "w:c").await;
    until(&broker, &id("w:d"), |record| record.state == State::Blocked { open: 1 }).await;
    assert_eq!(broker.workflow(&name("w")).await.unwrap().phase(), Phase::Failed);
    let (workflow, retried) = broker.retry_workflow(&name("w")).await.unwrap();
    assert_eq!((workflow.phase(), retried), (Phase::Running, 1));
    finish(&broker, "w:b").await;
    finish(&broker, "w:d").await;
    assert_eq!(broker.workflow(&name("w")).await.unwrap().phase(), Phase::Completed);
    assert_eq!(broker.retry_workflow(&name("w")).await.unwrap().1, 0);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_workflow_runs_again_in_order() {
    let broker = start();
    broker.submit_workflow(graph("w", &DIAMOND)).await.unwrap();
    finish(&broker, "w:a").await;
    until(&broker, &id("w:c"), |record| record.state == State::Pending).await;
    let (workflow, cancelled) = broker.cancel_workflow(&name("w")).await.unwrap();
    assert_eq!((workflow.phase(), cancelled), (Phase::Cancelled, 3));
    // Whoever was to be told is told before the retry, or after it: neither loses a task.
    let (_, retried) = broker.retry_workflow(&name("w")).await.unwrap();
    assert_eq!(retried, 3);
    assert_eq!(state(&broker, "w:d").await, StateName::Blocked);
    for text in ["w:b", "w:c", "w:d"] {
        finish(&broker, text).await;
    }
    assert_eq!(broker.workflow(&name("w")).await.unwrap().phase(), Phase::Completed);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_may_name_another_twice() {
    let broker = start();
    let mut twice = graph("w", &[("a", &[]), ("b", &["a"])]);
    let dependencies = vec![id("w:a"), id("w:a")];
    twice.nodes[1].submit.links = Some(Box::new(Links { dependencies, workflow: None }));
    broker.submit_workflow(twice).await.unwrap();
    assert_eq!(broker.get(&id("w:b")).await.unwrap().body.dependencies(), [id("w:a")]);
    finish(&broker, "w:a").await;
    finish(&broker, "w:b").await;
    assert_eq!(broker.workflow(&name("w")).await.unwrap().phase(), Phase::Completed);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_has_no_unique_key() {
    let broker = start();
    let mut keyed = graph("w", &DIAMOND);
    let key = UniqueKey::new("k").unwrap();
    let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Return };
    keyed.nodes[2].submit.unique = Some(Box::new(unique));
    let refusal = broker.submit_workflow(keyed).await.unwrap_err();
    assert!(matches!(refusal, Error::Invalid { field: "unique_key", .. }), "{refusal}");
    refused(broker.workflow(&name("w")).await, "not_found");
    broker.submit_workflow(graph("w", &DIAMOND)).await.unwrap();
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_and_fan_in_of_ten_thousand_completes() {
    const WIDTH: usize = 10_000;
    let broker = start();
    let names: Vec<String> = (0..WIDTH).map(|i| format!("m{i}")).collect();
    let mut nodes = vec![Node { name: name("first"), submit: echo(), after: Vec::new() }];
    nodes.extend(names.iter().map(|text| Node {
        name: name(text),
        submit: echo(),
        after: vec![name("first")],
    }));
    let after = names.iter().map(|text| name(text)).collect();
    nodes.push(Node { name: name("last"), submit: echo(), after });
    broker.submit_workflow(SubmitWorkflow { id: Some(name("w")), nodes, fingerprint: None }).await.unwrap();
    finish(&broker, "w:first").await;
    let mut done = 0;
    while done < WIDTH {
        let many = ClaimRequest { max: 1000, wait_ms: 30_000, ..one("w") };
        let tasks = broker.claim(many).await.unwrap();
        assert!(!tasks.is_empty(), "{done} are done");
        done += tasks.len();
        let outcome = |task: &Task| crate::Finish {
            id: task.record.id.clone(),
            token: token(task),
            verdict: crate::Verdict::Completed { result: None },
        };
        for answer in broker.finish_all(tasks.iter().map(outcome).collect()).await.unwrap() {
            answer.unwrap();
        }
    }
    finish(&broker, "w:last").await;
    let workflow = broker.workflow(&name("w")).await.unwrap();
    assert_eq!(
        (workflow.phase(), workflow.count(StateName::Completed)),
        (Phase::Completed, WIDTH as u64 + 2)
    );
    broker.stop().await;
}
