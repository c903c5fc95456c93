//! G3: damage. Every kind of file in a data directory is flipped, cut, deleted, swapped with its like, replaced by an older copy
//! of itself and by that of another store. Opening the data either refuses, or everything that is then served is what was
//! acknowledged. Three kinds of damage are documented to go unnoticed; they are counted apart, and what is served then is
//! an earlier moment.
//!
//! Each refused store is salvaged. What comes out must be the tasks that the proof finds whole by itself, and the list of losses must
//! cover the others.
//!
//! Mutant: a reader that skips the check. Its damage comes with a corrected checksum; the judge must see the wrong task.

mod frames;
mod harm;
mod history;
mod salvaged;
mod whole;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use crate::proof::{Outcome, Run, verdict};
use harm::{Exception, Harm, Sources};
use written::{Ending, Reading, Written};

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
    let at = |name: &str| home.path().join(name);
    let mut random = run.random("G3");
    let mut tally = Tally::default();
    let mut complaints = Vec::new();
    let killed = Written::make(&at("killed-store"), "killed", Ending::Killed).await?;
    let closed = Written::make(&at("closed-store"), "closed", Ending::Closed).await?;
    let early = killed.before_vouch(at("early-store"))?;
    let kinds = harm::kinds();
    let bases = [
        ("killed", &killed, &killed.recent, &closed),
        ("before the vouch", &early, &early.earlier, &closed),
        ("closed", &closed, &closed.earlier, &killed),
    ];
    for (nth, (name, written, earlier, foreign)) in bases.into_iter().enumerate() {
        let sources = Sources { own: &written.dir, earlier, foreign: &foreign.dir };
        let wanted = run.pick(100, 3_334);
        let mut done = 0;
        // Each store begins with another kind, so that those that are drawn twice differ.
        for kind in kinds.iter().cycle().skip(nth * kinds.len() / 3).take(20 * wanted) {
            let copy = at("damaged");
            let harm = Harm::inflict(*kind, sources, &copy, &mut random)?;
            if let Some(harm) = harm {
                let reading = written.read(&copy).await?;
                let refused = matches!(reading, Reading::Refused(_) | Reading::Panicked);
                if refused {
                    let truth = if harm.is_taken_over() { foreign } else { written };
                    match salvaged::check(truth, &copy, home.path()).await? {
                        Ok((kept, lost)) => tally.salvage(kept, lost),
                        Err(wrong) => complaints.push(format!("{harm}, {name}: {wrong}")),
                    }
                }
                complaints
                    .extend(tally.judge(&harm, reading).map(|words| format!("{harm}, {name}: {words}")));
                done += 1;
            }
            fs::remove_dir_all(&copy)?;
            let _ = fs::remove_dir_all(at("salvaged"));
            if done == wanted {
                break;
            }
        }
    }
    let copy = at("mutant");
    written::copy(&killed.dir, &copy)?;
    frames::forge(&copy)?;
    let noticed = matches!(killed.read(&copy).await?, Reading::Wrong(_));
    if !noticed {
        complaints.push("the mutant (damage with a corrected checksum) was not noticed".to_owned());
    }
    if tally.refused == 0 || tally.salvages == 0 {
        complaints.push("no damage was ever refused, so nothing was hurt".to_owned());
    }
    for exception in [Exception::BeforeVouch, Exception::StaleLog, Exception::OldDirectory] {
        if !tally.exceptions.contains_key(&exception) {
            complaints.push(format!("the documented exception {exception:?} was never tried"));
        }
    }
    complaints.truncate(12);
    let mutant = if noticed { "noticed" } else { "unnoticed" };
    verdict(format!("{tally}; mutant {mutant}"), complaints)
}

#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    harmless: usize,
    panicked: usize,
    silent: usize,
    exceptions: BTreeMap<Exception, usize>,
    acts: BTreeMap<&'static str, usize>,
    salvages: usize,
    kept: usize,
    lost: usize,
}

impl Tally {
    /// Counts what became of damage; words if it was silent and is not documented to be.
    fn judge(&mut self, harm: &Harm, reading: Reading) -> Option<String> {
        *self.acts.entry(harm.act()).or_default() += 1;
        match (reading, harm.exception) {
            (Reading::Refused(_), _) => self.refused += 1,
            (Reading::Panicked, _) => self.panicked += 1,
            (Reading::Right, _) => self.harmless += 1,
            (Reading::TailDropped, Some(exception)) => *self.exceptions.entry(exception).or_default() += 1,
            (Reading::TailDropped, None) => {
                self.silent += 1;
                return Some("acknowledged work is gone without a word".to_owned());
            }
            (Reading::Wrong(words), _) => {
                self.silent += 1;
                return Some(words);
            }
        }
        None
    }

    fn salvage(&mut self, kept: usize, lost: usize) {
        self.salvages += 1;
        self.kept += kept;
        self.lost += lost;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acts: Vec<String> = self.acts.iter().map(|(act, count)| format!("{count} {act}")).collect();
        let stores: usize = self.acts.values().sum();
        let of = |exception| self.exceptions.get(&exception).copied().unwrap_or(0);
        write!(
            f,
            "{stores} stores ({}): {} refused, {} served whole; documented exceptions: {} before the vouch, {} stale logs, {} old \
             directories; {} other silent differences; {} salvaged: {} tasks copied, {} listed as lost",
            acts.join(", "),
            self.refused + self.panicked,
            self.harmless,
            of(Exception::BeforeVouch),
            of(Exception::StaleLog),
            of(Exception::OldDirectory),
            self.silent,
            self.salvages,
            self.kept,
            self.lost,
        )
    }
}
