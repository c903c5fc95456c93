//! Ten thousand tasks whose handlers fail, panic, dawdle, are cancelled and overstay, while the broker is killed and
//! comes back: every one of them ends as it should, and none twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use windlass_client::rest::Filter;
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Builder, Cause, Context, Failure, Outcome, Worker};
use windlass_client::{CancellationToken, Client, Submit};
use windlass_core::{StateName, TaskId, retry};

use super::broker::Broker;

const TASKS: usize = 10_000;
/// Attempts before the broker is killed.
const KILL_AFTER: u64 = 4_000;
const ON_PURPOSE: &str = "on purpose";

/// Of every hundred tasks: how many, of which type, and how they must end.
const KINDS: [(usize, &str, StateName); 8] = [
    (70, "fine", StateName::Completed),
    (8, "flaky", StateName::Completed),
    (5, "panics_once", StateName::Completed),
    (6, "slow", StateName::Completed),
    (4, "hopeless", StateName::DeadLetter),
    (3, "fatal", StateName::DeadLetter),
    (2, "overstays", StateName::DeadLetter),
    (2, "cancelled", StateName::Cancelled),
];

fn kind(n: usize) -> &'static str {
    let mut place = n % 100;
    for (count, kind, _) in KINDS {
        match place.checked_sub(count) {
            Some(left) => place = left,
            None => return kind,
        }
    }
    unreachable!("the counts add up to a hundred")
}

fn submit(n: usize) -> Submit {
    let soon = retry::Policy { initial_ms: 5, max_ms: 50, ..retry::Policy::default() };
    let submit = Submit::new(kind(n), &n).unwrap().retry(soon);
    match kind(n) {
        // A kill of the broker may cost an attempt of these too, so only their own end counts.
        "overstays" => submit.timeout(Duration::from_millis(50)).max_retries(1),
        "hopeless" => submit.max_retries(2),
        _ => submit.max_retries(10),
    }
}

/// The panics of this test are meant; five hundred traces of them would only hide others.
fn hush() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(ON_PURPOSE) {
            loud(panic);
        }
    }));
}

#[derive(Debug, Default)]
struct Seen {
    attempts: AtomicU64,
    many: Notify,
    told: AtomicU64,
}

fn handlers(builder: Builder, seen: &Arc<Seen>, started: mpsc::UnboundedSender<TaskId>) -> Builder {
    let count = seen.clone();
    let counting = windlass_client::worker::around(move |context, job, next| {
        if count.attempts.fetch_add(1, Ordering::SeqCst) + 1 == KILL_AFTER {
            count.many.notify_one();
        }
        next.run(context, job)
    });
    let told = seen.clone();
    builder
        .layer(counting)
        .handler("fine", |_: Context, n: usize| async move { Outcome::ok(n) })
        .handler("flaky", |context: Context, n: usize| async move {
            if context.attempt() == 1 { Err(Failure::retry("the first time never works")) } else { Ok(n) }
        })
        .handler("panics_once", |context: Context, n: usize| async move {
            assert!(context.attempt() > 1, "{ON_PURPOSE}");
            Outcome::ok(n)
        })
        .handler("slow", |_: Context, n: usize| async move {
            // sleep: this handler is slow; nobody waits for it by the clock.
            tokio::time::sleep(Duration::from_millis(30)).await;
            Outcome::ok(n)
        })
        .handler("hopeless", |_: Context, _: usize| async { Outcome::retry("never works") })
        .handler("fatal", |_: Context, _: usize| async { Outcome::fatal("cannot work") })
        .handler("overstays", |_: Context, _: usize| std::future::pending::<Outcome>())
        .handler("cancelled", move |context: Context, _: usize| {
            let (started, told) = (started.clone(), told.clone());
            async move {
                let _ = started.send(context.task_id().clone());
                if context.cancelled().await == Cause::Cancelled {
                    told.told.fetch_add(1, Ordering::SeqCst);
                }
                Outcome::retry("told to stop")
            }
        })
}

/// Cancels what it hears of, whatever becomes of the broker meanwhile.
async fn cancel_all(client: Client, mut started: mpsc::UnboundedReceiver<TaskId>) {
    while let Some(id) = started.recv().await {
        while let Err(error) = client.cancel(&id).await {
            if error.code() == Some("task_terminal") {
                break;
            }
            assert!(error.may_pass(), "{error}");
            // sleep: the broker is away for a moment; its return has no signal here.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits for the end of one live task after the other, until there is none.
async fn all_ended(broker: &Broker, client: &Client) {
    let rest = broker.rest();
    for state in ["scheduled", "pending", "retrying", "running"] {
        loop {
            let one = Filter { state: Some(state.into()), limit: Some(1), ..Filter::default() };
            let Some(task) = rest.tasks(&one).await.unwrap().items.pop() else { break };
            let ended = client.wait(&task.id, Duration::from_secs(120)).await.unwrap();
            assert!(ended.state.is_terminal(), "{ended:?}");
        }
    }
}

/// How many tasks of each type are in each state, counted one by one.
async fn tally(broker: &Broker) -> HashMap<(String, StateName), usize> {
    let mut tally = HashMap::new();
    let mut filter = Filter { limit: Some(1000), ..Filter::default() };
    loop {
        let page = broker.rest().tasks(&filter).await.unwrap();
        for task in &page.items {
            *tally.entry((task.kind.to_string(), task.state)).or_default() += 1;
        }
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            return tally;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_end_as_they_should_while_the_broker_is_killed() {
    hush();
    let mut broker = Broker::start();
    let client = broker.client().patience(Duration::from_secs(60));
    let seen = Arc::new(Seen::default());
    let (started, running) = mpsc::unbounded_channel();
    let cancelling = tokio::spawn(cancel_all(client.clone(), running));
    let builder = Worker::builder(GrpcPort::new(&broker.grpc).unwrap()).concurrency(300);
    let worker = handlers(builder, &seen, started).build().unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));

    let batch: Vec<Submit> = (0..TASKS).map(submit).collect();
    let producer = client.clone();
    let submitting = tokio::spawn(async move { producer.submit_batch(&batch).await });
    seen.many.notified().await;
    broker.kill();
    broker.restart();
    for answer in submitting.await.unwrap().unwrap() {
        answer.unwrap();
    }
    // Twice, because what retries may be pending when the others have ended.
    all_ended(&broker, &client).await;
    all_ended(&broker, &client).await;
    stop.cancel();
    working.await.unwrap();
    cancelling.await.unwrap();

    let expected: HashMap<_, _> =
        KINDS.iter().map(|(count, kind, state)| ((kind.to_string(), *state), count * TASKS / 100)).collect();
    assert_eq!(tally(&broker).await, expected, "every task is there and ended as it should");
    let stats = broker.rest().stats().await.unwrap();
    let completed: usize =
        KINDS.iter().filter(|kind| kind.2 == StateName::Completed).map(|kind| kind.0).sum();
    assert_eq!(stats.ledger.completed as usize, completed * TASKS / 100, "nothing was completed twice");
    assert_eq!(stats.ledger.submitted as usize, TASKS, "nothing was submitted twice");
    assert!(seen.told.load(Ordering::SeqCst) > 0, "handlers of cancelled tasks are told");
}
