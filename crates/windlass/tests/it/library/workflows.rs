//! Workflows that run: what a child reads of its parents over each port, and that both wires show the same of it.

use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_broker::Settings;
use windlass_client::worker::embedded::BrokerPort;
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::port::Port;
use windlass_client::worker::rest::RestPort;
use windlass_client::worker::{Context, Failure, Worker};
use windlass_client::{
    CancellationToken, Client, DeadSelection, Error, Filter, LimitInput, NewSchedule, NewWorkflow,
    OperationInput, Scope, Submit, blocking,
};
use windlass_core::{Name, StateName, TaskId};
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::broker::Broker;

const WAIT: Duration = Duration::from_secs(60);

async fn number(_: Context, n: u64) -> Result<u64, Failure> {
    if n == 0 { Err(Failure::fatal("nothing to count")) } else { Ok(n) }
}

/// Adds up what it depends on, and says by which names.
async fn sum(context: Context, _: ()) -> Result<(Vec<String>, u64), Failure> {
    let (mut names, mut sum) = (Vec::new(), 0);
    for parent in context.dependencies().await? {
        sum += parent.json::<u64>()?;
        names.push(parent.name.unwrap_or(parent.id.to_string()));
    }
    Ok((names, sum))
}

fn worker(port: impl Port) -> Worker {
    Worker::builder(port).id("w").handler("number", number).handler("sum", sum).build().unwrap()
}

fn graph(id: &str, first: u64) -> NewWorkflow {
    let number = |n: u64| Submit::new("number", &n).unwrap().max_retries(0);
    NewWorkflow::new().id(id).task("one", number(first), &[]).task("two", number(20), &[]).task(
        "sum",
        Submit::new("sum", &()).unwrap(),
        &["two", "one"],
    )
}

async fn run(port: impl Port, client: &Client, own: &str) {
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker(port).run(stop.clone()));
    let made = client.submit_workflow(&graph(own, 1)).await.unwrap();
    let id: TaskId = made.tasks["sum"].parse().unwrap();
    let (names, sum): (Vec<String>, u64) = client.result(&id, WAIT).await.unwrap();
    assert_eq!((names, sum), (vec!["two".to_owned(), "one".to_owned()], 21), "in the order of the graph");
    let read = client.dependencies(&id, 1, None).await.unwrap();
    assert_eq!(read.items[0].payload().unwrap().bytes(), "20");
    let attempts = client.attempts(&id).await.unwrap().items;
    assert_eq!((attempts.len(), attempts[0].outcome.as_str()), (1, "completed"));
    assert_eq!(client.workflow(&made.id, 10, None).await.unwrap().state, "completed");

    // One that fails is seen among the dead letters, and holds up the others until it is given up.
    let failing = client.submit_workflow(&graph(&format!("{own}-fails"), 0)).await.unwrap();
    let dead: TaskId = failing.tasks["one"].parse().unwrap();
    assert_eq!(client.wait(&dead, WAIT).await.unwrap().state, StateName::DeadLetter);
    let filter = Filter { filter: Some(format!("id:{dead}")), ..Filter::default() };
    let listed = client.dead(&filter).await.unwrap().items;
    assert_eq!(listed[0].error.as_deref(), Some("nothing to count"));
    let this = DeadSelection { ids: Some(vec![dead.clone()]), ..DeadSelection::default() };
    assert_eq!(client.retry_dead(&this).await.unwrap().affected, 1);
    let again = client.wait(&dead, WAIT).await.unwrap();
    assert_eq!((again.state, again.attempts), (StateName::DeadLetter, 1));
    assert!(client.cancel_workflow(&failing.id).await.unwrap().affected.is_some());
    assert_eq!(client.clear_dead(&this).await.unwrap().affected, 1);
    assert_eq!(client.dead(&filter).await.unwrap().items.len(), 0);
    let paused = client.pause_worker(&"w".parse().unwrap()).await.unwrap();
    assert!(paused.paused && client.worker(&paused.id).await.unwrap().paused);
    assert!(!client.resume_worker(&paused.id).await.unwrap().paused);
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_reads_what_its_parents_found_over_every_port() {
    let broker = Broker::start();
    run(GrpcPort::new(&broker.grpc).unwrap(), &broker.client(), "over-grpc").await;
    run(RestPort::new(broker.rest()), &Client::rest(&broker.http).unwrap(), "over-rest").await;
    let clock = SystemClock::shared();
    let inside = windlass_broker::Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());
    run(BrokerPort::new(inside.clone()), &Client::embedded(inside.clone()), "inside").await;
    inside.stop().await;
}

#[track_caller]
fn same<T: Serialize + Debug>(one: Result<T, Error>, other: Result<T, Error>) {
    let value = |answer: Result<T, Error>| without_nulls(serde_json::to_value(answer.unwrap()).unwrap());
    assert_eq!(value(one), value(other));
}

/// JSON does not tell a payload that is `null` from none.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(fields) => {
            let some = fields.into_iter().filter(|(_, value)| !value.is_null());
            some.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_wires_show_the_same() {
    let broker = Broker::start();
    let (grpc, rest) = (broker.client(), Client::rest(&broker.http).unwrap());
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker(GrpcPort::new(&broker.grpc).unwrap()).run(stop.clone()));
    let made = grpc.submit_workflow(&graph("g", 0)).await.unwrap();
    let task = |name: &str| made.tasks[name].parse::<TaskId>().unwrap();
    for name in ["one", "two"] {
        grpc.wait(&task(name), WAIT).await.unwrap();
    }
    stop.cancel();
    working.await.unwrap();
    let full = Submit::binary("later", vec![0, 255])
        .delay(Duration::from_secs(3600))
        .metadata("k", "v")
        .key("acme")
        .unique_key("u")
        .unique_for(Duration::from_secs(60));
    let later = grpc.submit(full).await.unwrap().id;
    let plan = NewSchedule::new("s", "@yearly", Submit::new("t", &1).unwrap().metadata("k", "v").key("acme"));
    let plan = plan.jitter(Duration::from_secs(7));
    let schedule = grpc.create_schedule(&plan).await.unwrap().id;
    grpc.cancel(&grpc.run_schedule(&schedule).await.unwrap().id).await.unwrap();
    let key: Name = "acme".parse().unwrap();
    let limit = LimitInput { max_concurrency: Some(1), paused: true, ..LimitInput::default() };
    grpc.set_limit(Scope::Key, &key, &limit).await.unwrap();
    let order =
        OperationInput { action: "retry".into(), filter: "type:none".into(), ..OperationInput::default() };
    let operation = grpc.start_operation(&order).await.unwrap().id;
    while grpc.operation(&operation).await.unwrap().state == "running" {}

    for id in [&task("one"), &task("two"), &task("sum"), &later] {
        same(grpc.task(id).await, rest.task(id).await);
        same(grpc.attempts(id).await, rest.attempts(id).await);
        same(grpc.explain(id).await, rest.explain(id).await);
        same(grpc.dependencies(id, 10, None).await, rest.dependencies(id, 10, None).await);
    }
    let all = Filter::default();
    same(grpc.tasks(&all).await, rest.tasks(&all).await);
    same(grpc.dead(&all).await, rest.dead(&all).await);
    same(grpc.dead_groups(&all).await, rest.dead_groups(&all).await);
    same(grpc.workflow(&made.id, 10, None).await, rest.workflow(&made.id, 10, None).await);
    same(grpc.workflows(10, None).await, rest.workflows(10, None).await);
    same(grpc.schedule(&schedule).await, rest.schedule(&schedule).await);
    same(grpc.schedules(1, None).await, rest.schedules(1, None).await);
    same(grpc.next_slots(&schedule, 3).await, rest.next_slots(&schedule, 3).await);
    same(grpc.schedule_fires(&schedule, 10).await, rest.schedule_fires(&schedule, 10).await);
    same(grpc.limit(Scope::Key, &key).await, rest.limit(Scope::Key, &key).await);
    same(grpc.limits(None, 10, None).await, rest.limits(None, 10, None).await);
    same(grpc.operation(&operation).await, rest.operation(&operation).await);
    same(grpc.operations(10, None).await, rest.operations(10, None).await);
    let order = OperationInput { filter: "type:later".into(), ..order };
    same(grpc.preview_operation(&order).await, rest.preview_operation(&order).await);
    same(grpc.workers(10, None).await, rest.workers(10, None).await);
}

#[test]
fn programs_without_a_runtime_have_the_same_calls() {
    let broker = Broker::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let inside = {
        let _inside = runtime.enter();
        let clock = SystemClock::shared();
        windlass_broker::Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default())
    };
    let clients = [
        ("over-grpc", blocking::Client::connect(&broker.grpc)),
        ("over-rest", blocking::Client::rest(&broker.http)),
        ("inside", blocking::Client::embedded(inside)),
    ];
    for (own, client) in clients {
        let client = client.unwrap();
        let made = client.submit_workflow(&graph(own, 1)).unwrap();
        let sum: TaskId = made.tasks["sum"].parse().unwrap();
        assert_eq!(client.explain(&sum).unwrap().state, StateName::Blocked);
        assert_eq!(client.cancel_workflow(&made.id).unwrap().affected, Some(3));
        assert_eq!(client.schedule(&"none".parse().unwrap()).unwrap_err().code(), Some("not_found"));
    }
}
