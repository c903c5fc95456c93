use windlass_core::workflow::Phase;
use windlass_core::{Links, OnConflict, StateName, Unique, UniqueKey};
use windlass_store::ListWorkflows;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::faults::{Fault, Schedule, Verb};
use windlass_store::store::Durability;

use super::dependents::{finish, state};
use super::faults::start_faulty;
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

/// A node that fans out to three, followed by a chain.
const FAN: [(&str, &[&str]); 6] =
    [("a", &[]), ("b0", &["a"]), ("b1", &["a"]), ("b2", &["a"]), ("c", &["b0", "b1", "b2"]), ("d", &["c"])];

async fn states(broker: &Broker, workflow: &Name) -> Vec<StateName> {
    let view = broker.workflow_view(workflow, None, 10).await.unwrap();
    view.nodes.iter().map(|node| node.task.record.state_name()).collect()
}

/// The states after a retry: the first node is pending, the others wait for it.
fn all_back() -> Vec<StateName> {
    let mut states = vec![StateName::Blocked; FAN.len()];
    states[0] = StateName::Pending;
    states
}

#[tokio::test(start_paused = true)]
async fn a_cascade_under_a_retry_cancels_nothing_for_good() {
    let later = Fault::Delay(Duration::from_millis(50));
    // The whole cascade runs between the read and the write of the retry; then the other way round.
    for (round, verb) in [Verb::Commit, Verb::Settle, Verb::Endings].into_iter().enumerate() {
        let (broker, faulty) = start_faulty();
        let workflow = name(&format!("w{round}"));
        broker.submit_workflow(graph(workflow.as_str(), &FAN)).await.unwrap();
        broker.cancel(&id(&format!("w{round}:a"))).await.unwrap();
        faulty.once(verb, later);
        if verb == Verb::Settle {
            // The cascade has decided by now.
            tokio::task::yield_now().await;
        }
        broker.retry_workflow(&workflow).await.unwrap();
        assert_eq!(states(&broker, &workflow).await, all_back(), "when it is answered, {verb:?} late");
        pass(1000).await;
        assert_eq!(states(&broker, &workflow).await, all_back(), "and later, {verb:?} late");
        assert_eq!(faulty.fired(), 1);
        // A second cancel takes all of them along.
        broker.cancel(&id(&format!("w{round}:a"))).await.unwrap();
        pass(1000).await;
        assert_eq!(states(&broker, &workflow).await, [StateName::Cancelled; FAN.len()]);
        broker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_undo_what_was_cancelled_or_failed_under_it() {
    let (broker, faulty) = start_faulty();
    broker.submit_workflow(graph("w", &FAN)).await.unwrap();
    broker.cancel(&id("w:a")).await.unwrap();
    // The first walk commits after the cascade, and the second walk reads after a failure.
    for delay in [0, 100] {
        faulty.once(Verb::Span, Fault::Delay(Duration::from_millis(delay)));
    }
    faulty.once(Verb::Commit, Fault::Delay(Duration::from_millis(50)));
    let retry = tokio::spawn({
        let broker = broker.clone();
        async move { broker.retry_workflow(&name("w")).await.unwrap().1 }
    });
    fail(&broker, "w:a").await;
    assert_eq!(retry.await.unwrap(), 6);
    assert_eq!(state(&broker, "w:a").await, StateName::DeadLetter);
    assert_eq!(state(&broker, "w:d").await, StateName::Blocked);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_cancels_and_retries_lose_nothing() {
    let (broker, faulty) = start_faulty();
    let delay = |ms| Fault::Delay(Duration::from_millis(ms));
    faulty.begin(Schedule {
        seed: 7,
        one_in: 2,
        verbs: vec![Verb::Commit, Verb::Endings, Verb::Settle, Verb::Span],
        faults: vec![delay(1), delay(2), delay(5)],
    });
    let mut wrong = 0;
    for round in 0..1000 {
        let workflow = name(&format!("w{round}"));
        broker.submit_workflow(graph(workflow.as_str(), &FAN)).await.unwrap();
        broker.cancel(&id(&format!("w{round}:a"))).await.unwrap();
        pass(round % 7).await;
        broker.retry_workflow(&workflow).await.unwrap();
        let answered = states(&broker, &workflow).await;
        pass(100).await;
        wrong += u32::from(answered != all_back() || states(&broker, &workflow).await != all_back());
        broker.cancel_workflow(&workflow).await.unwrap();
        pass(100).await;
    }
    assert_eq!(wrong, 0, "of 1,000");
    assert!(faulty.fired() > 1000);
    broker.stop().await;
}

/// Real threads race here instead of simulated delays: this store commits in threads of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_cancels_and_retries_lose_nothing_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let clock = windlass_store::SystemClock::shared();
    let mut options = Options::new(dir.path());
    options.durability = Durability::Os;
    let store: Arc<dyn Store> = EmbeddedStore::open(options, clock.clone()).await.unwrap();
    let broker = Broker::start(store, clock, Settings::default());
    let (mut wrong, mut raced) = (0, 0);
    // A late cancellation has all the later rounds to show up.
    for round in 0..1000 {
        let workflow = name(&format!("w{round}"));
        broker.submit_workflow(graph(workflow.as_str(), &FAN)).await.unwrap();
        broker.cancel(&id(&format!("w{round}:a"))).await.unwrap();
        let (_, retried) = broker.retry_workflow(&workflow).await.unwrap();
        raced += u32::from(retried < 6);
        let answered = states(&broker, &workflow).await;
        wrong += u32::from(answered != all_back());
    }
    for round in 0..1000 {
        let workflow = name(&format!("w{round}"));
        wrong += u32::from(states(&broker, &workflow).await != all_back());
    }
    assert_eq!(wrong, 0, "of 1,000, in {raced} of which the retry overtook the cascade");
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
