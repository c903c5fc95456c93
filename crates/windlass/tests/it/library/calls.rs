//! Every call of the library over each of its lines: what is answered, and what is refused with which code.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::json;
use windlass_broker::Settings;
use windlass_client::{
    AgeingBody, CatchUp, Client, DeadSelection, Error, Filter, LimitInput, NewSchedule, NewWorkflow,
    OperationInput, Overlap, RateBody, Scope, Seconds, Submit,
};
use windlass_core::{Name, StateName, TaskId};
use windlass_proto::rest::PriorityInput;
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::broker::Broker;

/// Calls `check` with a client of each kind and a word of its own for names.
async fn each(check: impl AsyncFn(&Client, &str)) {
    let broker = Broker::start();
    check(&broker.client(), "over-grpc").await;
    check(&Client::rest(&broker.http).unwrap(), "over-rest").await;
    let clock = SystemClock::shared();
    let inside = windlass_broker::Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());
    check(&Client::embedded(inside.clone()), "inside").await;
    inside.stop().await;
}

#[track_caller]
fn refused<T: Debug>(answer: Result<T, Error>, status: u16, code: &str) -> Error {
    let error = answer.expect_err("it should be refused");
    assert_eq!((error.status(), error.code()), (Some(status), Some(code)), "{error}");
    error
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn task_in(queue: &str) -> Submit {
    Submit::new("t", &json!({"n": 1})).unwrap().queue(queue)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_listed_explained_cancelled_and_forgotten() {
    each(async |client, own| {
        let id = client.submit(task_in(own).key("acme")).await.unwrap().id;
        let child = client.submit(task_in(own).after(&id)).await.unwrap().id;
        let filter =
            Filter { queue: Some(name(own)), state: Some("queued,blocked".into()), ..Filter::default() };
        let listed = client.tasks(&filter).await.unwrap();
        let ids: Vec<&TaskId> = listed.items.iter().map(|task| &task.id).collect();
        assert_eq!((ids, listed.next_cursor), (vec![&child, &id], None));
        let first = client.tasks(&Filter { limit: Some(1), ..filter.clone() }).await.unwrap();
        let rest = Filter { cursor: first.next_cursor, limit: Some(1), ..filter.clone() };
        assert_eq!(client.tasks(&rest).await.unwrap().items[0].id, id);
        let keyed = Filter { key: Some(name("acme")), ..filter.clone() };
        assert_eq!(client.tasks(&keyed).await.unwrap().items.len(), 1);
        for (wrong, status, code) in [
            (Filter { cursor: Some("nonsense".into()), ..Filter::default() }, 400, "malformed"),
            (Filter { filter: Some("colour:red".into()), ..Filter::default() }, 400, "malformed"),
            (Filter { state: Some("asleep".into()), ..Filter::default() }, 400, "malformed"),
            (Filter { limit: Some(0), ..Filter::default() }, 422, "out_of_range"),
        ] {
            refused(client.tasks(&wrong).await, status, code);
        }

        let explained = client.explain(&child).await.unwrap();
        assert_eq!((explained.state, explained.runnable), (StateName::Blocked, false));
        assert!(explained.reasons.iter().any(|reason| reason.text.contains(id.as_str())), "{explained:?}");
        assert_eq!(client.attempts(&id).await.unwrap().items.len(), 0);
        let waits_for = client.dependencies(&child, 10, None).await.unwrap();
        assert_eq!((waits_for.total, waits_for.items[0].state), (1, Some(StateName::Pending)));
        refused(client.dependencies(&child, 10, Some("nonsense")).await, 400, "malformed");

        refused(client.retry(&id).await, 409, "wrong_state");
        refused(client.forget(&id).await, 409, "wrong_state");
        assert_eq!(client.cancel(&id).await.unwrap().state, StateName::Cancelled);
        refused(client.cancel(&id).await, 409, "task_terminal");
        let child = client.wait(&child, Duration::from_secs(30)).await.unwrap();
        assert_eq!(child.cancel_reason.as_deref(), Some("dependency"));
        assert_eq!(client.retry(&id).await.unwrap().state, StateName::Pending);
        client.cancel(&id).await.unwrap();
        client.forget(&id).await.unwrap();
        refused(client.task(&id).await, 404, "not_found");
        refused(client.forget(&id).await, 404, "not_found");
        refused(client.attempts(&id).await, 404, "not_found");
        refused(client.explain(&id).await, 404, "not_found");
        refused(client.dependencies(&id, 10, None).await, 404, "not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_are_submitted_looked_at_cancelled_and_retried() {
    each(async |client, own| {
        let graph = || {
            let step = |n: u32| Submit::new("t", &n).unwrap().queue(own);
            NewWorkflow::new()
                .id(own)
                .task("b", step(2), &["a"])
                .task("a", step(1), &[])
                .then(Submit::new("end", &()).unwrap().queue(own))
        };
        let id = name(own);
        let made = client.submit_workflow(&graph()).await.unwrap();
        assert_eq!((&made.id, made.size, made.state.as_str()), (&id, 3, "running"));
        assert_eq!(made.tasks["b"], format!("{own}:b"));
        assert_eq!(client.submit_workflow(&graph()).await.unwrap().tasks, made.tasks, "the same again");
        let other = graph().task("c", task_in(own), &[]);
        refused(client.submit_workflow(&other).await, 409, "workflow_exists");
        let cycle = NewWorkflow::new().task("a", task_in(own), &["b"]).task("b", task_in(own), &["a"]);
        let error = refused(client.submit_workflow(&cycle).await, 422, "out_of_range");
        assert!(error.to_string().contains("a → b → a"), "{error}");
        let named = NewWorkflow::new().task("a", task_in(own).id("x".parse().unwrap()), &[]);
        refused(client.submit_workflow(&named).await, 422, "not_supported");
        refused(client.submit_workflow(&NewWorkflow::new()).await, 400, "malformed");

        let seen = client.workflow(&id, 2, None).await.unwrap();
        let nodes = seen.nodes.unwrap();
        assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((nodes[1].state, nodes[1].after.as_slice()), (StateName::Blocked, &["a".to_owned()][..]));
        let rest = client.workflow(&id, 2, seen.next_cursor.as_deref()).await.unwrap();
        assert_eq!(rest.nodes.unwrap()[0].name, "then");
        assert_eq!(rest.next_cursor, None);
        let all = client.workflows(100, None).await.unwrap().items;
        assert!(all.iter().any(|workflow| workflow.id == id && workflow.tasks_by_state.blocked == 2));
        refused(client.workflows(0, None).await, 422, "out_of_range");

        let cancelled = client.cancel_workflow(&id).await.unwrap();
        assert_eq!((cancelled.affected, cancelled.state.as_str()), (Some(3), "cancelled"));
        let retried = client.retry_workflow(&id).await.unwrap();
        assert_eq!((retried.affected, retried.state.as_str()), (Some(3), "running"));
        let nobody = name("nobody");
        refused(client.workflow(&nobody, 10, None).await, 404, "not_found");
        refused(client.cancel_workflow(&nobody).await, 404, "not_found");
        refused(client.retry_workflow(&nobody).await, 404, "not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_made_changed_run_and_forgotten() {
    each(async |client, own| {
        let id = name(own);
        let yearly = || {
            let task = Submit::new("t", &json!({"day": "{{scheduled_at}}"})).unwrap().queue(own);
            NewSchedule::new(own, "@yearly", task)
                .timezone("Europe/Berlin")
                .overlap(Overlap::Skip)
                .catch_up(CatchUp::All)
                .catch_up_window(Duration::from_secs(3600))
                .jitter(Duration::from_millis(1500))
        };
        let made = client.create_schedule(&yearly()).await.unwrap();
        assert_eq!((made.timezone.as_str(), made.overlap.as_str()), ("Europe/Berlin", "skip"));
        assert_eq!((made.jitter_seconds, made.task.queue.as_str()), (Seconds(1.5), own));
        refused(client.create_schedule(&yearly()).await, 409, "schedule_exists");
        let changed = client.put_schedule(&yearly().paused()).await.unwrap();
        assert_eq!((changed.paused, changed.created_at), (true, made.created_at));
        assert_eq!(client.schedule(&id).await.unwrap().standing.code, "paused");
        assert!(!client.resume_schedule(&id).await.unwrap().paused);
        assert!(client.pause_schedule(&id).await.unwrap().paused);
        let never = NewSchedule::new(own, "0 0 31 2 *", task_in(own));
        refused(client.put_schedule(&never).await, 422, "invalid");
        let wrong = NewSchedule::new(own, "whenever", task_in(own));
        let error = refused(client.put_schedule(&wrong).await, 422, "out_of_range");
        assert!(error.to_string().starts_with("cron"), "{error}");
        let named = NewSchedule::new(own, "@daily", task_in(own).id("x".parse().unwrap()));
        refused(client.put_schedule(&named).await, 422, "not_supported");

        let next = client.next_slots(&id, 3).await.unwrap().items;
        assert!(next.len() == 3 && next[0].scheduled_at < next[1].scheduled_at, "{next:?}");
        refused(client.next_slots(&id, 0).await, 422, "out_of_range");
        let task = client.run_schedule(&id).await.unwrap();
        assert_eq!((task.state, task.queue.as_str()), (StateName::Pending, own));
        let fires = client.schedule_fires(&id, 10).await.unwrap().items;
        assert_eq!((&fires[0].task_id, fires[0].manual), (&task.id, true));
        refused(client.schedule_fires(&id, 0).await, 422, "out_of_range");

        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = client.schedules(1, cursor.as_deref()).await.unwrap();
            seen.extend(page.items.into_iter().map(|schedule| schedule.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen.iter().filter(|seen| **seen == id).count(), 1);
        refused(client.schedules(1, Some("no cursor!")).await, 400, "malformed");
        client.remove_schedule(&id).await.unwrap();
        refused(client.schedule(&id).await, 404, "not_found");
        refused(client.remove_schedule(&id).await, 404, "not_found");
        refused(client.run_schedule(&id).await, 404, "not_found");
        refused(client.pause_schedule(&id).await, 404, "not_found");
        refused(client.resume_schedule(&id).await, 404, "not_found");
        refused(client.next_slots(&id, 1).await, 404, "not_found");
        refused(client.schedule_fires(&id, 1).await, 404, "not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_set_seen_and_removed() {
    each(async |client, own| {
        let rate = RateBody { count: 10, per_seconds: Seconds(1.5) };
        let limit = LimitInput {
            max_concurrency: Some(2),
            rate: Some(rate),
            weight: Some(3),
            max_depth: Some(1),
            ..LimitInput::default()
        };
        let key = name(own);
        let set = client.set_limit(Scope::Key, &key, &limit).await.unwrap();
        assert_eq!((set.max_concurrency, set.rate, set.weight), (Some(2), Some(rate), Some(3)));
        client.submit(task_in(own).key(own)).await.unwrap();
        let once = client.clone().patience(Duration::ZERO);
        refused(once.submit(task_in(own).key(own)).await, 503, "queue_full");
        assert_eq!(client.limit(Scope::Key, &key).await.unwrap().waiting, 1);
        let paused = LimitInput { paused: true, ..limit.clone() };
        let set = client.set_limit(Scope::Key, &key, &paused).await.unwrap();
        assert_eq!(set.blocked.unwrap().code, "limit_paused");
        let page = client.limits(Some(Scope::Key), 100, None).await.unwrap();
        assert!(page.items.iter().any(|limit| limit.name == key));
        let one = client.limits(None, 1, None).await.unwrap();
        let rest = client.limits(None, 1, one.next_cursor.as_deref()).await.unwrap();
        assert_ne!(rest.items.first().map(|limit| &limit.name), Some(&one.items[0].name));
        refused(client.limits(None, 0, None).await, 422, "out_of_range");
        refused(client.limits(None, 1, Some("nonsense")).await, 400, "malformed");
        let wrong = LimitInput { weight: Some(0), ..limit };
        refused(client.set_limit(Scope::Key, &key, &wrong).await, 422, "out_of_range");
        let ageing = Some(AgeingBody { every_seconds: Seconds(2.5) });
        let ages = LimitInput { ageing, ..LimitInput::default() };
        assert_eq!(client.set_limit(Scope::Queue, &key, &ages).await.unwrap().ageing, ageing);
        assert_eq!(client.queue(&key).await.unwrap().ageing, ageing);
        client.remove_limit(Scope::Queue, &key).await.unwrap();
        refused(client.set_limit(Scope::Type, &key, &ages).await, 422, "out_of_range");
        client.remove_limit(Scope::Key, &key).await.unwrap();
        refused(client.limit(Scope::Key, &key).await, 404, "not_found");
        refused(client.remove_limit(Scope::Key, &key).await, 404, "not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_are_previewed_started_followed_and_listed() {
    each(async |client, own| {
        let order = |action: &str| OperationInput {
            action: action.into(),
            filter: format!("queue:{own}"),
            by: Some("a test".into()),
            ..OperationInput::default()
        };
        client.submit_all(&[task_in(own), task_in(own), task_in(own)]).await.unwrap();
        let preview = client.preview_operation(&order("cancel")).await.unwrap();
        assert_eq!((preview.matched, preview.would_change, preview.sample.len()), (3, 3, 3));
        let priority = Some(PriorityInput::Class("high".into()));
        let raise = OperationInput { priority, ..order("set_priority") };
        let begun = client.start_operation(&raise).await.unwrap();
        assert_eq!((begun.priority, begun.by.as_deref()), (Some(200), Some("a test")));
        let done = loop {
            let operation = client.operation(&begun.id).await.unwrap();
            if operation.state != "running" {
                break operation;
            }
        };
        assert_eq!((done.state.as_str(), done.changed, done.progress), ("done", 3, 1.0));
        let listed = client.operations(100, None).await.unwrap().items;
        assert!(listed.iter().any(|operation| operation.id == begun.id));
        refused(client.operations(0, None).await, 422, "out_of_range");
        refused(client.cancel_operation(&begun.id).await, 409, "operation_ended");
        refused(client.operation(&name("nobody")).await, 404, "not_found");
        refused(client.start_operation(&order("explode")).await, 400, "malformed");
        let all = OperationInput { filter: String::new(), ..order("cancel") };
        refused(client.start_operation(&all).await, 400, "malformed");
        refused(client.preview_operation(&all).await, 400, "malformed");
        let far = OperationInput { priority: Some(PriorityInput::Number(-1)), ..order("set_priority") };
        refused(client.start_operation(&far).await, 422, "out_of_range");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_dead_letters_workers_and_the_broker_are_looked_after() {
    each(async |client, own| {
        let queue = name(own);
        let id = client.submit(task_in(own)).await.unwrap().id;
        assert_eq!(client.queue(&queue).await.unwrap().tasks.pending, 1);
        assert!(client.pause_queue(&queue).await.unwrap().paused);
        let reasons = client.explain(&id).await.unwrap().reasons;
        assert!(reasons.iter().any(|reason| reason.code == "paused"), "{reasons:?}");
        assert!(!client.resume_queue(&queue).await.unwrap().paused);
        assert!(client.queues(1000, None).await.unwrap().items.iter().any(|seen| seen.name == queue));
        assert_eq!(client.purge_queue(&queue).await.unwrap().affected, 1);
        refused(client.queue(&name("nobody")).await, 404, "not_found");
        refused(client.purge_queue(&name("nobody")).await, 404, "not_found");

        assert_eq!(client.dead(&Filter::default()).await.unwrap().items.len(), 0);
        let pending = Filter { state: Some("pending".into()), ..Filter::default() };
        refused(client.dead(&pending).await, 422, "out_of_range");
        assert!(client.dead_groups(&Filter::default()).await.unwrap().complete);
        refused(client.dead_groups(&pending).await, 400, "malformed");
        let all = DeadSelection { all: true, ..DeadSelection::default() };
        assert_eq!(client.retry_dead(&all).await.unwrap().affected, 0);
        assert_eq!(client.clear_dead(&all).await.unwrap().affected, 0);
        refused(client.retry_dead(&DeadSelection::default()).await, 400, "malformed");
        refused(client.clear_dead(&DeadSelection::default()).await, 400, "malformed");
        let both = DeadSelection { ids: Some(Vec::new()), all: true, ..DeadSelection::default() };
        refused(client.clear_dead(&both).await, 400, "malformed");

        assert_eq!(client.workers(10, None).await.unwrap().items.len(), 0);
        refused(client.worker(&name("nobody")).await, 404, "not_found");
        refused(client.pause_worker(&name("nobody")).await, 404, "not_found");
        refused(client.resume_worker(&name("nobody")).await, 404, "not_found");
        let stats = client.stats().await.unwrap();
        assert!(stats.ledger.submitted >= 1 && stats.ledger.removed >= 1, "{stats:?}");
        let health = client.health().await.unwrap();
        assert_eq!((health.status.as_str(), health.quorum), ("ok", true));
        assert!(!health.loops.is_empty());
    })
    .await;
}
