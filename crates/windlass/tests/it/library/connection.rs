//! Workers whose connection breaks, and results that would break it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Context, Options, Outcome, Worker};
use windlass_client::{CancellationToken, Submit};
use windlass_core::StateName;

use super::broker::Broker;
use super::end;

const WAIT: Duration = Duration::from_secs(60);

/// Stands between a worker and a broker, and can be cut.
#[derive(Debug)]
struct Wire {
    address: String,
    connected: mpsc::UnboundedReceiver<()>,
    cut: Arc<Notify>,
}

impl Wire {
    async fn to(broker: &Broker) -> Wire {
        let target = broker.grpc.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let cut = Arc::new(Notify::new());
        let (tell, connected) = mpsc::unbounded_channel();
        let cutting = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = TcpStream::connect(&target).await.unwrap();
                let cut = cutting.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = cut.notified() => {}
                    }
                });
                let _ = tell.send(());
            }
        });
        Wire { address, connected, cut }
    }

    async fn connected(&mut self) {
        timeout(WAIT, self.connected.recv()).await.expect("the worker connects").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_no_free_slot_comes_back_when_its_connection_breaks() {
    let broker = Broker::start();
    let client = broker.client();
    let mut wire = Wire::to(&broker).await;
    let (started, mut running) = mpsc::unbounded_channel();
    let go_on = CancellationToken::new();
    let going_on = go_on.clone();
    // Neither the heartbeat nor a claim nor a report makes a call while this test waits.
    let hour = Duration::from_secs(3600);
    let options = Options { concurrency: 1, lease: hour, heartbeat: hour, ..Options::default() };
    let worker = Worker::builder(GrpcPort::new(&wire.address).unwrap())
        .options(options)
        .handler("hold", move |_: Context, _: ()| {
            let (started, going_on) = (started.clone(), going_on.clone());
            async move {
                started.send(()).unwrap();
                going_on.cancelled().await;
                Outcome::ok("held")
            }
        })
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));
    wire.connected().await;
    let task = client.submit(Submit::new("hold", &()).unwrap()).await.unwrap();
    running.recv().await.unwrap();
    wire.cut.notify_one();
    wire.connected().await;
    go_on.cancel();
    assert_eq!(client.result::<String>(&task.id, WAIT).await.unwrap(), "held");
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_no_message_can_carry_ends_its_task() {
    let broker = Broker::start();
    let client = broker.client();
    let worker = Worker::builder(GrpcPort::new(&broker.grpc).unwrap())
        .handler("verbose", |_: Context, bytes: usize| async move { Outcome::ok("x".repeat(bytes)) })
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));
    // Refused by the broker, by the library, and by no one.
    let batch = [11_000_000, 20_000_000, 10].map(|bytes: usize| Submit::new("verbose", &bytes).unwrap());
    client.submit_all(&batch).await.unwrap();
    let [refused, unsent, taken] = &batch;
    for submit in [refused, unsent] {
        let ended = client.wait(submit.task_id(), WAIT).await.unwrap();
        assert_eq!(end(&ended), (StateName::DeadLetter, 1), "{ended:?}");
        let error = ended.error.unwrap();
        assert!(error.contains("too_large"), "{error}");
    }
    assert_eq!(client.result::<String>(taken.task_id(), WAIT).await.unwrap().len(), 10);
    stop.cancel();
    working.await.unwrap();
}
