//! What REST offers, gRPC offers too: a route that is added without its call, or a call without a name here, fails this test.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::Value;
use windlass_proto::grpc::DESCRIPTORS;

use crate::broker_process::BrokerProcess;

/// Routes and the calls that do the same.
const CALLS: &[(&str, &[&str])] = &[
    ("POST /api/v1/tasks", &["TaskService/SubmitTask"]),
    ("GET /api/v1/tasks", &["TaskService/ListTasks"]),
    ("POST /api/v1/tasks/batch", &["TaskService/SubmitBatch"]),
    ("GET /api/v1/tasks/{id}", &["TaskService/GetTask"]),
    ("DELETE /api/v1/tasks/{id}", &["TaskService/CancelTask", "TaskService/ForgetTask"]),
    ("POST /api/v1/tasks/{id}/cancel", &["TaskService/CancelTask"]),
    ("POST /api/v1/tasks/{id}/retry", &["TaskService/RetryTask"]),
    ("GET /api/v1/tasks/{id}/attempts", &["TaskService/ListAttempts"]),
    ("GET /api/v1/tasks/{id}/explain", &["TaskService/ExplainTask"]),
    ("GET /api/v1/tasks/{id}/dependencies", &["TaskService/ListDependencies"]),
    ("POST /api/v1/workflows", &["TaskService/SubmitWorkflow"]),
    ("GET /api/v1/workflows", &["TaskService/ListWorkflows"]),
    ("GET /api/v1/workflows/{id}", &["TaskService/GetWorkflow"]),
    ("POST /api/v1/workflows/{id}/cancel", &["TaskService/CancelWorkflow"]),
    ("POST /api/v1/workflows/{id}/retry", &["TaskService/RetryWorkflow"]),
    ("POST /api/v1/claim", &["WorkerService/Claim"]),
    ("POST /api/v1/tasks/{id}/extend", &["WorkerService/Extend"]),
    ("POST /api/v1/tasks/{id}/complete", &["WorkerService/Complete"]),
    ("POST /api/v1/tasks/{id}/fail", &["WorkerService/Fail"]),
    ("POST /api/v1/tasks/{id}/release", &["WorkerService/Release"]),
    ("POST /api/v1/workers/{id}/heartbeat", &["WorkerService/Heartbeat"]),
    ("GET /api/v1/workers", &["AdminService/ListWorkers"]),
    ("GET /api/v1/workers/{id}", &["AdminService/GetWorker"]),
    ("POST /api/v1/workers/{id}/pause", &["AdminService/PauseWorker"]),
    ("POST /api/v1/workers/{id}/resume", &["AdminService/ResumeWorker"]),
    ("GET /api/v1/queues", &["AdminService/ListQueues"]),
    ("GET /api/v1/queues/{name}", &["AdminService/GetQueue"]),
    ("POST /api/v1/queues/{name}/pause", &["AdminService/PauseQueue"]),
    ("POST /api/v1/queues/{name}/resume", &["AdminService/ResumeQueue"]),
    ("DELETE /api/v1/queues/{name}/tasks", &["AdminService/PurgeQueue"]),
    ("GET /api/v1/dlq", &["AdminService/ListDeadLetters"]),
    ("GET /api/v1/dlq/groups", &["AdminService/ListDeadLetterGroups"]),
    ("POST /api/v1/dlq/retry", &["AdminService/RetryDeadLetters"]),
    ("DELETE /api/v1/dlq", &["AdminService/DeleteDeadLetters"]),
    ("POST /api/v1/schedules", &["AdminService/CreateSchedule"]),
    ("GET /api/v1/schedules", &["AdminService/ListSchedules"]),
    ("GET /api/v1/schedules/{id}", &["AdminService/GetSchedule"]),
    ("PUT /api/v1/schedules/{id}", &["AdminService/PutSchedule"]),
    ("DELETE /api/v1/schedules/{id}", &["AdminService/RemoveSchedule"]),
    ("POST /api/v1/schedules/{id}/run", &["AdminService/RunSchedule"]),
    ("POST /api/v1/schedules/{id}/pause", &["AdminService/PauseSchedule"]),
    ("POST /api/v1/schedules/{id}/resume", &["AdminService/ResumeSchedule"]),
    ("GET /api/v1/schedules/{id}/next", &["AdminService/ListNextSlots"]),
    ("GET /api/v1/schedules/{id}/fires", &["AdminService/ListFires"]),
    ("POST /api/v1/operations", &["AdminService/StartOperation", "AdminService/PreviewOperation"]),
    ("GET /api/v1/operations", &["AdminService/ListOperations"]),
    ("GET /api/v1/operations/{id}", &["AdminService/GetOperation"]),
    ("POST /api/v1/operations/{id}/cancel", &["AdminService/CancelOperation"]),
    ("GET /api/v1/limits", &["AdminService/ListLimits"]),
    ("GET /api/v1/limits/{scope}/{name}", &["AdminService/GetLimit"]),
    ("PUT /api/v1/limits/{scope}/{name}", &["AdminService/SetLimit"]),
    ("DELETE /api/v1/limits/{scope}/{name}", &["AdminService/RemoveLimit"]),
    // What happens to tasks; workers, queues and the system are for those who look at a screen.
    ("GET /api/v1/events", &["TaskService/WatchTasks"]),
    ("GET /api/v1/stats", &["AdminService/GetStats"]),
    ("GET /api/v1/health", &["AdminService/GetCluster"]),
];

/// Routes without a call, and why.
const ONLY_REST: &[(&str, &str)] = &[
    ("GET /api/v1/metrics/range", "what charts are drawn from; the figures of now are AdminService/GetStats"),
    ("GET /api/v1/backup", "a stream of bytes for a file; gRPC would only wrap it"),
    ("GET /ws", "the events of /api/v1/events for browsers"),
    ("GET /health", "what /api/v1/health answers, at the address that probes expect"),
    ("GET /api/openapi.json", "gRPC describes itself by reflection"),
    ("GET /livez", "grpc.health.v1.Health answers that"),
    ("GET /readyz", "grpc.health.v1.Health answers that"),
    ("GET /metrics", "Prometheus reads it over HTTP"),
];

/// Calls without a route, and why.
const ONLY_GRPC: &[(&str, &str)] = &[
    ("WorkerService/Work", "a stream in both directions"),
    ("TaskService/SubmitTasks", "a stream of batches; over REST they are batches one after the other"),
];

#[test]
fn every_route_has_its_call_and_every_call_its_route() {
    let document = BrokerProcess::start().client().get("/api/openapi.json").expect(200);
    let named: BTreeSet<String> = CALLS
        .iter()
        .map(|(route, _)| *route)
        .chain(ONLY_REST.iter().map(|it| it.0))
        .map(str::to_owned)
        .collect();
    assert_eq!(routes(&document), named, "on the left what there is, on the right what this test knows");
    let named: BTreeSet<String> = CALLS
        .iter()
        .flat_map(|(_, calls)| calls.iter().copied())
        .chain(ONLY_GRPC.iter().map(|it| it.0))
        .map(str::to_owned)
        .collect();
    assert_eq!(calls(), named, "on the left what there is, on the right what this test knows");
}

fn routes(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let methods = item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| matches!(key.as_str(), "get" | "put" | "post" | "delete" | "patch"));
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

fn calls() -> BTreeSet<String> {
    let described = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let ours = described.file.iter().filter(|file| file.package() == "windlass.v1");
    let services = ours.flat_map(|file| &file.service);
    let call = |service: &prost_types::ServiceDescriptorProto| {
        let methods = service.method.iter();
        methods.map(|method| format!("{}/{}", service.name(), method.name())).collect::<Vec<_>>()
    };
    services.flat_map(call).collect()
}
