//! Claims tasks, holds some of them over restarts, and reports each until it is told what became of the report.

use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{Client, LEASE, Line, Phase};
use crate::history::{Delivery, Plan};

pub(super) async fn run(mut client: Client, number: usize, mut random: StdRng) {
    let mut line = Line::default();
    let mut claim = json!({
        "worker_id": format!("w{number}"), "max": 4, "wait_seconds": 0.2, "lease_seconds": LEASE.as_secs(),
    });
    if number % 2 == 1 {
        // All tasks are of it, but stores may serve those who say so by another way.
        claim["types"] = json!(["proof"]);
    }
    loop {
        let Some(_busy) = client.begin(&[Phase::Work, Phase::Drain]).await else { return };
        let Some(life) = client.life().await else { return };
        match line.to(life).post("/api/v1/claim", &claim).await {
            Ok(answer) if answer.status == 200 => {
                let claimed = Instant::now();
                let tasks = answer.body["tasks"].as_array().cloned().unwrap_or_default();
                let held: Vec<Held> =
                    tasks.iter().filter_map(|task| Held::read(&client, task, claimed)).collect();
                for held in held {
                    // The drain has nothing to meet any more, so it need not take its time.
                    if *client.phase.borrow() == Phase::Work && random.random_bool(0.3) {
                        let work = Duration::from_millis(random.random_range(0..200));
                        // sleep: the work, during which a broker may die.
                        tokio::time::sleep(work).await;
                    }
                    if held.report(&mut client, &mut line, life.number).await.is_none() {
                        return;
                    }
                }
            }
            Ok(answer) if answer.status == 503 => {
                // sleep: a broker that stops says so at once and again.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(answer) => {
                let words = format!("unexpected: a claim answered {}: {}", answer.status, answer.body);
                client.history.surprise(words);
            }
            Err(_) => {
                client.history.unanswered();
                // sleep: the harness is about to say that this life is over.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// A task in the hands of a worker.
#[derive(Debug)]
struct Held {
    id: String,
    plan: Plan,
    delivery: Delivery,
    claimed: Instant,
    /// Failures of the handler before this attempt.
    failed_before: bool,
}

impl Held {
    fn read(client: &Client, task: &Value, claimed: Instant) -> Option<Held> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let read = || {
            let delivery = Delivery { attempt: task["attempts"].as_u64()?, lease: word(&task["lease"])? };
            Some((word(&task["id"])?, Plan::parse(task["payload"]["plan"].as_str()?)?, delivery))
        };
        let Some((id, plan, delivery)) = read() else {
            client.history.surprise(format!("unexpected: a claim gave out {task}"));
            return None;
        };
        client.history.tell(&id, |story| story.deliveries.push(delivery.clone()));
        let failures = delivery.attempt.saturating_sub(task["crashes"].as_u64().unwrap_or_default());
        Some(Held { id, plan, delivery, claimed, failed_before: failures > 1 })
    }

    /// `None` when the run is over.
    async fn report(&self, client: &mut Client, line: &mut Line, claimed_in: u64) -> Option<()> {
        let lease = &self.delivery.lease;
        let fails = self.plan == Plan::Dead || (self.plan == Plan::FailOnce && !self.failed_before);
        let (verb, body) = if fails {
            let retryable = self.plan == Plan::FailOnce;
            ("fail", json!({"lease": lease, "error": "as planned", "retryable": retryable}))
        } else {
            ("complete", json!({"lease": lease, "result": {"attempt": self.delivery.attempt}}))
        };
        let path = format!("/api/v1/tasks/{}/{verb}", self.id);
        loop {
            let life = client.life().await?;
            match line.to(life).post(&path, &body).await {
                Ok(answer) if answer.status == 200 => {
                    if life.number != claimed_in {
                        client.history.survived();
                    }
                    let delivery = self.delivery.clone();
                    client.history.tell(&self.id, |story| {
                        if fails { story.failed.push(delivery) } else { story.completed.push(delivery) }
                    });
                    return Some(());
                }
                Ok(answer) if answer.status == 503 => {
                    // sleep: a broker that stops says so at once and again.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(answer) => {
                    // A restart gives a fresh window, so a lease holds at least this long after the later of the two.
                    let held = self.claimed.max(life.since).elapsed();
                    let lost = answer.status == 409 && answer.code() == "lease_lost";
                    if !(lost && (self.plan == Plan::Cancel || held > LEASE)) {
                        let words = format!(
                            "unexpected: {verb} of {} by a living worker answered {}: {} ({held:?} into its lease)",
                            self.id, answer.status, answer.body
                        );
                        client.history.surprise(words);
                    }
                    return Some(());
                }
                Err(_) => {
                    client.history.unanswered();
                    // sleep: the harness is about to say that this life is over.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
    }
}
