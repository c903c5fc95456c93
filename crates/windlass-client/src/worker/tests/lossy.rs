//! Answers that get lost.

use super::*;

/// A broker whose answers to reports get lost: the call is made, and the caller learns nothing.
#[derive(Debug)]
struct Lossy {
    port: BrokerPort,
    losses: Arc<AtomicU32>,
}

#[async_trait::async_trait]
impl Port for Lossy {
    fn begin(&mut self, profile: Arc<port::Profile>, hand: hand::Hand) {
        self.port.begin(profile, hand);
    }

    async fn claim(&self, claim: port::Claim) -> Result<Vec<Job>, port::Error> {
        self.port.claim(claim).await
    }

    async fn report(&self, reports: &[port::Report]) -> Vec<Result<(), port::Error>> {
        let answers = self.port.report(reports).await;
        match self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => vec![Err(port::Error::unavailable("cut")); reports.len()],
            Err(_) => answers,
        }
    }

    async fn progress(
        &self,
        held: &port::Held,
        progress: windlass_core::Progress,
    ) -> Result<port::Word, port::Error> {
        self.port.progress(held, progress).await
    }

    /// The first answers to a checkpoint get lost too.
    async fn save(&self, held: &port::Held, checkpoint: bytes::Bytes) -> Result<port::Word, port::Error> {
        let word = self.port.save(held, checkpoint).await;
        match self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(port::Error::unavailable("cut")),
            Err(_) => word,
        }
    }

    async fn heartbeat(&self, leases: &[port::Held], leaving: bool) -> Result<Vec<port::Stop>, port::Error> {
        self.port.heartbeat(leases, leaving).await
    }
}

#[tokio::test]
async fn a_checkpoint_is_repeated_until_it_is_answered() {
    let mut bench = Bench::new(|builder| builder.handler("other", crate::builtin::echo));
    let losses = Arc::new(AtomicU32::new(2));
    let lossy = Lossy { port: BrokerPort::new(bench.broker.clone()), losses: losses.clone() };
    async fn saves(context: Context, _: Job) -> Result<(), Failure> {
        Ok(context.save_checkpoint("half").await?)
    }
    let worker = Worker::builder(lossy).options(quick()).handler("saves", saves).build().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let id = bench.submit("saves", 0, LONG).await;
    assert_eq!(bench.finished(&id).await.record.state_name(), StateName::Completed);
    assert_eq!(losses.load(Ordering::SeqCst), 0, "both losses were met");
    shutdown.cancel();
    running.await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn an_outcome_is_repeated_until_it_is_answered() {
    let mut bench = Bench::new(|builder| builder.handler("other", crate::builtin::echo));
    let losses = Arc::new(AtomicU32::new(2));
    let lossy = Lossy { port: BrokerPort::new(bench.broker.clone()), losses: losses.clone() };
    let worker =
        Worker::builder(lossy).options(quick()).handler("echo", crate::builtin::echo).build().unwrap();
    let shared = worker.shared.clone();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let id = bench.submit("echo", 0, LONG).await;
    let record = bench.finished(&id).await.record;
    assert_eq!((record.state_name(), record.attempts), (StateName::Completed, 1));
    shutdown.cancel();
    running.await.unwrap();
    assert_eq!(losses.load(Ordering::SeqCst), 0, "both losses were met");
    assert_eq!((shared.hand.len(), shared.outbox.bytes()), (0, 0), "nothing is kept any longer");
    bench.stop().await;
}
