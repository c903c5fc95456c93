//! Clients that behave: they submit one task at a time under ids of their own, and repeat what is refused or not answered.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use rand::Rng;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ANSWER_WITHIN;
use crate::audit::expect;
use crate::frames::Frames;
use crate::http::{Answer, Http, NoAnswer};
use crate::proof::{Run, Trouble};
use crate::server::Server;

const CLIENTS: usize = 16;
/// Every fourth client has tasks of this size: too large to come with one read.
const MEDIUM_BYTES: usize = 150_000;
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Between two submits of a client.
const PAUSE_MS: std::ops::Range<u64> = 5..50;
/// How long a client waits for an answer before it asks again.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long one is waited for before it counts as not answered at all.
const GIVEN_UP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Honest {
    clients: JoinSet<Served>,
    over: CancellationToken,
}

/// How clients were served.
#[derive(Debug, Default)]
pub(super) struct Served {
    accepted: Vec<String>,
    refused: u64,
    broken: u64,
    unanswered: u64,
    slowest: Duration,
    late: Vec<String>,
    surprises: Vec<String>,
}

enum Way {
    Rest(Http),
    Frames(Frames),
}

impl Honest {
    pub(super) fn start(run: &Run, server: &Server) -> Result<Honest, Trouble> {
        let frames = server.frames().ok_or_else(|| Trouble::failed("the broker has no frames"))?;
        let mut honest = Honest { clients: JoinSet::new(), over: CancellationToken::new() };
        for number in 0..CLIENTS {
            let way = match number % 2 {
                0 => Way::Rest(Http::new(server.address())),
                _ => Way::Frames(Frames::new(frames)),
            };
            let random = run.random(&format!("G18 client {number}"));
            honest.clients.spawn(submit_all(number, way, random, honest.over.clone()));
        }
        Ok(honest)
    }

    pub(super) async fn finish(self) -> Served {
        self.over.cancel();
        let mut all = Served::default();
        for mut served in self.clients.join_all().await {
            all.accepted.append(&mut served.accepted);
            all.refused += served.refused;
            all.broken += served.broken;
            all.unanswered += served.unanswered;
            all.slowest = all.slowest.max(served.slowest);
            all.late.append(&mut served.late);
            all.surprises.append(&mut served.surprises);
        }
        all
    }
}

async fn submit_all(number: usize, mut way: Way, mut random: impl Rng, over: CancellationToken) -> Served {
    let mut served = Served::default();
    let payload = "x".repeat(if number % 4 == 3 { MEDIUM_BYTES } else { 200 });
    for count in 0.. {
        if over.is_cancelled() {
            break;
        }
        let id = format!("h{number}-{count}");
        let body = json!({"id": id, "type": "honest", "queue": "honest", "payload": payload});
        let began = Instant::now();
        loop {
            match tokio::time::timeout(PATIENCE, way.submit(&body)).await {
                Ok(Ok(answer)) if answer.is_success() => {
                    served.accepted.push(id);
                    break;
                }
                Ok(Ok(answer)) if answer.status != 503 => {
                    let Answer { status, body } = answer;
                    served.surprises.push(format!("a submit was answered {status}: {body}"));
                }
                Ok(Ok(_)) => served.refused += 1,
                Ok(Err(_)) => served.broken += 1,
                Err(_) => served.unanswered += 1,
            }
            if began.elapsed() > GIVEN_UP {
                served.surprises.push(format!("{id} was never answered"));
                break;
            }
            // sleep: as the answer asks for, more or less.
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        served.slowest = served.slowest.max(began.elapsed());
        if began.elapsed() > ANSWER_WITHIN {
            served.late.push(format!("h{number}-{count} took {:.1} s", began.elapsed().as_secs_f64()));
        }
        // sleep: the pace of a client.
        tokio::time::sleep(Duration::from_millis(random.random_range(PAUSE_MS))).await;
    }
    served
}

impl Way {
    async fn submit(&mut self, body: &serde_json::Value) -> Result<Answer, NoAnswer> {
        match self {
            Way::Rest(http) => http.post("/api/v1/tasks", body).await,
            Way::Frames(frames) => frames.submit(body).await,
        }
    }
}

impl Served {
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.surprises.iter().take(5).cloned().collect();
        if let Some(late) = self.late.first() {
            let (within, count) = (ANSWER_WITHIN.as_secs(), self.late.len());
            complaints
                .push(format!("{count} submits of clients that behave took longer than {within} s: {late}"));
        }
        if self.accepted.is_empty() {
            complaints.push("no client that behaves was served".to_owned());
        }
        complaints
    }

    /// Tasks that were acknowledged and are not there.
    pub(super) async fn lost(&self, http: &mut Http) -> Result<usize, Trouble> {
        let (mut there, mut cursor) = (HashSet::new(), String::new());
        loop {
            let path = format!("/api/v1/tasks?queue=honest&limit=1000&cursor={cursor}");
            let page = expect(http, &path).await?;
            let ids = page["items"].as_array().into_iter().flatten();
            there.extend(ids.filter_map(|task| task["id"].as_str().map(str::to_owned)));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        Ok(self.accepted.iter().filter(|id| !there.contains(*id)).count())
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accepted, slowest) = (self.accepted.len(), self.slowest.as_secs_f64());
        let Served { refused, broken, unanswered, .. } = self;
        write!(
            f,
            "{CLIENTS} clients: {accepted} submits, the slowest {slowest:.1} s, repeated after {refused} refusals, {broken} broken \
             connections and {unanswered} timeouts"
        )
    }
}
