//! Writing what was decided: read the rows, let core make the successors, and write them under the revisions that were seen.

use std::collections::HashMap;

use windlass_core::{Change, Record, TaskId, Transition, UniqueKey};

use super::Shared;
use super::ends;
use super::hints::Hint;
use super::link::{Args, is_brief};
use super::read::By;
use super::row::{self, KeyFate, Step};
use super::transact::Transaction;
use super::{reply, script};
use crate::store::{Committed, Error};

/// Completions that are worth a call of their own. Fewer wait like other changes until claims have had their look, and meet more.
const REPORT_MIN: usize = 16;

/// A change of a record that was just read.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) record: Record,
    pub(super) change: Change,
    /// Who took the task's unique key last, where it must be taken back.
    pub(super) holder: Option<Record>,
}

impl Decided {
    pub(super) fn plain((record, change): (Record, Change)) -> Decided {
        Decided { record, change, holder: None }
    }

    /// Whether the task takes its unique key back.
    pub(super) fn takes_key(&self) -> bool {
        match (&self.record.unique, &self.change) {
            (Some(hold), Change::Requeued { at, .. }) => !hold.is_over(*at),
            _ => false,
        }
    }

    /// All that the change rests on, for a transaction: there it must not fail by itself.
    pub(super) fn guard(&self, transaction: &mut Transaction) {
        transaction.guard_at(&self.record);
        if let Some(hold) = self.record.unique.as_ref().filter(|_| self.takes_key()) {
            let holder = self.holder.as_ref().map_or(String::new(), |holder| row::name(holder.seq));
            transaction.guard("holder", &[hold.key.as_str(), &holder]);
        }
        if matches!(self.change, Change::Removed { .. }) {
            transaction.guard("alone", &[&row::name(self.record.seq)]);
        }
    }

    pub(super) fn step(self) -> Step {
        let takes_key = self.takes_key();
        let Decided { record: before, change, holder } = self;
        let mut after = before.clone();
        after.evolve(&change, before.order);
        let ends = after.state.is_terminal() || matches!(change, Change::Removed { .. });
        let key = match &before.unique {
            Some(_) if takes_key => {
                KeyFate::Taken { from: holder.map_or(String::new(), |holder| row::name(holder.seq)) }
            }
            Some(_) if ends => KeyFate::Freed,
            _ => KeyFate::Kept,
        };
        Step { before, after, change, key }
    }
}

/// What a transition comes to before anything is written.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "they live for the length of a call")]
pub(super) enum Fate {
    Write(Decided),
    Answer(Committed),
}

impl Shared {
    pub(super) async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        self.check_open()?;
        let completed = |one: &Transition| matches!(one.change, Change::Completed { .. });
        if transitions.len() < REPORT_MIN || !transitions.iter().all(completed) {
            self.waits.settled().await;
        }
        if transitions.len() == 1 || !transitions.iter().any(waits_again) {
            return self.commit_some(&transitions).await;
        }
        // What becomes of a retry that waits for others is known when it is written, and what stands behind it rests on that: so each
        // of them is written by itself, and in its turn.
        let mut answers = Vec::with_capacity(transitions.len());
        for some in transitions.chunk_by(|one, next| !waits_again(one) && !waits_again(next)) {
            answers.extend(self.commit_some(some).await?);
        }
        Ok(answers)
    }

    async fn commit_some(&self, transitions: &[Transition]) -> Result<Vec<Committed>, Error> {
        // What waits for others is alone here, so nothing rests on what becomes of it.
        let fates = self.weigh_transitions(transitions, |_| false).await?;
        let mut answers = Vec::with_capacity(fates.len());
        let mut decided = Vec::new();
        for fate in fates {
            match fate {
                Fate::Answer(answer) => answers.push(Some(answer)),
                Fate::Write(behind) if is_behind(&behind.change) => {
                    answers.push(Some(self.requeue_behind(behind).await?));
                }
                Fate::Write(step) => {
                    answers.push(None);
                    decided.push(step);
                }
            }
        }
        let mut written = self.write_all(decided).await?.into_iter();
        let missing = || reply::wrong("fewer answers than changes");
        answers.into_iter().map(|answer| answer.or_else(|| written.next()).ok_or_else(missing)).collect()
    }

    /// A transition is decided on as many revisions as those before it in the batch make. `refused` says of some that they cannot be
    /// made whatever the records are, so that nothing is decided on them.
    pub(super) async fn weigh_transitions(
        &self,
        transitions: &[Transition],
        refused: impl Fn(usize) -> bool,
    ) -> Result<Vec<Fate>, Error> {
        let known: Vec<Option<Record>> = transitions.iter().map(|one| self.recent.take(one)).collect();
        let unknown = transitions.iter().zip(&known).filter(|(_, known)| known.is_none());
        let rows = self.look_up(unknown.map(|(one, _)| By::Id(&one.id)), false).await?;
        let mut rows = rows.into_iter().map(|row| row.map(|row| row.record));
        let records =
            known.into_iter().map(|known| known.or_else(|| rows.next().flatten())).collect::<Vec<_>>();
        let holders = self.holders(transitions, &records).await?;
        let mut seen: HashMap<&TaskId, Option<Record>> = HashMap::new();
        // Unique keys that were taken back before, each by the task of this id.
        let mut taken: HashMap<UniqueKey, &TaskId> = HashMap::new();
        let mut fates = Vec::with_capacity(transitions.len());
        for (i, ((transition, record), holder)) in transitions.iter().zip(records).zip(holders).enumerate() {
            // A key that is over is not taken back, whoever has it.
            let unique = record.as_ref().and_then(|record| record.unique.as_ref());
            let wanted = unique.filter(|hold| match &transition.change {
                Change::Requeued { at, .. } => !hold.is_over(*at),
                _ => false,
            });
            let key = wanted.map(|hold| hold.key.clone());
            let taker = key.as_ref().and_then(|key| taken.get(key)).and_then(|id| seen[id].clone());
            let holder = taker.or(holder).and_then(|holder| as_seen(holder, &seen));
            let current = seen.entry(&transition.id).or_insert(record);
            let Some(record) = current else {
                fates.push(Fate::Answer(Committed::Missing));
                continue;
            };
            let refusal = refusal(transition, record, holder.as_ref());
            if let Some(answer) = refusal.or_else(|| refused(i).then_some(Committed::Conflict)) {
                fates.push(Fate::Answer(answer));
                continue;
            }
            let before = record.clone();
            record.evolve(&transition.change, before.order);
            if matches!(transition.change, Change::Removed { .. }) {
                *current = None;
            }
            let decided = Decided { record: before, change: transition.change.clone(), holder };
            if let Some(key) = key.filter(|_| decided.takes_key()) {
                taken.insert(key, &transition.id);
            }
            fates.push(Fate::Write(decided));
        }
        Ok(fates)
    }

    /// Who has the unique keys that are to be taken back.
    async fn holders(
        &self,
        transitions: &[Transition],
        records: &[Option<Record>],
    ) -> Result<Vec<Option<Record>>, Error> {
        let wanted = |(transition, record): (&Transition, &Option<Record>)| match (&transition.change, record)
        {
            (Change::Requeued { at, .. }, Some(record)) => {
                record.unique.as_ref().filter(|hold| !hold.is_over(*at)).map(|hold| hold.key.clone())
            }
            _ => None,
        };
        let keys: Vec<_> = transitions.iter().zip(records).map(wanted).collect();
        if keys.iter().all(Option::is_none) {
            return Ok(vec![None; keys.len()]);
        }
        let found = self.look_up(keys.iter().flatten().map(|key| By::Key(key.as_str())), false).await?;
        let mut found = found.into_iter().map(|row| row.map(|row| row.record));
        Ok(keys.iter().map(|key| key.as_ref().and_then(|_| found.next().flatten())).collect())
    }

    /// Writes changes, each under the revision of its record.
    pub(super) async fn write_all(&self, decided: Vec<Decided>) -> Result<Vec<Committed>, Error> {
        if decided.is_empty() {
            return Ok(Vec::new());
        }
        let steps: Vec<Step> = decided.into_iter().map(Decided::step).collect();
        if steps.iter().all(|step| step.fate().is_some()) {
            return self.report(steps).await;
        }
        self.write_steps(steps).await
    }

    pub(super) async fn write_steps(&self, steps: Vec<Step>) -> Result<Vec<Committed>, Error> {
        let mut hint = Hint::default();
        steps.iter().for_each(|step| step.hint(&mut hint));
        let mut args = self.args(&hint);
        args.outliving(steps.iter().any(Step::may_vanish));
        let parts = ends::change_args(&mut args, &steps);
        let beats = self.beats(steps.iter().map(|step| step.before.seq));
        let answer = self.call_and_tell(&script::COMMIT, &args, &hint).await?;
        let repeated = answer.repeated;
        let answers = ends::by_step(&parts, steps.len(), answer.value)?;
        let mut committed = Vec::with_capacity(steps.len());
        for ((step, beat), answer) in steps.into_iter().zip(beats).zip(answers) {
            // One that was to be forgotten, and is gone when that is asked for again, was forgotten by the first call or as good.
            let removes = repeated && matches!(step.change, Change::Removed { .. });
            let gone = removes.then(|| Box::new(step.after.clone()));
            committed.push(match (self.written_or_other(step, beat, answer, &hint).await?, gone) {
                (Committed::Missing, Some(gone)) => Committed::Done(gone),
                (committed, _) => committed,
            });
        }
        self.heed(&hint);
        Ok(committed)
    }

    /// An end that turned out to be of a task which others look at is written like any change.
    async fn written_or_other(
        &self,
        step: Step,
        beat: Option<u64>,
        answer: redis::Value,
        hint: &Hint,
    ) -> Result<Committed, Error> {
        if !reply::is_text(&answer, "other") {
            return self.written(step, beat, answer);
        }
        let mut args = self.args(hint);
        args.outliving(step.may_vanish()).number(0).number(1).number(0);
        step.args(&mut args, &row::name(step.before.seq));
        let answers = self.call_and_tell(&script::COMMIT, &args, hint).await?.value;
        let [answer] = reply::fixed(answers)?;
        self.written(step, beat, answer)
    }

    /// What became of a change, by the answer of the script. The beat is that of the lease which was watched before the call: when the answer
    /// is there, the task may be leased to somebody else, and that lease must be watched.
    pub(super) fn written(
        &self,
        step: Step,
        beat: Option<u64>,
        answer: redis::Value,
    ) -> Result<Committed, Error> {
        let mut answer = match answer {
            redis::Value::Array(words) => words.into_iter(),
            word => vec![word].into_iter(),
        };
        let word = reply::text(answer.next().unwrap_or_default())?;
        let Step { before, mut after, change, .. } = step;
        match word.as_str() {
            "missing" => return Ok(Committed::Missing),
            "conflict" => return Ok(Committed::Conflict),
            // Nobody waits for it, and it keeps its place.
            "ended" => after.awaited = false,
            "done" => {
                after.order = reply::number(answer.next().unwrap_or_default())?;
                after.awaited = reply::text(answer.next().unwrap_or_default())? == "1";
            }
            _ => return Err(reply::wrong("an unknown outcome of a change")),
        }
        if let Some(beat) = beat.filter(|_| !matches!(change, Change::Checkpointed { .. })) {
            self.forget_lease(before.seq, beat);
        }
        Ok(Committed::Done(Box::new(after)))
    }

    pub(super) fn args(&self, hint: &Hint) -> Args {
        Args::new(&hint.write(&self.origin))
    }
}

/// Whether the task is to wait for others again.
fn waits_again(transition: &Transition) -> bool {
    is_behind(&transition.change)
}

fn is_behind(change: &Change) -> bool {
    matches!(change, Change::Requeued { after, .. } if !after.is_empty())
}

/// Who has a key as the transitions before leave it: one that ended has let go of it.
fn as_seen(holder: Record, seen: &HashMap<&TaskId, Option<Record>>) -> Option<Record> {
    match seen.get(&holder.id) {
        None => Some(holder),
        Some(current) => current.clone().filter(|current| !current.state.is_terminal()),
    }
}

/// Why a transition cannot be made, if it cannot.
fn refusal(transition: &Transition, record: &Record, holder: Option<&Record>) -> Option<Committed> {
    // Leases are given out by claims alone: they number the tokens.
    let claimed = matches!(transition.change, Change::Claimed { .. });
    if claimed || (record.seq, record.revision) != (transition.seq, transition.revision) {
        return Some(Committed::Conflict);
    }
    match &transition.change {
        Change::Removed { .. } if record.awaited => Some(Committed::Conflict),
        Change::Requeued { at, .. } => {
            let held = holder.filter(|holder| holder.seq != record.seq && holder.holds_key(*at));
            held.map(|holder| Committed::KeyHeld(holder.id.clone()))
        }
        _ => None,
    }
}

impl Step {
    /// Whether the task may be forgotten before the answer is asked for again.
    fn may_vanish(&self) -> bool {
        self.after.state.is_terminal()
            && !matches!(self.change, Change::Removed { .. })
            && is_brief(self.after.retention_ms)
    }

    /// What others must know of it.
    pub(super) fn hint(&self, hint: &mut Hint) {
        if !matches!(self.change, Change::Removed { .. } | Change::Checkpointed { .. }) {
            hint.add(&self.after);
        }
    }
}
