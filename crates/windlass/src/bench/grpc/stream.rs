//! A worker on one stream that does nothing with its tasks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::stream::unfold;
use tokio::sync::mpsc;
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::work_response::Message as Told;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{
    Ack, Completed, Credits, Hello, LeasedTask, Outcome, Outcomes, WorkRequest, outcome,
};

use super::load::{connect, refused};
use crate::bench::Error;

const CALL: &str = "the stream";
/// Batches on their way to the worker, in its hands or on their way back.
const BATCHES: u32 = 8;

/// Completes the tasks that are `there`, or as many as a time allows; answers how many were acknowledged, and how long it took.
pub(super) async fn drain(
    addr: SocketAddr,
    there: u64,
    batch: u32,
    length: Duration,
) -> Result<(u64, Duration), Error> {
    let (up, said) = mpsc::channel(64);
    let said = unfold(said, |mut said| async move { said.recv().await.map(|message| (message, said)) });
    let mut client = WorkerServiceClient::new(connect(addr).await?).max_decoding_message_size(usize::MAX);
    let hello = Hello {
        worker_id: "bench".to_owned(),
        incarnation: 1,
        lease_seconds: Some(600.0),
        ..Hello::default()
    };
    say(&up, Said::Hello(hello)).await?;
    say(&up, Said::Credits(Credits { add: batch * BATCHES })).await?;
    let mut down = client.work(said).await.map_err(refused(CALL))?.into_inner();
    let mut worker = Worker { waiting: 0, acknowledged: 0 };
    let began = Instant::now();
    let mut up = Some(up);
    loop {
        let over = began.elapsed() >= length || worker.acknowledged >= there;
        if over && worker.waiting == 0 {
            up = None;
        }
        let left = if over { Duration::MAX } else { length.saturating_sub(began.elapsed()) };
        let Ok(message) = tokio::time::timeout(left, down.message()).await else { continue };
        match message.map_err(refused(CALL))?.map(|message| message.message) {
            // Once the time is over nothing more is taken: what comes goes back when the worker leaves.
            Some(Some(Told::Tasks(tasks))) if !over => {
                if let Some(up) = &up {
                    say(up, worker.complete(tasks.tasks)).await?;
                }
            }
            Some(Some(Told::Ack(ack))) => worker.acknowledge(&ack)?,
            Some(_) => {}
            None => break,
        }
    }
    Ok((worker.acknowledged, began.elapsed()))
}

async fn say(up: &mpsc::Sender<WorkRequest>, message: Said) -> Result<(), Error> {
    let sent = up.send(WorkRequest { message: Some(message) }).await;
    sent.map_err(|_| Error::Answer { call: CALL, reason: "it ended".to_owned() })
}

struct Worker {
    /// Reported and not acknowledged.
    waiting: u64,
    acknowledged: u64,
}

impl Worker {
    fn complete(&mut self, tasks: Vec<LeasedTask>) -> Said {
        self.waiting += tasks.len() as u64;
        let credits = tasks.len() as u32;
        let completed = |task: LeasedTask| Outcome {
            id: task.id,
            lease: task.lease,
            verdict: Some(outcome::Verdict::Completed(Completed::default())),
        };
        // The broker gives the sequence back as it is: here it says how many there were.
        let outcomes: Vec<Outcome> = tasks.into_iter().map(completed).collect();
        Said::Outcomes(Outcomes { sequence: u64::from(credits), outcomes, credits })
    }

    fn acknowledge(&mut self, ack: &Ack) -> Result<(), Error> {
        if let Some(refusal) = ack.refusals.first() {
            return Err(Error::Answer { call: "an outcome", reason: format!("{refusal:?}") });
        }
        self.waiting -= ack.sequence;
        self.acknowledged += ack.sequence;
        Ok(())
    }
}
