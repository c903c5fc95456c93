//! The runtime on a real broker in the same process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Settings, Start, Submit};
use windlass_core::{Name, Payload, Priority, StateName, Task, TaskId, retry};
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::embedded::BrokerPort;
use super::*;

struct Bench {
    broker: Broker,
    shutdown: CancellationToken,
    worker: Option<JoinHandle<()>>,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn quick() -> Options {
    Options {
        heartbeat: Duration::from_millis(20),
        drain_for: Duration::from_millis(50),
        stop_for: Duration::from_millis(50),
        ..Options::default()
    }
}

impl Bench {
    fn new(handlers: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = SystemClock::shared();
        let broker = Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());
        let builder = Worker::builder(Arc::new(BrokerPort::new(broker.clone()))).options(quick());
        let shutdown = CancellationToken::new();
        let worker = tokio::spawn(handlers(builder).build().run(shutdown.clone()));
        Self { broker, shutdown, worker: Some(worker) }
    }

    async fn submit(&self, kind: &str, max_retries: u32, timeout_ms: u64) -> TaskId {
        let policy = retry::Policy { initial_ms: 1, ..retry::Policy::default() };
        let submit = Submit {
            id: None,
            queue: name("default"),
            kind: name(kind),
            payload: Payload::Json(Bytes::from_static(b"{\"n\":1}")),
            priority: Priority::default(),
            start: Start::Now,
            expires_at: None,
            retry: policy,
            max_retries,
            max_crashes: 5,
            timeout_ms,
            retention_ms: 60_000,
            metadata: Vec::new(),
            fingerprint: None,
        };
        self.broker.submit(submit).await.unwrap().task.record.id
    }

    async fn finished(&self, id: &TaskId) -> Task {
        let task = self.broker.wait(id, 30_000).await.unwrap();
        assert!(task.record.state.is_terminal(), "{:?}", task.record);
        task
    }

    /// How a task of this type ends: state, attempts, error.
    async fn end_of(&self, kind: &str, max_retries: u32, timeout_ms: u64) -> (StateName, u32, String) {
        let id = self.submit(kind, max_retries, timeout_ms).await;
        let record = self.finished(&id).await.record;
        (record.state_name(), record.attempts, record.error.as_deref().unwrap_or_default().to_owned())
    }

    async fn stop(&mut self) {
        self.shutdown.cancel();
        self.worker.take().unwrap().await.unwrap();
    }
}

const LONG: u64 = 60_000;

#[tokio::test]
async fn outcomes_end_as_they_say() {
    async fn sum(_: Context, job: Job) -> Result<u32, Failure> {
        #[derive(serde::Deserialize)]
        struct Input {
            n: u32,
        }
        Ok(job.json::<Input>()?.n + 1)
    }
    async fn wrong(_: Context, job: Job) -> Result<u32, Failure> {
        job.json::<Vec<u32>>().map(|list| list.len() as u32)
    }
    async fn broken(_: Context, _: Job) -> Outcome {
        Outcome::Retry { error: "no luck".into() }
    }
    async fn later(context: Context, _: Job) -> Outcome {
        match context.attempt() {
            1 => Outcome::RetryIn { error: "soon".into(), delay: Duration::from_millis(1) },
            _ => Outcome::Done(None),
        }
    }
    let mut bench = Bench::new(|builder| {
        builder
            .handler(name("sum"), sum)
            .handler(name("wrong"), wrong)
            .handler(name("broken"), broken)
            .handler(name("later"), later)
    });
    let id = bench.submit("sum", 0, LONG).await;
    assert_eq!(bench.finished(&id).await.record.result, Some(Payload::Json(Bytes::from_static(b"2"))));
    let (state, attempts, error) = bench.end_of("wrong", 3, LONG).await;
    assert_eq!((state, attempts), (StateName::DeadLetter, 1));
    assert!(error.contains("does not fit the type wrong"), "{error}");
    assert_eq!(bench.end_of("broken", 2, LONG).await, (StateName::DeadLetter, 3, "no luck".into()));
    let (state, attempts, _) = bench.end_of("later", 3, LONG).await;
    assert_eq!((state, attempts), (StateName::Completed, 2));
    bench.stop().await;
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_worker_lives_on() {
    let mut bench = Bench::new(|builder| {
        builder
            .handler(name("boom"), |_, _| async {
                if true { panic!("the {} broke", "handle") } else { Outcome::Done(None) }
            })
            .handler(name("early"), |_, _| -> std::future::Ready<Outcome> { panic!("before it began") })
            .handler(name("fine"), crate::builtin::echo)
    });
    let (state, attempts, error) = bench.end_of("boom", 1, LONG).await;
    assert_eq!((state, attempts, error.as_str()), (StateName::DeadLetter, 2, "panicked: the handle broke"));
    assert_eq!(bench.end_of("early", 0, LONG).await.2, "panicked: before it began");
    assert_eq!(bench.end_of("fine", 0, LONG).await.0, StateName::Completed);
    bench.stop().await;
}

#[tokio::test]
async fn a_handler_that_overstays_is_dropped() {
    struct Told(Arc<Notify>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::new(Notify::new());
    let tell = dropped.clone();
    let mut bench = Bench::new(|builder| {
        builder.handler(name("slow"), move |_, _| {
            let told = Told(tell.clone());
            async move {
                let _told = told;
                std::future::pending::<Outcome>().await
            }
        })
    });
    let (state, _, error) = bench.end_of("slow", 0, 30).await;
    assert_eq!((state, error.as_str()), (StateName::DeadLetter, "timed out after 0.03 s"));
    dropped.notified().await;
    bench.stop().await;
}

/// Waits until it is told to stop and says why.
fn patient(started: mpsc::UnboundedSender<Context>, causes: mpsc::UnboundedSender<Cause>) -> impl Handler {
    move |context: Context, _: Job| {
        let (started, causes) = (started.clone(), causes.clone());
        async move {
            started.send(context.clone()).unwrap();
            causes.send(context.cancelled().await).unwrap();
            Outcome::Retry { error: "stopped".into() }
        }
    }
}

#[tokio::test]
async fn a_cancelled_task_tells_its_handler() {
    let (started, mut running) = mpsc::unbounded_channel();
    let (causes, mut told) = mpsc::unbounded_channel();
    let mut bench = Bench::new(|builder| builder.handler(name("wait"), patient(started, causes)));
    let id = bench.submit("wait", 3, LONG).await;
    running.recv().await.unwrap();
    bench.broker.cancel(&id).await.unwrap();
    assert_eq!(told.recv().await, Some(Cause::Cancelled));
    assert_eq!(bench.finished(&id).await.record.state_name(), StateName::Cancelled);
    bench.stop().await;
}

#[tokio::test]
async fn a_lost_lease_tells_its_handler() {
    let (started, mut running) = mpsc::unbounded_channel();
    let (causes, mut told) = mpsc::unbounded_channel();
    let mut bench = Bench::new(|builder| builder.handler(name("wait"), patient(started, causes)));
    let id = bench.submit("wait", 3, LONG).await;
    let context = running.recv().await.unwrap();
    // Giving it back behind the worker's back is the same to the worker as a lease that ran out.
    bench.broker.release(&id, context.lease_token(), Some(3_600_000)).await.unwrap();
    assert_eq!(told.recv().await, Some(Cause::LeaseLost));
    bench.stop().await;
    let record = bench.broker.get(&id).await.unwrap().record;
    assert_eq!(
        (record.state_name(), record.attempts),
        (StateName::Scheduled, 0),
        "its outcome changed nothing"
    );
}

#[tokio::test]
async fn draining_waits_then_releases() {
    let (started, mut running) = mpsc::unbounded_channel();
    let (causes, mut told) = mpsc::unbounded_channel();
    let mut bench = Bench::new(|builder| {
        builder
            .handler(name("wait"), patient(started, causes))
            .handler(name("deaf"), |_, _| std::future::pending::<Outcome>())
    });
    let (polite, deaf) = (bench.submit("wait", 3, LONG).await, bench.submit("deaf", 3, LONG).await);
    running.recv().await.unwrap();
    bench.stop().await;
    assert_eq!(told.recv().await, Some(Cause::ShuttingDown));
    for id in [polite, deaf] {
        let record = bench.broker.get(&id).await.unwrap().record;
        assert_eq!((record.state_name(), record.attempts), (StateName::Pending, 0), "{id}");
    }
    assert!(bench.broker.workers().await.is_empty(), "it said that it leaves");
}

#[tokio::test]
async fn no_more_than_the_slots_run_at_once() {
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let watch = (running.clone(), most.clone());
    let handler = move |_: Context, _: Job| {
        let (running, most) = watch.clone();
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Outcome::Done(None)
        }
    };
    let single = handler::Options { concurrency: Some(1), ..handler::Options::default() };
    let mut bench = Bench::new(|builder| {
        builder
            .concurrency(4)
            .handler_with(name("single"), single, handler.clone())
            .handler(name("many"), handler)
    });
    for kind in ["single", "many"] {
        most.store(0, Ordering::SeqCst);
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(bench.submit(kind, 0, LONG).await);
        }
        for id in &ids {
            assert_eq!(bench.finished(id).await.record.state_name(), StateName::Completed);
        }
        let limit = if kind == "single" { 1 } else { 4 };
        assert!((1..=limit).contains(&most.load(Ordering::SeqCst)), "{kind}: {most:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn progress_reaches_the_broker() {
    let (started, mut running) = mpsc::unbounded_channel();
    let (causes, _told) = mpsc::unbounded_channel();
    let mut bench = Bench::new(|builder| builder.handler(name("wait"), patient(started, causes)));
    let mut events = bench.broker.subscribe();
    let id = bench.submit("wait", 3, LONG).await;
    let context = running.recv().await.unwrap();
    context.progress(0.5, Some("half"));
    loop {
        let event = events.recv().await.unwrap();
        if event.kind == windlass_broker::EventKind::Progress {
            break;
        }
    }
    let progress = bench.broker.get(&id).await.unwrap().record.progress.unwrap();
    assert_eq!((progress.fraction, progress.note.as_deref()), (0.5, Some("half")));
    bench.stop().await;
}

#[tokio::test]
async fn the_built_in_handlers_do_what_they_say() {
    let mut bench = Bench::new(|builder| {
        let http = crate::builtin::http::Http::new(Default::default()).unwrap();
        builder
            .handler(name("echo"), crate::builtin::echo)
            .handler(name("sleep"), crate::builtin::sleep)
            .handler(name("fail"), crate::builtin::fail)
            .handler(name("http"), http)
    });
    let id = bench.submit("echo", 0, LONG).await;
    assert_eq!(
        bench.finished(&id).await.record.result,
        Some(Payload::Json(Bytes::from_static(b"{\"n\":1}")))
    );
    for kind in ["sleep", "fail", "http"] {
        let (state, attempts, error) = bench.end_of(kind, 3, LONG).await;
        assert_eq!((state, attempts), (StateName::DeadLetter, 1), "{kind}");
        assert!(error.contains("unknown field `n`"), "{kind}: {error}");
    }
    bench.stop().await;
}

/// A broker whose answers get lost: the call is made, and the caller learns nothing.
#[derive(Debug)]
struct Lossy {
    port: BrokerPort,
    losses: AtomicU32,
}

impl Lossy {
    fn lose<T>(&self, answer: Result<T, port::Error>) -> Result<T, port::Error> {
        match self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(port::Error::Unavailable { detail: "cut".into(), retry_after: None }),
            Err(_) => answer,
        }
    }
}

#[async_trait::async_trait]
impl Port for Lossy {
    async fn claim(&self, claim: port::Claim) -> Result<Vec<Job>, port::Error> {
        self.port.claim(claim).await
    }

    async fn complete(&self, held: &port::Held, result: Option<Payload>) -> Result<(), port::Error> {
        self.lose(self.port.complete(held, result).await)
    }

    async fn fail(&self, held: &port::Held, failed: port::Failed) -> Result<(), port::Error> {
        self.lose(self.port.fail(held, failed).await)
    }

    async fn release(&self, held: &port::Held, delay: Option<Duration>) -> Result<(), port::Error> {
        self.lose(self.port.release(held, delay).await)
    }

    async fn progress(
        &self,
        held: &port::Held,
        progress: windlass_core::Progress,
    ) -> Result<port::Word, port::Error> {
        self.port.progress(held, progress).await
    }

    async fn heartbeat(&self, beat: port::Beat) -> Result<port::Pulse, port::Error> {
        self.port.heartbeat(beat).await
    }
}

#[tokio::test]
async fn an_outcome_is_repeated_until_it_is_answered() {
    let mut bench = Bench::new(|builder| builder.handler(name("other"), crate::builtin::echo));
    let lossy = Arc::new(Lossy { port: BrokerPort::new(bench.broker.clone()), losses: AtomicU32::new(2) });
    let worker =
        Worker::builder(lossy.clone()).options(quick()).handler(name("echo"), crate::builtin::echo).build();
    let shared = worker.shared.clone();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let id = bench.submit("echo", 0, LONG).await;
    let record = bench.finished(&id).await.record;
    assert_eq!((record.state_name(), record.attempts), (StateName::Completed, 1));
    // The slot is free only when the broker's answer has arrived.
    let all = shared.slots.acquire_many(shared.options.concurrency);
    shutdown.cancel();
    running.await.unwrap();
    drop(all.await.unwrap());
    assert_eq!(lossy.losses.load(Ordering::SeqCst), 0, "both losses were met");
    assert!(shared.held.lock().is_empty());
    bench.stop().await;
}
