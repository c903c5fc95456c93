//! Schedules, workflows and questions about tasks over gRPC: what generated clients see of an answer, and of a refusal.

use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;
use windlass_proto::grpc::v1::{
    CreateScheduleRequest, ExplainTaskRequest, ForgetTaskRequest, GetScheduleRequest, ListAttemptsRequest,
    ListDependenciesRequest, ListNextSlotsRequest, ListSchedulesRequest, ListTasksRequest, NewSchedule,
    NewTask, PutScheduleRequest, RunScheduleRequest, SubmitWorkflowRequest, TaskState, WorkflowTask,
    new_task,
};

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{connect, submit, tasks};

fn task(kind: &str) -> NewTask {
    NewTask { r#type: kind.to_owned(), ..NewTask::default() }
}

fn schedule(id: &str, cron: &str) -> NewSchedule {
    NewSchedule { id: id.into(), cron: cron.into(), task: Some(task("t")), ..NewSchedule::default() }
}

async fn put(admin: &mut AdminServiceClient<Channel>, schedule: NewSchedule) -> Result<(), Status> {
    admin.put_schedule(PutScheduleRequest { schedule: Some(schedule) }).await.map(drop)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, reason: &str, field: Option<&str>) {
    let status = answer.expect_err("it should be refused");
    let refusal = Refusal::of(&status).unwrap_or_else(|| panic!("no code in {status:?}"));
    let told = (status.code(), refusal.code.as_str(), refusal.field.as_deref());
    assert_eq!(told, (code, reason, field), "{status:?}");
}

#[tokio::test]
async fn a_schedule_made_by_one_door_is_seen_through_the_other() {
    let broker = BrokerProcess::start();
    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let payload = Some(new_task::Payload::PayloadJson(r#"{"day":"{{scheduled_at}}"}"#.into()));
    let nightly = NewSchedule {
        timezone: Some("europe/berlin".into()),
        overlap: Some("queue_one".into()),
        task: Some(NewTask { payload, queue: "reports".into(), ..task("report") }),
        ..schedule("nightly", "0 2 * * *")
    };
    let create = CreateScheduleRequest { schedule: Some(nightly.clone()) };
    let made = admin.create_schedule(create.clone()).await.unwrap().into_inner();
    assert_eq!(
        (made.timezone.as_str(), made.standing.unwrap().code.as_str()),
        ("Europe/Berlin", "scheduled")
    );
    assert_eq!(made.task.unwrap().priority, Some(100), "what was left out is filled in");
    let seen = broker.client().get("/api/v1/schedules/nightly").expect(200);
    assert_eq!((&seen["overlap"], &seen["task"]["queue"]), (&"queue_one".into(), &"reports".into()));
    refused(admin.create_schedule(create).await, Code::AlreadyExists, "schedule_exists", None);

    let id = || "nightly".to_owned();
    let run = admin.run_schedule(RunScheduleRequest { id: id() }).await.unwrap().into_inner();
    assert_eq!((run.state(), run.queue.as_str()), (TaskState::Pending, "reports"));
    let next = ListNextSlotsRequest { id: id(), count: None };
    assert_eq!(admin.list_next_slots(next).await.unwrap().into_inner().slots.len(), 5);
    let page = admin.list_schedules(ListSchedulesRequest::default()).await.unwrap().into_inner();
    assert_eq!((page.schedules.len(), page.next_cursor), (1, None));

    let invalid = Code::InvalidArgument;
    refused(admin.put_schedule(PutScheduleRequest::default()).await, invalid, "malformed", Some("schedule"));
    let wrong = schedule("nightly", "61 * * * *");
    refused(put(&mut admin, wrong).await, invalid, "out_of_range", Some("cron"));
    let unknown = GetScheduleRequest { id: "nobody".into() };
    refused(admin.get_schedule(unknown).await, Code::NotFound, "not_found", None);
    let none = ListNextSlotsRequest { id: id(), count: Some(0) };
    refused(admin.list_next_slots(none).await, invalid, "out_of_range", Some("count"));
    let cursor = ListSchedulesRequest { cursor: Some("nonsense".into()), ..Default::default() };
    refused(admin.list_schedules(cursor).await, invalid, "malformed", Some("cursor"));
}

#[tokio::test]
async fn a_page_of_large_schedules_fits_into_a_message() {
    let broker = BrokerProcess::start();
    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let text = format!("\"{}\"", "x".repeat(16_000));
    for n in 0..300 {
        let payload = Some(new_task::Payload::PayloadJson(text.clone().into()));
        let large = NewSchedule {
            task: Some(NewTask { payload, ..task("t") }),
            ..schedule(&format!("s{n:03}"), "@yearly")
        };
        put(&mut admin, large).await.unwrap();
    }
    let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        // The client of this test takes 4 MiB at most, as all clients do by default.
        let request = ListSchedulesRequest { limit: Some(1000), cursor };
        let page = admin.list_schedules(request).await.unwrap().into_inner();
        ids.extend(page.schedules.into_iter().map(|schedule| schedule.id));
        (pages, cursor) = (pages + 1, page.next_cursor);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(ids, (0..300).map(|n| format!("s{n:03}")).collect::<Vec<_>>());
    assert!(pages > 1, "{pages}");
}

#[tokio::test]
async fn what_rest_refuses_of_schedules_workflows_and_questions_is_refused_alike() {
    let broker = BrokerProcess::start();
    let mut rest = broker.client();
    let mut tasks = tasks(broker.grpc_address).await;
    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    submit(broker.grpc_address, &["waits"]).await;

    let node = |name: &str, after: &[&str]| WorkflowTask {
        name: name.into(),
        task: Some(task("t")),
        after: after.iter().map(|name| (*name).to_owned()).collect(),
    };
    let graph = |tasks: Vec<WorkflowTask>| SubmitWorkflowRequest { tasks, ..Default::default() };
    for (body, request) in [
        (r#"{"tasks":{}}"#, graph(Vec::new())),
        (r#"{"tasks":{"a":{"type":"t","after":["b"]}}}"#, graph(vec![node("a", &["b"])])),
        (
            r#"{"tasks":{"a":{"type":"t","after":["b"]},"b":{"type":"t","after":["a"]}}}"#,
            graph(vec![node("a", &["b"]), node("b", &["a"])]),
        ),
        (r#"{"tasks":{"a:b":{"type":"t"}}}"#, graph(vec![node("a:b", &[])])),
    ] {
        same(&rest.post("/api/v1/workflows", body).json(), tasks.submit_workflow(request).await);
    }
    for (body, new) in [
        (r#"{"cron":"@daily","task":{"type":"t"}}"#, schedule("", "@daily")),
        (r#"{"id":"a","cron":"0 0 31 2 *","task":{"type":"t"}}"#, schedule("a", "0 0 31 2 *")),
        (
            r#"{"id":"a","cron":"@daily","task":{"type":"t","priority":256}}"#,
            NewSchedule {
                task: Some(NewTask { priority: Some(256), ..task("t") }),
                ..schedule("a", "@daily")
            },
        ),
        (
            r#"{"id":"a","cron":"@daily","task":{"type":"t"},"timezone":"Mars/Base"}"#,
            NewSchedule { timezone: Some("Mars/Base".into()), ..schedule("a", "@daily") },
        ),
    ] {
        let create = CreateScheduleRequest { schedule: Some(new) };
        same(&rest.post("/api/v1/schedules", body).json(), admin.create_schedule(create).await);
    }
    let id = || "nobody".to_owned();
    let problem = rest.get("/api/v1/tasks/nobody/explain").json();
    same(&problem, tasks.explain_task(ExplainTaskRequest { id: id() }).await);
    let problem = rest.get("/api/v1/tasks/nobody/attempts").json();
    same(&problem, tasks.list_attempts(ListAttemptsRequest { id: id() }).await);
    let problem = rest.get("/api/v1/tasks/nobody/dependencies").json();
    same(&problem, tasks.list_dependencies(ListDependenciesRequest { id: id(), ..Default::default() }).await);
    let problem = rest.delete("/api/v1/tasks/waits?purge=true").json();
    same(&problem, tasks.forget_task(ForgetTaskRequest { id: "waits".into() }).await);
    let problem = rest.get("/api/v1/schedules/nobody").json();
    same(&problem, admin.get_schedule(GetScheduleRequest { id: id() }).await);
    let alive = ListTasksRequest { states: vec![TaskState::Pending.into()], ..Default::default() };
    refused(admin.list_dead_letters(alive).await, Code::InvalidArgument, "out_of_range", Some("states"));
}

#[track_caller]
fn same<T: std::fmt::Debug>(problem: &Value, answer: Result<Response<T>, Status>) {
    let status = answer.expect_err("it should be refused");
    let refusal = Refusal::of(&status).unwrap_or_else(|| panic!("no code in {status:?}"));
    assert_eq!(problem["code"], refusal.code.as_str(), "{problem}");
    assert_eq!(problem["status"].as_u64(), refusal.http_status.map(u64::from), "{problem}");
    assert_eq!(problem["errors"][0]["field"].as_str(), refusal.field.as_deref(), "{problem}");
}
