//! G10: clients repeat their submits through a proxy that cuts off answers, while the broker is killed now and then. By id, by
//! `Idempotency-Key` and by unique key there is one task for each in the end, however often it was submitted.
//!
//! What counts is the tasks that are there: each carries what it stands for in its payload, which does not care how the broker
//! tells them apart. A submit counts as repeated in earnest only if the broker had the first one already: it says so by
//! answering 200 instead of 201.
//!
//! Mutant: a few clients submit with neither an id nor a key. There must be tasks twice among theirs. A judge that is handed
//! doubled, missing and foreign tasks must see them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use serde_json::{Value, json};

use crate::audit::expect;
use crate::cutter::Cutter;
use crate::http::{Answer, Http, NoAnswer};
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};

const CLIENTS: usize = 24;
const TASKS: &str = "/api/v1/tasks";
/// How long one submit is repeated.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the broker is to recognise a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Id,
    Header,
    UniqueKey,
    /// By nothing.
    Mutant,
}

const WAYS: [Way; 4] = [Way::Id, Way::Header, Way::UniqueKey, Way::Mutant];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Id => "id",
            Way::Header => "header",
            Way::UniqueKey => "unique",
            Way::Mutant => "mutant",
        }
    }

    /// The mutant needs only enough to show that it is one.
    fn count(self, keys: u64) -> u64 {
        if self == Way::Mutant { 600 } else { keys / 3 }
    }
}

/// What the clients saw.
#[derive(Debug, Default)]
struct Told {
    unanswered: AtomicU64,
    /// Repeated submits that found the task of the first one.
    recognised: AtomicU64,
}

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    let (keys, kills) = run.pick((3_000, 3), (1_000_000, 40));
    let home = run.home()?;
    let setup = Setup::new(&run, home.path());
    let mut random = run.random("G10");
    let mut server = setup.start().await?;
    let cutter = Cutter::start(server.address(), random.random()).await?;
    let told = Arc::new(Told::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(submit_all(cutter.address, client as u64, keys, Arc::clone(&told))))
        .collect();
    let mut killed = 0;
    while killed < kills && clients.iter().any(|client| !client.is_finished()) {
        // sleep: the moment of the kill is random, and that is the point.
        tokio::time::sleep(Duration::from_millis(random.random_range(100..1500))).await;
        server.kill().await?;
        killed += 1;
        server = setup.start().await?;
        cutter.lead_to(server.address());
    }
    let mut surprises = Vec::new();
    for client in clients {
        match client.await {
            Ok(Ok(())) => {}
            Ok(Err(surprise)) => surprises.push(surprise),
            Err(error) => surprises.push(error.to_string()),
        }
    }
    finish(keys, killed, &cutter, &told, surprises, server).await
}

async fn finish(
    keys: u64,
    kills: u64,
    cutter: &Cutter,
    told: &Told,
    surprises: Vec<String>,
    server: Server,
) -> Outcome {
    let found = count(&mut server.http()).await?;
    server.terminate().await?;
    let findings: HashMap<Way, Findings> =
        WAYS.into_iter().map(|way| (way, judge(way, way.count(keys), &found))).collect();
    let mut complaints = surprises;
    for (way, findings) in &findings {
        let Findings { doubled, missed, foreign } = findings;
        let (doubled, by) = (if *way == Way::Mutant { &0 } else { doubled }, way.name());
        for (count, what) in [(doubled, "there twice"), (missed, "missing"), (foreign, "nobody submitted")] {
            if *count > 0 {
                complaints.push(format!("by {by}: {count} tasks {what}"));
            }
        }
    }
    let recognised = told.recognised.load(Ordering::Relaxed);
    if recognised == 0 || cutter.cuts() == 0 || kills == 0 {
        complaints
            .push("no submit was repeated that the broker had already, so nothing was tried".to_owned());
    }
    let mutant = findings[&Way::Mutant].doubled;
    if mutant == 0 {
        complaints
            .push("the mutant (neither id nor key) made nothing twice, so this proof cannot fail".to_owned());
    }
    let doubled: u64 = WAYS[..3].iter().map(|way| findings[way].doubled).sum();
    let figures = format!(
        "{keys} keys by id, header and unique key, {} cuts, {kills} kills, {} submits without an answer, {recognised} of them \
         repeated in earnest, {doubled} doubled; mutant doubled {mutant}",
        cutter.cuts(),
        told.unanswered.load(Ordering::Relaxed),
    );
    verdict(figures, complaints)
}

/// One client's share of all keys, one after the other.
async fn submit_all(address: SocketAddr, client: u64, keys: u64, told: Arc<Told>) -> Result<(), String> {
    let mut http = Http::new(address);
    for way in WAYS {
        for number in (client..way.count(keys)).step_by(CLIENTS) {
            submit(&mut http, way, number, &told).await?;
        }
    }
    Ok(())
}

/// Repeats a submit until it is answered.
async fn submit(http: &mut Http, way: Way, number: u64, told: &Told) -> Result<(), String> {
    let key = format!("{}-{number}", way.name());
    let mut body = json!({"type": "g10", "payload": {"key": key}});
    match way {
        Way::Id => body["id"] = json!(key),
        Way::UniqueKey => body["unique_key"] = json!(key),
        Way::Header | Way::Mutant => {}
    }
    let until = Instant::now() + PATIENCE;
    let mut repeated = false;
    while Instant::now() < until {
        let answer: Result<Answer, NoAnswer> = match way {
            Way::Header => http.post_under(&key, TASKS, &body).await,
            _ => http.post(TASKS, &body).await,
        };
        match answer {
            Ok(answer) if answer.is_success() => {
                let recognised = repeated && answer.status == 200;
                told.recognised.fetch_add(u64::from(recognised), Ordering::Relaxed);
                return Ok(());
            }
            // The broker is on its way down or up.
            Ok(answer) if answer.status == 503 => {}
            Ok(answer) => return Err(format!("{key} was answered {}: {}", answer.status, answer.body)),
            Err(_) => {
                repeated = true;
                told.unanswered.fetch_add(1, Ordering::Relaxed);
            }
        }
        // sleep: who gets no answer waits a moment, as every client should.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(format!("{key} was not answered within {} s", PATIENCE.as_secs()))
}

/// How many tasks stand for each key.
async fn count(http: &mut Http) -> Result<HashMap<String, u64>, Trouble> {
    let mut found = HashMap::new();
    let mut cursor = String::new();
    loop {
        let page = expect(http, &format!("{TASKS}?limit=1000{cursor}")).await?;
        for task in page["items"].as_array().into_iter().flatten() {
            let key = task["payload"]["key"].as_str().unwrap_or("no key");
            *found.entry(key.to_owned()).or_default() += 1;
        }
        match &page["next_cursor"] {
            Value::String(next) => cursor = format!("&cursor={next}"),
            _ => return Ok(found),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    doubled: u64,
    missed: u64,
    foreign: u64,
}

/// Keys of one way from 0 to `count`, against the tasks that are there.
fn judge(way: Way, count: u64, found: &HashMap<String, u64>) -> Findings {
    let mut findings = Findings::default();
    for number in 0..count {
        match found.get(&format!("{}-{number}", way.name())) {
            None => findings.missed += 1,
            Some(times) => findings.doubled += times - 1,
        }
    }
    let own = |key: &&String| key.rsplit_once('-').is_some_and(|(name, _)| name == way.name());
    let known = |key: &&String| {
        let number = key.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        number.is_some_and(|number| number < count)
    };
    findings.foreign = found.keys().filter(own).filter(|key| !known(key)).count() as u64;
    findings
}

fn self_test() -> Result<(), Trouble> {
    let check = |keys: &[(&str, u64)], right: Findings| {
        let found = keys.iter().map(|(key, times)| ((*key).to_owned(), *times)).collect();
        let judged = judge(Way::Id, 2, &found);
        if judged == right {
            return Ok(());
        }
        Err(Trouble::failed(format!("the judge is blind: {keys:?} gave {judged:?}")))
    };
    let nothing = Findings::default;
    check(&[("id-0", 1), ("id-1", 1), ("header-7", 1)], nothing())?;
    check(&[("id-0", 3), ("id-1", 1)], Findings { doubled: 2, ..nothing() })?;
    check(&[("id-1", 1)], Findings { missed: 1, ..nothing() })?;
    check(&[("id-0", 1), ("id-1", 1), ("id-2", 1)], Findings { foreign: 1, ..nothing() })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_judge_sees_what_is_wrong() {
        super::self_test().unwrap();
    }
}
