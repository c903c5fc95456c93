//! Submitting over both wires.

use std::time::Duration;

use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::rest::RestPort;
use windlass_client::worker::{Context, Failure, Worker, handler, port::Port};
use windlass_client::{CancellationToken, Client, Error, Submit, blocking};
use windlass_core::StateName;

use super::broker::Broker;
use super::end;

const WAIT: Duration = Duration::from_secs(60);

async fn double(_: Context, n: u32) -> Result<u32, Failure> {
    n.checked_mul(2).ok_or_else(|| Failure::fatal("too large"))
}

/// `apart` has slots of its own.
fn worker(port: impl Port) -> Worker {
    let alone = handler::Options { concurrency: Some(1), ..handler::Options::default() };
    let builder = Worker::builder(port).handler("double", double).handler_with("apart", alone, double);
    builder.build().unwrap()
}

async fn check(client: Client) {
    let one = client.submit(Submit::new("double", &21).unwrap()).await.unwrap();
    assert_eq!(client.result::<u32>(&one.id, WAIT).await.unwrap(), 42);
    let apart = client.submit(Submit::new("apart", &4).unwrap()).await.unwrap();
    assert_eq!(client.result::<u32>(&apart.id, WAIT).await.unwrap(), 8);
    let broken = client.submit(Submit::new("double", &u32::MAX).unwrap()).await.unwrap();
    let ended = client.wait(&broken.id, WAIT).await.unwrap();
    assert_eq!(end(&ended), (StateName::DeadLetter, 1));
    assert!(matches!(client.result::<u32>(&broken.id, WAIT).await, Err(Error::Unfinished { .. })));

    let many: Vec<Submit> = (0..1100).map(|n| Submit::new("double", &n).unwrap()).collect();
    let answers = client.submit_batch(&many).await.unwrap();
    let last = answers.last().unwrap().as_ref().unwrap();
    assert_eq!(client.result::<u32>(&last.id, WAIT).await.unwrap(), 2198);
    let again = client.submit_batch(&many[..10]).await.unwrap();
    assert!(again.iter().all(Result::is_ok), "a repeated submit is harmless: {again:?}");

    let later = Submit::new("double", &1).unwrap().delay(Duration::from_secs(3600)).metadata("a", "b");
    let later = client.submit(later).await.unwrap();
    assert_eq!(later.state, StateName::Scheduled);
    let clash = Submit::new("double", &2).unwrap().id(later.id.clone());
    let error = client.submit_all(&[Submit::new("double", &3).unwrap(), clash]).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("task_exists"), Some(409)));
    assert_eq!(client.cancel(&later.id).await.unwrap().state, StateName::Cancelled);
    let error = client.cancel(&later.id).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("task_terminal"), Some(409)), "{error}");
    let error = client.submit(Submit::new("no spaces", &1).unwrap()).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("malformed"), Some(400)), "{error}");
    let error = client.task(&"nothing".parse().unwrap()).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("not_found"), Some(404)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_wires_carry_producers_and_workers() {
    let broker = Broker::start();
    for grpc in [true, false] {
        let worker = match grpc {
            true => worker(GrpcPort::new(&broker.grpc).unwrap()),
            false => worker(RestPort::new(broker.rest())),
        };
        let stop = CancellationToken::new();
        let working = tokio::spawn(worker.run(stop.clone()));
        check(broker.client()).await;
        check(Client::rest(&broker.http).unwrap()).await;
        stop.cancel();
        working.await.unwrap();
        assert_eq!(broker.rest().workers(10, None).await.unwrap().items.len(), 0, "it has left");
    }
}

#[test]
fn programs_without_a_runtime_submit_and_wait() {
    let broker = Broker::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stop = CancellationToken::new();
    let port = {
        let _inside = runtime.enter();
        GrpcPort::new(&broker.grpc).unwrap()
    };
    let working = runtime.spawn(worker(port).run(stop.clone()));
    for client in [blocking::Client::connect(&broker.grpc), blocking::Client::rest(&broker.http)] {
        let client = client.unwrap();
        let task = client.submit(Submit::new("double", &21).unwrap()).unwrap();
        assert_eq!(client.result::<u32>(&task.id, WAIT).unwrap(), 42);
    }
    stop.cancel();
    runtime.block_on(working).unwrap();
}

#[tokio::test]
async fn a_submit_waits_for_a_broker_that_comes_back() {
    let mut broker = Broker::start();
    let client = broker.client().patience(WAIT);
    client.submit(Submit::new("a", &1).unwrap()).await.unwrap();
    broker.kill();
    let submit = Submit::new("a", &2).unwrap();
    let id = submit.task_id().clone();
    let quick = broker.client().patience(Duration::ZERO).submit(submit.clone()).await;
    assert!(matches!(quick, Err(Error::Unreachable { .. })), "{quick:?}");
    let submitting = tokio::spawn(async move { client.submit(submit).await });
    broker.restart();
    assert_eq!(submitting.await.unwrap().unwrap().id, id);
}
