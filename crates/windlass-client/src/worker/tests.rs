//! The runtime on a real broker in the same process.

mod checkpoints;
mod layers;
mod lossy;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, ListWorkers, Settings, Start, Submit};
use windlass_core::{Name, Payload, Priority, StateName, Task, TaskId, limits, retry};
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
        let builder = Worker::builder(BrokerPort::new(broker.clone())).options(quick());
        let shutdown = CancellationToken::new();
        let worker = tokio::spawn(handlers(builder).build().unwrap().run(shutdown.clone()));
        Self { broker, shutdown, worker: Some(worker) }
    }

    async fn submit(&self, kind: &str, max_retries: u32, timeout_ms: u64) -> TaskId {
        let policy = retry::Policy { initial_ms: 1, ..retry::Policy::default() };
        let submit = Submit {
            id: None,
            queue: name("default"),
            kind: name(kind),
            key: None,
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
            unique: None,
            fingerprint: None,
            links: None,
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
    #[derive(serde::Deserialize)]
    struct Input {
        n: u32,
    }
    async fn sum(_: Context, input: Input) -> Result<u32, Failure> {
        Ok(input.n + 1)
    }
    async fn wrong(_: Context, list: Vec<u32>) -> Result<usize, Failure> {
        Ok(list.len())
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
        builder.handler("sum", sum).handler("wrong", wrong).handler("broken", broken).handler("later", later)
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
            .handler("boom", |_: Context, _: Job| async {
                if true { panic!("the {} broke", "handle") } else { Outcome::Done(None) }
            })
            .handler("early", |_: Context, _: Job| -> std::future::Ready<Outcome> {
                panic!("before it began")
            })
            .handler("fine", crate::builtin::echo)
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
        builder.handler("slow", move |_: Context, _: Job| {
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
    let mut bench = Bench::new(|builder| builder.handler("wait", patient(started, causes)));
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
    let mut bench = Bench::new(|builder| builder.handler("wait", patient(started, causes)));
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
            .handler("wait", patient(started, causes))
            .handler("deaf", |_: Context, _: Job| std::future::pending::<Outcome>())
    });
    let (polite, deaf) = (bench.submit("wait", 3, LONG).await, bench.submit("deaf", 3, LONG).await);
    running.recv().await.unwrap();
    bench.stop().await;
    assert_eq!(told.recv().await, Some(Cause::ShuttingDown));
    for id in [polite, deaf] {
        let record = bench.broker.get(&id).await.unwrap().record;
        assert_eq!((record.state_name(), record.attempts), (StateName::Pending, 0), "{id}");
    }
    assert!(bench.broker.workers(ListWorkers::default()).await.workers.is_empty(), "it said that it leaves");
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
        builder.concurrency(4).handler_with("single", single, handler.clone()).handler("many", handler)
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
    let mut bench = Bench::new(|builder| builder.handler("wait", patient(started, causes)));
    let mut events = bench.broker.subscribe();
    let id = bench.submit("wait", 3, LONG).await;
    let context = running.recv().await.unwrap();
    context.progress(0.5, Some("half"));
    loop {
        if let windlass_broker::Heard::Event(event) = events.recv().await
            && event.kind == windlass_broker::EventKind::Progress
        {
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
            .handler("echo", crate::builtin::echo)
            .handler("sleep", crate::builtin::sleep)
            .handler("fail", crate::builtin::fail)
            .handler("http", http)
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

#[test]
fn a_worker_with_a_mistake_is_not_built() {
    let clock = SystemClock::shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());
    let builder = || Worker::builder(BrokerPort::new(broker.clone()));
    assert_eq!(builder().build().unwrap_err(), InvalidWorker::TooManyNames);
    let greedy = handler::Options { concurrency: Some(CONCURRENCY_MAX), ..handler::Options::default() };
    let greedy = builder().handler_with("a", greedy, crate::builtin::echo).handler("b", crate::builtin::echo);
    let slots = u64::from(CONCURRENCY_MAX) + 10;
    assert_eq!(greedy.build().unwrap_err(), InvalidWorker::TooManySlots(slots));
    let wrong = builder().handler("a b", crate::builtin::echo).id("x").build().unwrap_err();
    assert_eq!(wrong.to_string(), "\"a b\": may contain only A-Z a-z 0-9 . _ : -");
}
