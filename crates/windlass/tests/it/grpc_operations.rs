//! Filters and acts on many tasks over gRPC.

use tonic::Code;
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;
use windlass_proto::grpc::v1::{
    CancelOperationRequest, GetOperationRequest, ListOperationsRequest, ListTasksRequest, Operation,
    StartOperationRequest,
};

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{connect, submit, tasks};

fn order(action: &str, filter: &str) -> StartOperationRequest {
    StartOperationRequest { action: action.into(), filter: filter.into(), ..Default::default() }
}

#[tokio::test]
async fn operations_are_looked_at_started_followed_and_listed() {
    let broker = BrokerProcess::start();
    submit(broker.grpc_address, &["a", "b", "c"]).await;
    let list = ListTasksRequest { filter: Some("state:pending -id:b".into()), ..Default::default() };
    let page = tasks(broker.grpc_address).await.list_tasks(list).await.unwrap().into_inner();
    let ids: Vec<&str> = page.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["c", "a"]);

    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let preview = admin.preview_operation(order("cancel", "type:t")).await.unwrap().into_inner();
    assert_eq!((preview.matched, preview.would_change, preview.sample.len()), (3, 3, 3));
    let raise = StartOperationRequest { priority: Some(201), ..order("set_priority", "id:a,c") };
    let begun = admin.start_operation(raise).await.unwrap().into_inner();
    let done = loop {
        let request = GetOperationRequest { id: begun.id.clone() };
        let operation: Operation = admin.get_operation(request).await.unwrap().into_inner();
        if operation.state != "running" {
            break operation;
        }
    };
    assert_eq!((done.state.as_str(), done.changed, done.priority), ("done", 2, Some(201)));
    let listed = admin.list_operations(ListOperationsRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.operations, listed.next_cursor), (vec![done], None));

    let ended = admin.cancel_operation(CancelOperationRequest { id: begun.id }).await.unwrap_err();
    assert_eq!(ended.code(), Code::FailedPrecondition);
    assert_eq!(Refusal::of(&ended).unwrap().code, "operation_ended");
    for (wrong, code, field) in [
        (order("explode", "type:t"), "malformed", "action"),
        (order("move", "type:t"), "malformed", "queue"),
        (order("delete", ""), "malformed", "filter"),
        (order("delete", "stat:dead"), "malformed", "filter"),
    ] {
        let refusal = Refusal::of(&admin.start_operation(wrong).await.unwrap_err()).unwrap();
        assert_eq!((refusal.code.as_str(), refusal.field.as_deref()), (code, Some(field)));
    }
    let wrong = ListTasksRequest { filter: Some("priority:red".into()), ..Default::default() };
    let refused = tasks(broker.grpc_address).await.list_tasks(wrong).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}
