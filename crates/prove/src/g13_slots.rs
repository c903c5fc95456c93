//! G13: one-second slots while the broker is killed every few seconds. Each slot fires once, and none is missed under
//! catch-up `all`.
//!
//! The schedules have a first and a last slot, so it is known exactly which must have fired. What counts is the tasks: each
//! carries its schedule and slot in its payload, which does not care how the broker keeps them apart.
//!
//! Mutant: beside them run schedules that catch up with one slot only; while a broker is dead they must lose some. A judge
//! that is handed doubled, missing and foreign slots must see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rand::Rng;
use serde_json::{Value, json};

use crate::audit::Scan;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;

/// How long the last slots may take to be caught up with.
const PATIENCE: Duration = Duration::from_secs(60);
/// A slot that fired this much after its time was caught up with.
const LATE_MS: u64 = 1000;
const MUTANTS: usize = 3;

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    let (schedules, seconds) = run.pick((20, 9), (50, 200));
    let home = run.home()?;
    let setup = Setup::new(&run, home.path());
    let mut random = run.random("G13");
    let mut server = setup.start().await?;
    // A schedule has only the slots that come after it was made, so all of them are made before the first.
    let first = wall_ms() / 1000 + run.pick(2, 10);
    let slots: BTreeSet<u64> = (first..first + seconds).map(|second| second * 1000).collect();
    make(&mut server.http(), schedules, &slots).await?;
    if wall_ms() >= first * 1000 {
        return Err(Trouble::failed(
            "the machine is too slow to make the schedules before their first slot".to_owned(),
        ));
    }
    let mut kills = 0;
    while wall_ms() < (first + seconds) * 1000 {
        // sleep: the moment of the kill is random, and that is the point.
        tokio::time::sleep(Duration::from_millis(random.random_range(300..2500))).await;
        server.kill().await?;
        kills += 1;
        // sleep: how long nobody is there to fire is random too, but once it is long enough for slots to be missed.
        let down_ms = if kills == 1 { 2500 } else { random.random_range(0..3000) };
        tokio::time::sleep(Duration::from_millis(down_ms)).await;
        server = setup.start().await?;
    }
    let mut http = server.http();
    until_ended(&mut http).await?;
    let scan = Scan::take(&mut http).await?;
    let fires: Vec<Fire> = scan.tasks.iter().filter_map(Fire::of).collect();
    let names = |prefix: &'static str, count: usize| (0..count).map(move |i| format!("{prefix}{i}"));
    let findings = judge(&fires, names("all-", schedules), &slots);
    let mutant = judge(&fires, names("one-", MUTANTS), &slots);
    server.terminate().await?;
    let mut complaints = findings.complaints();
    complaints.extend(scan.judge_ledger());
    if mutant.doubled + mutant.foreign > 0 {
        complaints.push(format!("schedules with catch-up one: {mutant}"));
    }
    if findings.late == 0 {
        complaints.push("no slot was caught up with, so the kills hit nothing".to_owned());
    }
    if mutant.missed == 0 {
        complaints.push("the mutant (catch-up one) missed nothing, so this proof cannot fail".to_owned());
    }
    let figures =
        format!("{kills} kills, {findings}; mutant missed {} of {}", mutant.missed, mutant.expected);
    verdict(figures, complaints)
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

async fn make(http: &mut Http, count: usize, slots: &BTreeSet<u64>) -> Result<(), Trouble> {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return Ok(()) };
    let names = (0..count).map(|i| (format!("all-{i}"), "all"));
    for (name, catch_up) in names.chain((0..MUTANTS).map(|i| (format!("one-{i}"), "one"))) {
        // Both ways to say it; the second goes through the search for patterns.
        let cron = if name.ends_with(['0', '2', '4', '6', '8']) { "@every 1s" } else { "* * * * * *" };
        let schedule = json!({
            "id": name, "cron": cron, "timezone": "Pacific/Chatham", "catch_up": catch_up,
            "starts_at": text_of(*first), "ends_at": text_of(*last),
            "task": {"type": "slot", "payload": {"schedule": name, "slot": "{{scheduled_at}}"}},
        });
        let answer = http.post("/api/v1/schedules", &schedule).await?;
        if answer.status != 201 {
            return Err(Trouble::failed(format!("a schedule was refused: {}", answer.body)));
        }
    }
    Ok(())
}

/// Waits until no schedule has a slot left.
async fn until_ended(http: &mut Http) -> Result<(), Trouble> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let page = http.get("/api/v1/schedules?limit=1000").await?.body;
        let live = page["items"].as_array().map_or(0, |items| {
            items.iter().filter(|schedule| schedule["standing"]["code"] != "ended").count()
        });
        if live == 0 {
            return Ok(());
        }
        if Instant::now() > patience {
            return Err(Trouble::failed(format!("{live} schedules never came to their end")));
        }
        // sleep: nothing announces the end of a schedule.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One task: whose it is, its slot, and when it was made.
#[derive(Debug, Clone)]
struct Fire {
    schedule: String,
    slot: u64,
    made_at: u64,
}

impl Fire {
    fn of(task: &Value) -> Option<Fire> {
        let schedule = task["payload"]["schedule"].as_str()?.to_owned();
        Some(Fire { schedule, slot: ms_of(&task["payload"]["slot"])?, made_at: ms_of(&task["created_at"])? })
    }
}

fn ms_of(text: &Value) -> Option<u64> {
    let moment: Timestamp = text.as_str()?.parse().ok()?;
    u64::try_from(moment.as_millisecond()).ok()
}

fn text_of(ms: u64) -> String {
    Timestamp::from_millisecond(ms.cast_signed()).map(|moment| moment.to_string()).unwrap_or_default()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    expected: usize,
    doubled: usize,
    missed: usize,
    foreign: usize,
    late: usize,
}

fn judge(fires: &[Fire], schedules: impl Iterator<Item = String>, slots: &BTreeSet<u64>) -> Findings {
    let mut findings = Findings::default();
    for schedule in schedules {
        let mut counts: BTreeMap<u64, usize> = slots.iter().map(|slot| (*slot, 0)).collect();
        for fire in fires.iter().filter(|fire| fire.schedule == schedule) {
            findings.late += usize::from(fire.made_at >= fire.slot + LATE_MS);
            match counts.get_mut(&fire.slot) {
                Some(count) => *count += 1,
                None => findings.foreign += 1,
            }
        }
        findings.expected += counts.len();
        findings.missed += counts.values().filter(|count| **count == 0).count();
        findings.doubled += counts.values().map(|count| count.saturating_sub(1)).sum::<usize>();
    }
    findings
}

impl Findings {
    fn complaints(&self) -> Vec<String> {
        let counts = [
            (self.doubled, "slots fired twice"),
            (self.missed, "slots were missed"),
            (self.foreign, "tasks stand for slots that do not exist"),
        ];
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { expected, doubled, missed, foreign, late } = self;
        write!(
            f,
            "{expected} slots, {doubled} doubled, {missed} missed, {foreign} foreign, {late} caught up with"
        )
    }
}

fn self_test() -> Result<(), Trouble> {
    let fire = |slot: u64| Fire { schedule: "s".to_owned(), slot, made_at: slot + 1 };
    let slots = BTreeSet::from([1000, 2000, 3000]);
    let judged = |fires: &[u64]| {
        let fires: Vec<Fire> = fires.iter().map(|slot| fire(*slot)).collect();
        let Findings { doubled, missed, foreign, .. } =
            judge(&fires, std::iter::once("s".to_owned()), &slots);
        (doubled, missed, foreign)
    };
    let cases = [
        (vec![1000, 2000, 3000], (0, 0, 0)),
        (vec![1000, 2000, 2000, 3000], (1, 0, 0)),
        (vec![1000, 3000], (0, 1, 0)),
        (vec![1000, 2000, 3000, 4000], (0, 0, 1)),
    ];
    for (fires, expected) in cases {
        if judged(&fires) != expected {
            return Err(Trouble::failed(format!("the judge is blind: {fires:?} gave {:?}", judged(&fires))));
        }
    }
    Ok(())
}
