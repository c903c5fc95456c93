//! What limits promise, seen from beside: not by the counters that they are decided by, but by the order of running tasks and
//! the number of claims.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::http::Http;
use crate::proof::Trouble;

/// Tasks of the queue that may run at once; there are workers for several times as many.
const RUNNING_MAX: u64 = 6;
/// Of one key.
const KEY_MAX: u64 = 2;
/// Starts in a second.
const RATE: u64 = 400;
/// How many tasks somebody holds: those that were claimed together are one member, from the first to the last.
const RUNNING: &str = "EVAL \"local sum = 0 for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
    local first, last = string.match(member, '^(%d+)[+](%d+) ') sum = sum + last - first + 1 end return sum\" \
    1 {windlass}:held";
/// A call may be under way for a moment, and counts when it was sent.
const SLACK: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Sets the limits, by a broker.
pub(super) async fn set(http: &mut Http) -> Result<(), Trouble> {
    let limits = [
        ("queue/default", json!({"max_concurrency": RUNNING_MAX, "rate": {"count": RATE, "per_seconds": 1}})),
        ("key/k1", json!({"max_concurrency": KEY_MAX})),
    ];
    for (limit, body) in limits {
        let answer = http.call(Method::PUT, &format!("/api/v1/limits/{limit}"), Some(&body)).await?;
        if !answer.is_success() {
            let words = format!("the limit {limit} was answered {}: {}", answer.status, answer.body);
            return Err(Trouble::failed(words));
        }
    }
    Ok(())
}

/// Looks at Redis again and again, until it is told to stop.
#[derive(Debug)]
pub(super) struct Watch {
    looking: JoinHandle<Result<Seen, Trouble>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) struct Seen {
    looks: u64,
    most: u64,
    starts: u64,
    took: Duration,
}

impl Watch {
    pub(super) fn start(port: u16) -> Watch {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let looking = tokio::spawn(async move {
            let mut redis = Line::open(port).await?;
            let began = Instant::now();
            let mut seen = Seen { looks: 0, most: 0, starts: 0, took: Duration::ZERO };
            while stopped.try_recv().is_err() {
                seen.looks += 1;
                seen.most = seen.most.max(redis.number(RUNNING).await?);
                seen.starts = redis.number("HGET {windlass}:meta claims").await?;
                seen.took = began.elapsed();
                // sleep: between two looks, so that Redis has time for others.
                tokio::time::sleep(PAUSE).await;
            }
            Ok(seen)
        });
        Watch { looking, stop }
    }

    pub(super) async fn end(self) -> Result<Seen, Trouble> {
        let _ = self.stop.send(());
        self.looking.await.map_err(|error| Trouble::failed(error.to_string()))?
    }
}

impl Seen {
    pub(super) fn exceeds(&self) -> bool {
        self.most > RUNNING_MAX
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.exceeds() {
            wrong.push(format!("{} tasks ran at once under a limit of {RUNNING_MAX}", self.most));
        }
        let fair = RATE * ((self.took + SLACK).as_secs() + 1);
        if self.starts > fair {
            wrong.push(format!("{} starts in {:?} under a rate of {RATE} a second", self.starts, self.took));
        }
        if self.most < RUNNING_MAX {
            wrong.push(format!("never more than {} of {RUNNING_MAX} ran, so nothing is shown", self.most));
        }
        wrong
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen { looks, most, starts, .. } = self;
        write!(f, "at most {most} of {RUNNING_MAX} ran at {looks} looks, {starts} starts")
    }
}

/// After the drain nothing waits or runs, so nothing may be counted and no key have a turn.
pub(super) async fn left_over(port: u16) -> Result<Vec<String>, Trouble> {
    let mut redis = Line::open(port).await?;
    let mut wrong = Vec::new();
    let questions = [
        "HLEN {windlass}:running",
        "HLEN {windlass}:waiting",
        "ZCARD {windlass}:leases",
        "HGET {windlass}:queue/default 3",
        "EXISTS {windlass}:rounds/default {windlass}:rounds/default/proof {windlass}:parties/default",
        "EXISTS {windlass}:tops/default {windlass}:ranks/default/proof {windlass}:shut/2/k1",
        "EXISTS {windlass}:shares/k0 {windlass}:shares/k1 {windlass}:shares/k2 {windlass}:shares/k3",
    ];
    for question in questions {
        let left = redis.number(question).await?;
        if left != 0 {
            wrong.push(format!("after the drain {question} says {left}"));
        }
    }
    Ok(wrong)
}

/// One connection to Redis, for questions that are answered with a number.
struct Line(BufReader<TcpStream>);

impl Line {
    async fn open(port: u16) -> Result<Line, Trouble> {
        Ok(Line(BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?)))
    }

    async fn number(&mut self, question: &str) -> Result<u64, Trouble> {
        self.0.get_mut().write_all(format!("{question}\r\n").as_bytes()).await?;
        let mut answer = self.word().await?;
        if let Some(length) = answer.strip_prefix('$') {
            answer = if length == "-1" { ":0".to_owned() } else { format!(":{}", self.word().await?) };
        }
        let number = answer.strip_prefix(':').and_then(|number| number.parse().ok());
        number.ok_or_else(|| Trouble::failed(format!("{question} was answered {answer}")))
    }

    async fn word(&mut self) -> Result<String, Trouble> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    }
}
