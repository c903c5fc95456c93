//! A worker of library mode as a process of its own, to be killed: a broker without an interface, straight on Redis.
//!
//! It says on its output what it was given and, once that is answered, how it ended each task. It stops when its input ends.
//! A hasty one says that a task is done before it has asked, and forgets to ask at first attempts: a broken worker that shows
//! that the judge sees one.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::ValueExt;
use rand::Rng;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use windlass_broker::{Broker, ClaimRequest, Error, Failed, Finish, Settings, Verdict};
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, State, Task, Token};
use windlass_store::SystemClock;
use windlass_store::redis::{Options, RedisStore};

use crate::history::{Delivery, History, Plan};
use crate::load::LEASE;
use crate::proof::Trouble;
use crate::report;

/// What it says first.
const READY: &str = "ready";
/// Far beyond any start on a machine that is merely slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the process is told on its command line.
#[derive(Debug)]
pub(crate) struct Library {
    url: String,
    name: String,
    hasty: bool,
}

impl Library {
    pub(crate) fn read(parser: &mut lexopt::Parser) -> Result<Library, lexopt::Error> {
        let mut next = || parser.value().and_then(|value| value.string());
        let (url, name, pace) = (next()?, next()?, next()?);
        Ok(Library { url, name, hasty: pace == "hasty" })
    }
}

/// The whole life of the process.
pub(crate) async fn work(library: Library) -> ExitCode {
    let mut input = tokio::io::stdin();
    tokio::select! {
        ended = library.run() => match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report::refuse(&error),
        },
        _ = input.read_u8() => ExitCode::SUCCESS,
    }
}

impl Library {
    async fn run(&self) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let clock = SystemClock::shared();
        let options = Options::parse(&self.url).map_err(|error| words(&error))?;
        let store = RedisStore::open(options, Arc::clone(&clock)).await.map_err(|error| words(&error))?;
        let broker = Broker::start(store, clock, Settings::default());
        let name = |text: &str| Name::new(text).map_err(|error| error.to_string());
        let (worker, queue, kind) = (name(&self.name)?, name("default")?, name("proof")?);
        report::tell(READY);
        loop {
            let request = ClaimRequest {
                worker: worker.clone(),
                queues: vec![Queue { name: queue.clone(), weight: 1 }],
                mode: Mode::Weighted,
                // Of one queue and one type, and many: so they come in runs.
                types: Some(vec![kind.clone()]),
                max: 20,
                wait_ms: 1000,
                lease_ms: Some(LEASE.as_millis() as u64),
            };
            // While Redis is away there is nothing to claim, and a call takes its time to say so.
            let Ok(tasks) = broker.claim(request).await else { continue };
            let held: Vec<Held> = tasks.iter().filter_map(Held::of).collect();
            held.iter().for_each(|held| held.say("given"));
            for some in split(held) {
                if rand::rng().random_bool(0.5) {
                    let work = Duration::from_millis(rand::rng().random_range(0..200));
                    // sleep: the work, during which this process may be killed.
                    tokio::time::sleep(work).await;
                }
                report(&broker, some, self.hasty).await?;
            }
        }
    }
}

/// A task in its hands.
#[derive(Debug)]
struct Held {
    task: Task,
    plan: Plan,
    token: Token,
}

impl Held {
    fn of(task: &Task) -> Option<Held> {
        let State::Running(lease) = &task.record.state else { return None };
        let payload: serde_json::Value = serde_json::from_slice(task.body.payload.bytes()).ok()?;
        let plan = Plan::parse(payload["plan"].as_str()?)?;
        Some(Held { plan, token: lease.token, task: task.clone() })
    }

    fn say(&self, word: &str) {
        let (record, token) = (&self.task.record, self.token);
        report::tell(&format!(
            "{word} {} {} {}-{:x}",
            record.id, record.attempts, token.number, token.secret
        ));
    }

    fn fails(&self) -> bool {
        let record = &self.task.record;
        let failed_before = record.attempts.saturating_sub(record.crashes) > 1;
        self.plan == Plan::Dead || (self.plan == Plan::FailOnce && !failed_before)
    }

    fn finish(&self) -> Finish {
        let verdict = if self.fails() {
            let retryable = self.plan == Plan::FailOnce;
            Verdict::Failed(Failed { error: "as planned".into(), retryable, retry_after_ms: None })
        } else {
            Verdict::Completed { result: None }
        };
        Finish { id: self.task.record.id.clone(), token: self.token, verdict }
    }
}

/// Into parts of random lengths, which are reported together.
fn split(held: Vec<Held>) -> Vec<Vec<Held>> {
    let mut parts: Vec<Vec<Held>> = vec![Vec::new()];
    for one in held {
        if rand::rng().random_bool(0.1) {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(one);
        }
    }
    parts
}

/// Reports are made until somebody answers.
async fn report(broker: &Broker, mut held: Vec<Held>, hasty: bool) -> Result<(), String> {
    if hasty {
        for one in held.iter().filter(|one| !one.fails()) {
            one.say("completed");
        }
        held.retain(|one| one.fails() || one.task.record.attempts > 1);
    }
    while !held.is_empty() {
        let Ok(answers) = broker.finish_all(held.iter().map(Held::finish).collect()).await else { continue };
        let mut left = Vec::new();
        for (one, answer) in held.into_iter().zip(answers) {
            match answer {
                Ok(_) => one.say(if one.fails() { "failed" } else { "completed" }),
                // It was cancelled, or held for too long. That one is gone is for the judge to see.
                Err(Error::LeaseLost | Error::Terminal(_) | Error::NotFound(_)) => {}
                Err(Error::Store(_) | Error::Busy) => left.push(one),
                Err(error) => return Err(format!("{} cannot be reported: {error}", one.task.record.id)),
            }
        }
        held = left;
    }
    Ok(())
}

/// The process from outside.
#[derive(Debug)]
pub(crate) struct Hand {
    child: Child,
    input: Option<ChildStdin>,
    reading: JoinHandle<()>,
}

impl Hand {
    /// Starts one and waits until it works; what it says goes into the history.
    pub(crate) async fn start(
        url: &str,
        name: &str,
        hasty: bool,
        history: Arc<History>,
    ) -> Result<Hand, Trouble> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["child-library", url, name, if hasty { "hasty" } else { "honest" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::failed("a library has no pipes"));
        };
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        if !matches!(&first, Ok(Ok(Some(line))) if line == READY) {
            return Err(Trouble::failed(format!("a library did not start: {first:?}")));
        }
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                note(&history, &line);
            }
        });
        Ok(Hand { child, input: Some(input), reading })
    }

    /// SIGKILL; what it said until then is noted before this answers.
    pub(crate) async fn kill(mut self) -> Result<(), Trouble> {
        if let Some(status) = self.child.try_wait()? {
            return Err(Trouble::failed(format!("a library worker ended by itself: {status}")));
        }
        self.child.kill().await?;
        self.noted().await
    }

    /// Lets it end: its input is over.
    pub(crate) async fn stop(mut self) -> Result<(), Trouble> {
        self.input = None;
        self.child.wait().await?;
        self.noted().await
    }

    async fn noted(self) -> Result<(), Trouble> {
        self.reading.await.map_err(|error| Trouble::failed(error.to_string()))
    }
}

fn note(history: &History, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let &[word, id, attempt, lease] = words.as_slice() else {
        return history.surprise(format!("unexpected: a library said {line:?}"));
    };
    let delivery = Delivery { attempt: attempt.parse().unwrap_or_default(), lease: lease.to_owned() };
    history.tell(id, |story| match word {
        "given" => story.deliveries.push(delivery),
        "completed" => story.completed.push(delivery),
        _ => story.failed.push(delivery),
    });
}
