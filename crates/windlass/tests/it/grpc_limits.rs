//! Limits over gRPC, which are those of REST.

use tonic::Code;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;
use windlass_proto::grpc::v1::{
    GetLimitRequest, GetQueueRequest, LimitAgeing, LimitRate, ListLimitsRequest, NewTask, RemoveLimitRequest,
    SetLimitRequest, SubmitTaskRequest,
};

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{connect, tasks};

#[tokio::test]
async fn a_limit_set_by_one_door_is_seen_through_the_other() {
    let broker = BrokerProcess::start();
    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let set = SetLimitRequest {
        scope: "key".into(),
        name: "tenant-7".into(),
        max_concurrency: Some(2),
        rate: Some(LimitRate { count: 10, per_seconds: 1.5 }),
        max_depth: Some(1),
        ..SetLimitRequest::default()
    };
    let limit = admin.set_limit(set.clone()).await.unwrap().into_inner();
    assert_eq!((limit.max_concurrency, limit.rate, limit.weight), (Some(2), set.rate, Some(1)));
    let seen = broker.client().get("/api/v1/limits/key/tenant-7").expect(200);
    assert_eq!((seen["max_depth"].as_u64(), seen["rate"]["per_seconds"].as_f64()), (Some(1), Some(1.5)));

    let task = NewTask { r#type: "t".into(), key: Some("tenant-7".into()), ..NewTask::default() };
    let submit = SubmitTaskRequest { task: Some(task), return_task: true };
    let mut tasks = tasks(broker.grpc_address).await;
    let made = tasks.submit_task(submit.clone()).await.unwrap().into_inner();
    assert_eq!(made.task.unwrap().key.as_deref(), Some("tenant-7"));
    let full = tasks.submit_task(submit).await.unwrap_err();
    assert!(full.code() == Code::Unavailable || full.code() == Code::ResourceExhausted, "{full:?}");
    assert!(full.message().contains("key tenant-7"), "{full:?}");

    let ages = SetLimitRequest {
        scope: "queue".into(),
        name: "default".into(),
        ageing: Some(LimitAgeing { every_seconds: 2.5 }),
        ..SetLimitRequest::default()
    };
    let aged = admin.set_limit(ages.clone()).await.unwrap().into_inner();
    assert_eq!(aged.ageing, ages.ageing);
    let queue = GetQueueRequest { name: "default".into() };
    assert_eq!(admin.get_queue(queue).await.unwrap().into_inner().ageing, ages.ageing);
    let wrong = SetLimitRequest { scope: "type".into(), ..ages };
    assert_eq!(admin.set_limit(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let gone = RemoveLimitRequest { scope: "queue".into(), name: "default".into() };
    admin.remove_limit(gone).await.unwrap();

    let page = admin.list_limits(ListLimitsRequest::default()).await.unwrap().into_inner();
    assert_eq!((page.limits.len(), page.limits[0].waiting), (1, 1));
    let wrong = SetLimitRequest { scope: "tenant".into(), ..set.clone() };
    assert_eq!(admin.set_limit(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let wrong = SetLimitRequest { max_concurrency: Some(0), ..set };
    assert_eq!(admin.set_limit(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let name = || ("key".to_owned(), "tenant-7".to_owned());
    let (scope, name_text) = name();
    admin.remove_limit(RemoveLimitRequest { scope, name: name_text }).await.unwrap();
    let (scope, name_text) = name();
    let gone = admin.get_limit(GetLimitRequest { scope, name: name_text }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}
