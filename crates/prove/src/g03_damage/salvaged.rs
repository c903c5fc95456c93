//! A refused store is salvaged: what comes out must be exactly what the proof finds whole, and the list of losses must cover
//! the rest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use windlass_store::Store;
use windlass_store::clock::ManualClock;
use windlass_store::embedded::salvage::{self, Loss, Options, Progress, Watch};

use super::history::Tasks;
use super::whole;
use super::written::{Written, open, read_all};
use crate::proof::Trouble;

#[derive(Debug, Default)]
struct Losses {
    tasks: BTreeSet<String>,
    older: BTreeSet<String>,
    numbers: Vec<(u64, u64)>,
    entries: Vec<(u64, u64)>,
    tables: bool,
}

impl Watch for Losses {
    fn progress(&mut self, _: Progress) {}

    fn loss(&mut self, loss: Loss) {
        match loss {
            Loss::Task { id, .. } => drop(self.tasks.insert(id.as_str().to_owned())),
            Loss::Older { id, .. } => drop(self.older.insert(id.as_str().to_owned())),
            Loss::Numbers { from, to, .. } => self.numbers.push((from, to)),
            Loss::Entries { from, to } => self.entries.push((from, to.unwrap_or(u64::MAX))),
            Loss::Other { what, .. } => self.tables |= what == "the tables",
            Loss::Cancelled { .. } | Loss::File { .. } => {}
        }
    }
}

/// How many tasks came out and how many are lost, or what is wrong.
pub(super) async fn check(
    written: &Written,
    damaged: &Path,
    home: &Path,
) -> Result<Result<(usize, usize), String>, Trouble> {
    let expected = whole::ids(damaged, &written.id, &home.join("index.copy"))?;
    let expected: BTreeSet<String> = expected
        .into_iter()
        .filter(|id| written.history.last.keys().any(|known| known.as_str() == id))
        .collect();
    let new = home.join("salvaged");
    let options = Options { from: damaged.to_owned(), to: new.clone(), segment_bytes: 32 << 10 };
    let mut losses = Losses::default();
    let report = salvage::salvage(&options, ManualClock::shared(), &mut losses).await;
    let report = match report {
        Ok(report) => report,
        Err(error) => return Ok(Err(format!("the salvage failed: {error}"))),
    };
    let store = open(&new).await?;
    let got = read_all(&store).await?;
    store.close().await?;
    fs::remove_dir_all(&new)?;
    let ids: BTreeSet<String> = got.keys().map(|id| id.as_str().to_owned()).collect();
    if ids != expected {
        let (odd, missing) = (ids.difference(&expected).next(), expected.difference(&ids).next());
        return Ok(Err(format!(
            "{} tasks were salvaged and {} are whole: {odd:?} is too many, {missing:?} is missing",
            ids.len(),
            expected.len()
        )));
    }
    let lost = written.history.last.len() - got.len();
    if let Some(wrong) = compare(written, &got, &losses).or_else(|| uncovered(written, &got, &losses)) {
        return Ok(Err(wrong));
    }
    match report.is_whole() && lost > 0 {
        true => Ok(Err(format!("{lost} tasks are lost, and the report says nothing is"))),
        false => Ok(Ok((got.len(), lost))),
    }
}

/// Each task must be as it was acknowledged, be listed as older, or be older because of a lost entry that changed it.
fn compare(written: &Written, got: &Tasks, losses: &Losses) -> Option<String> {
    for (id, task) in got {
        let Some(truth) = written.history.last.get(id) else { return Some(format!("{id} never was")) };
        if truth.body != task.body {
            return Some(format!("{id} has another body"));
        }
        let listed = losses.older.contains(id.as_str())
            || written.history.explains(task, |entry| within(&losses.entries, entry));
        if !listed {
            let (found, state) = (task.record.state_name().as_str(), truth.record.state_name().as_str());
            return Some(format!("{id} is {found} instead of {state}, unlisted: {losses:?}"));
        }
    }
    None
}

/// Each task that is lost must be named, or lie in a range that is.
fn uncovered(written: &Written, got: &Tasks, losses: &Losses) -> Option<String> {
    for (id, task) in written.history.last.iter().filter(|(id, _)| !got.contains_key(*id)) {
        let entry = written.history.submitted(id);
        let covered = losses.tasks.contains(id.as_str())
            || within(&losses.numbers, task.record.seq)
            || entry.is_some_and(|entry| within(&losses.entries, entry))
            || losses.tables;
        if !covered {
            return Some(format!("{id} is lost, and nothing in the list covers it: {losses:?}"));
        }
    }
    None
}

fn within(ranges: &[(u64, u64)], at: u64) -> bool {
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&at))
}
