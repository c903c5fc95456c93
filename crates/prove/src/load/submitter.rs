//! Submits tasks of every plan, and cancels some.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{Client, Line, Over, Phase};
use crate::history::{Known, Plan};

/// Keys of tasks; one more part of them has none.
const KEYS: u64 = 4;

pub(super) async fn run(mut client: Client, name: String, over: Over, keyed: bool, mut random: StdRng) {
    let mut line = Line::default();
    for count in 0_u64.. {
        let Some(_busy) = client.begin(&[Phase::Work]).await else { return };
        let id = format!("{name}-{count}");
        let plan = match random.random_range(0..100) {
            0..70 => Plan::Complete,
            70..80 => Plan::Delayed,
            80..88 => Plan::FailOnce,
            88..94 => Plan::Dead,
            _ => Plan::Cancel,
        };
        client.history.begin(&id, plan);
        let insists = random.random_bool(0.5);
        let key = Some(count % (KEYS + 1)).filter(|number| keyed && *number < KEYS);
        let body = body(&id, plan, key);
        if submit(&mut client, (&mut line, over), &id, &body, insists).await.is_none() {
            return;
        }
        if plan == Plan::Cancel {
            cancel(&mut client, &mut line, &id).await;
        }
        let pause = Duration::from_micros(random.random_range(0..4000));
        // sleep: sets the pace, so that a kill meets requests in every stage.
        tokio::time::sleep(pause).await;
    }
}

fn body(id: &str, plan: Plan, key: Option<u64>) -> Value {
    let mut body = json!({
        "id": id, "type": "proof", "payload": {"plan": plan.as_str()},
        "priority": (id.len() * 37) % 256, "max_crashes": 1000,
        "retry": {"policy": "fixed", "initial_ms": 20, "jitter": 0.0},
    });
    if plan == Plan::Delayed {
        body["delay_seconds"] = json!(0.05);
    }
    if let Some(key) = key {
        body["key"] = json!(format!("k{key}"));
    }
    body
}

/// `None` when the run is over.
async fn submit(
    client: &mut Client,
    (line, over): (&mut Line, Over),
    id: &str,
    body: &Value,
    insists: bool,
) -> Option<()> {
    loop {
        let life = client.life().await?;
        match line.submit(life, over, body).await {
            Ok(answer) if answer.is_success() => {
                client.history.tell(id, |story| story.submit = Known::Acknowledged);
                return Some(());
            }
            // It told that it does not take anything now, so nothing was taken.
            Ok(answer) if answer.status == 503 => {
                // sleep: a broker that stops says so at once and again.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(answer) => {
                let words = format!("unexpected: submit of {id} answered {}: {}", answer.status, answer.body);
                client.history.surprise(words);
                client.history.tell(id, |story| story.submit = Known::Refused);
                return Some(());
            }
            Err(_) => {
                client.history.unanswered();
                if !insists {
                    return Some(());
                }
                // sleep: the harness is about to say that this life is over.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// Asks once. Whoever gets no answer does not know.
async fn cancel(client: &mut Client, line: &mut Line, id: &str) {
    let Some(life) = client.life().await else { return };
    match line.to(life).post(&format!("/api/v1/tasks/{id}/cancel"), &json!({})).await {
        Ok(answer) if answer.status == 200 => {
            client.history.tell(id, |story| story.cancel = Known::Acknowledged);
        }
        Ok(answer) => {
            let unknown = client.history.tell(id, |story| story.submit != Known::Acknowledged);
            let fair = matches!((answer.status, answer.code()), (409, "task_terminal") | (503, _))
                || (answer.status == 404 && unknown);
            if !fair {
                let words = format!("unexpected: cancel of {id} answered {}: {}", answer.status, answer.body);
                client.history.surprise(words);
            }
        }
        Err(_) => client.history.unanswered(),
    }
}
