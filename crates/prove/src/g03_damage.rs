//! G3: damage. Bits are flipped in the log, in the index and in blocks of tasks, files are cut short and removed; opening the data either
//! refuses, or everything that is then served is what was written. Only the end of the log may be missing without a word: if
//! it is cut off, or its last frame is hit, nothing that is left can tell, and what is served is an earlier moment.
//!
//! Mutant: a reader that skips the check. Its damage comes with a corrected checksum; the judge must see the wrong task.

mod harm;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::proof::{Outcome, Run, Trouble, verdict};
use harm::Harm;
use written::{Reading, Written};

pub(crate) async fn prove(run: Run) -> Outcome {
    // Readers of damaged data may panic, which counts as noticed; their words would bury the report.
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = hurt(run).await;
    std::panic::set_hook(loud);
    outcome
}

async fn hurt(run: Run) -> Outcome {
    let home = run.home()?;
    let mut random = run.random("G3");
    let mut tally = Tally::default();
    let mut noticed = "unnoticed";
    let mut complaints = Vec::new();
    for ending in [written::Ending::Killed, written::Ending::Closed] {
        let written = Written::make(&home.path().join(format!("{ending:?}")), ending).await?;
        for number in 0..run.pick(250, 10_000) {
            let harm = Harm::draw(&written.dir, &mut random)?;
            let reading = damage(&home.path().join(format!("{ending:?}-{number}")), &written, &harm).await?;
            let silent = match &reading {
                Reading::Wrong(words) => Some(words.clone()),
                Reading::TailDropped if !harm.may_tear => {
                    Some("acknowledged work is gone without a word".to_owned())
                }
                _ => None,
            };
            complaints.extend(silent.map(|words| format!("{harm}, {ending:?}: {words}")));
            tally.count(&harm, reading);
        }
        if ending == written::Ending::Killed {
            let copy = home.path().join("mutant");
            written.copy(&copy)?;
            harm::forge(&copy)?;
            if !matches!(written.read(&copy).await?, Reading::Wrong(_)) {
                complaints.push("the mutant (damage with a corrected checksum) was not noticed".to_owned());
            } else {
                noticed = "noticed";
            }
        }
    }
    if tally.refused == 0 {
        complaints.push("no damage was ever refused, so nothing was hurt".to_owned());
    }
    let silent = tally.wrong;
    complaints.truncate(12);
    verdict(format!("{tally}, {silent} silent wrong reads; mutant {noticed}"), complaints)
}

async fn damage(copy: &Path, written: &Written, harm: &Harm) -> Result<Reading, Trouble> {
    written.copy(copy)?;
    harm.apply(copy)?;
    let reading = written.read(copy).await;
    std::fs::remove_dir_all(copy)?;
    reading
}

#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    harmless: usize,
    torn: usize,
    panicked: usize,
    wrong: usize,
    kinds: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn count(&mut self, harm: &Harm, reading: Reading) {
        *self.kinds.entry(harm.kind).or_default() += 1;
        match reading {
            Reading::Refused(_) => self.refused += 1,
            Reading::Panicked => self.panicked += 1,
            Reading::Right => self.harmless += 1,
            Reading::TailDropped => self.torn += 1,
            Reading::Wrong(_) => self.wrong += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let (refused, harmless, torn) = (self.refused, self.harmless, self.torn);
        write!(
            f,
            "{}: {refused} refused, {harmless} without effect, {torn} torn tails dropped",
            kinds.join(", ")
        )
    }
}
