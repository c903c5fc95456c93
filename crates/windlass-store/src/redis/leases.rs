//! Leases, on the clock of whoever watches them.
//!
//! The contract keeps leases on a monotonic clock, and processes on one Redis have none in common. So Redis keeps no deadline.
//! It keeps a *beat* for every lease, a number that grows with every claim and every extension; tasks that were claimed together share one. Whoever leads reads the beats
//! that are new to it and gives each of these leases its full length from that moment, on its own clock. A lease whose time
//! is over is noticed only if its beat is still the one that was timed. No clocks are compared, a lease never ends early, and
//! a new leader gives everybody one fresh window, as a restart does.
//!
//! A Redis that lost its last writes gives their beats again, to other leases. So whoever leads begins anew when the history that Redis
//! writes to is another one (`lua/observe.lua`), whatever the beats are then.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use windlass_core::limits::ANSWER_BYTES_MAX;
use windlass_core::transition::{self, Extension};
use windlass_core::{Name, Now};

use super::Shared;
use super::link::Args;
use super::row::{self, Held, Row};
use super::{reply, script};
use crate::store::{Due, Error, Expire, Extend, Extended};

/// Leases that are read by one call, where those of a claim that go on together count as one.
const OBSERVE_MAX: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Watch {
    by_seq: HashMap<u64, Timed>,
    by_deadline: BTreeSet<(u64, u64)>,
    /// The last beat that was read.
    beat: u64,
    /// The last one that there was then, and the number of the call that read it.
    last: Option<(u64, String)>,
    /// The history that was read.
    history: String,
    /// The end of the last pause of this process for which leases were renewed.
    resumed: u64,
    /// How often it was begun anew. What was asked for before is no answer any more.
    begun: u64,
}

#[derive(Debug, Clone)]
struct Timed {
    deadline: u64,
    window_ms: u64,
    /// Whether the lease was found expired. It stays expired.
    lost: bool,
    beat: u64,
    worker: Name,
}

impl Watch {
    /// Times a lease; whether it is the next to end. One that is timed already keeps its time.
    fn hold(&mut self, seq: u64, held: &Held, now: Now) -> bool {
        if self.by_seq.get(&seq).is_some_and(|timed| timed.beat == held.beat && timed.worker == held.worker) {
            return false;
        }
        let deadline = now.mono.saturating_add(held.window_ms);
        let next = self.by_deadline.first().is_none_or(|(first, _)| deadline < *first);
        self.end(seq);
        let Held { beat, window_ms, worker } = held.clone();
        self.by_seq.insert(seq, Timed { deadline, window_ms, lost: false, beat, worker });
        self.by_deadline.insert((deadline, seq));
        next
    }

    pub(super) fn end(&mut self, seq: u64) {
        if let Some(timed) = self.by_seq.remove(&seq) {
            self.by_deadline.remove(&(timed.deadline, seq));
        }
    }

    /// It is over now whatever it was, so that later looks find it again until its task changes.
    fn lose(&mut self, seq: u64, now: Now) {
        let Some(timed) = self.by_seq.get_mut(&seq) else { return };
        self.by_deadline.remove(&(timed.deadline, seq));
        timed.deadline = timed.deadline.min(now.mono);
        timed.lost = true;
        self.by_deadline.insert((timed.deadline, seq));
    }

    /// Gives every lease one fresh window after a pause that ended at `resumed`. During a pause extensions wait unread.
    fn renew(&mut self, resumed: u64) {
        if resumed <= self.resumed {
            return;
        }
        self.resumed = resumed;
        for (seq, timed) in self.by_seq.iter_mut().filter(|(_, timed)| !timed.lost) {
            let deadline = resumed.saturating_add(timed.window_ms).max(timed.deadline);
            self.by_deadline.remove(&(timed.deadline, *seq));
            self.by_deadline.insert((deadline, *seq));
            timed.deadline = deadline;
        }
    }

    /// Those that are over, and those of dead workers.
    fn over(&self, expire: &Expire, now: Now, leads: bool) -> Vec<(u64, Timed)> {
        let over = |(deadline, seq): &&(u64, u64)| {
            let timed = &self.by_seq[seq];
            (leads && *deadline <= now.mono) || expire.dead_workers.contains(&timed.worker)
        };
        let found = self.by_deadline.iter().filter(over).take(expire.limit);
        found.map(|(_, seq)| (*seq, self.by_seq[seq].clone())).collect()
    }

    /// A process that does not lead keeps only leases that it may have to end for a dead worker. Should it lead again, it reads
    /// all of them anew: those that it dropped may not have ended.
    fn drop_ended(&mut self, now: Now) {
        let before = self.by_seq.len();
        while let Some(&(deadline, seq)) =
            self.by_deadline.first().filter(|(deadline, _)| *deadline <= now.mono)
        {
            self.by_seq.remove(&seq);
            self.by_deadline.remove(&(deadline, seq));
        }
        if self.by_seq.len() < before {
            (self.beat, self.last) = (0, None);
            self.begun += 1;
        }
    }

    /// Forgets everything: whoever begins to lead gives everybody a fresh window.
    pub(super) fn clear(&mut self) {
        *self = Watch { begun: self.begun + 1, resumed: self.resumed, ..Watch::default() };
    }

    /// Takes what was read of the leases beyond a beat, if that was asked for since the last beginning; whether there is more to ask.
    fn learn(&mut self, asked: &Asked, seen: &Observed, now: Now) -> bool {
        if self.begun != asked.begun {
            return true;
        }
        if self.history != seen.history || seen.last < asked.after {
            self.clear();
            self.history.clone_from(&seen.history);
            return true;
        }
        for (seqs, held) in &seen.leases {
            self.beat = self.beat.max(held.beat.min(seen.last));
            for seq in seqs.clone() {
                self.hold(seq, held, now);
            }
        }
        if !seen.full {
            self.last = Some((seen.last, asked.call.clone()));
        }
        seen.full
    }
}

impl Shared {
    pub(super) fn watch_lease(&self, seq: u64, held: &Held, now: Now) {
        if self.watch.lock().hold(seq, held, now) {
            self.signals.leases.notify_one();
        }
    }

    /// Of tasks that were just claimed.
    pub(super) fn watch_leases(&self, rows: &[Row], now: Now) {
        let mut watch = self.watch.lock();
        let held = rows.iter().filter_map(|row| Some((row.record.seq, row.held.as_ref()?)));
        let next = held.fold(false, |next, (seq, held)| watch.hold(seq, held, now) || next);
        drop(watch);
        if next {
            self.signals.leases.notify_one();
        }
    }

    /// The beats of leases that are watched, by the numbers of their tasks.
    pub(super) fn beats(&self, seqs: impl Iterator<Item = u64>) -> Vec<Option<u64>> {
        let watch = self.watch.lock();
        seqs.map(|seq| watch.by_seq.get(&seq).map(|timed| timed.beat)).collect()
    }

    /// Watches a lease no more, unless it has moved on or is another one.
    pub(super) fn forget_lease(&self, seq: u64, beat: u64) {
        let mut watch = self.watch.lock();
        if watch.by_seq.get(&seq).is_some_and(|timed| timed.beat == beat) {
            watch.end(seq);
        }
    }

    /// Reads the beats that are new.
    pub(super) async fn observe(&self) -> Result<(), Error> {
        let first = self.link.is_first();
        if !first && self.is_still().await? {
            return Ok(());
        }
        loop {
            let mut args = Args::new("");
            let asked = {
                let watch = self.watch.lock();
                args.number(watch.beat).number(OBSERVE_MAX).flag(!first);
                Asked { begun: watch.begun, after: watch.beat, call: args.call().to_owned() }
            };
            let seen = Observed::read(self.link.run(&script::OBSERVE, &args).await?)?;
            // Redis may have been away for long: what it tells begins now.
            if !self.watch.lock().learn(&asked, &seen, self.clock.now()) {
                return Ok(());
            }
        }
    }

    /// Whether no lease began or moved since the last look, and nothing is lost of what it saw. A spread store has many parts, and most
    /// of them are idle.
    async fn is_still(&self) -> Result<bool, Error> {
        let Some((last, call)) = self.watch.lock().last.clone() else { return Ok(false) };
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.key("meta")).arg("beat").arg("observed");
        let [beat, observed] = reply::fixed(self.link.ask(&ask).await?)?;
        let beat = if matches!(beat, redis::Value::Nil) { 0 } else { reply::number(beat)? };
        if beat < last || matches!(observed, redis::Value::Nil) {
            self.notices.lose_part();
        }
        Ok(beat == last && reply::is_text(&observed, &call))
    }

    pub(super) async fn expired(&self, expire: &Expire) -> Result<Due, Error> {
        self.check_open()?;
        let mark = self.leading().await?;
        if mark.is_some() {
            self.observe().await?;
        }
        let now = self.clock.now();
        let over = {
            let mut watch = self.watch.lock();
            watch.renew(self.clock.resumed_at(now));
            watch.over(expire, now, mark.is_some())
        };
        let mut due = Due::default();
        if !over.is_empty() {
            due.tasks = self.notice(&over, expire.dead_workers.is_empty()).await?;
        }
        let mut watch = self.watch.lock();
        if mark.is_none() {
            watch.drop_ended(now);
            return Ok(due);
        }
        for task in &due.tasks {
            watch.lose(task.record.seq, now);
        }
        let told: BTreeSet<u64> = due.tasks.iter().map(|task| task.record.seq).collect();
        due.next =
            watch.by_deadline.iter().find(|(_, seq)| !told.contains(seq)).map(|(deadline, _)| *deadline);
        Ok(due)
    }

    /// Marks leases as lost that have not moved since they were timed. A worker that died here needs no leader to say so.
    async fn notice(
        &self,
        over: &[(u64, Timed)],
        as_leader: bool,
    ) -> Result<Vec<windlass_core::Task>, Error> {
        let mark = self.leader.mark().filter(|_| as_leader).unwrap_or_default();
        let mut args = Args::new("");
        args.text(&mark).number(ANSWER_BYTES_MAX as u64).number(over.len() as u64);
        for (seq, timed) in over {
            args.text(&row::name(*seq)).number(timed.beat).text(timed.worker.as_str());
        }
        let answer = self.link.run(&script::EXPIRE, &args).await?;
        if reply::is_text(&answer, "stranger") {
            self.leader.lose();
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let mut tasks = Vec::new();
        for ((seq, timed), answer) in over.iter().zip(reply::list(answer)?) {
            if matches!(answer, redis::Value::Nil) {
                self.forget_lease(*seq, timed.beat);
                continue;
            }
            // It stays over, and is told by the next look.
            if reply::is_text(&answer, "later") {
                break;
            }
            let mut fields = reply::list(answer)?;
            if fields.first().is_some_and(|word| reply::is_text(word, "ended")) {
                let row = Row::read(fields.pop().unwrap_or_default())?;
                tasks.extend(row.map(Row::task).transpose()?);
            } else {
                let [_, beat, window, worker] = reply::fixed(redis::Value::Array(fields))?;
                self.watch.lock().hold(*seq, &held(beat, window, worker)?, now);
            }
        }
        Ok(tasks)
    }

    pub(super) async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.check_open()?;
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = Args::new("");
        args.number(self.clock.now().wall).number(extensions.len() as u64);
        for Extend { id, token, lease_ms, progress } in &extensions {
            args.text(id.as_str()).number(token.number).text(&format!("{:016x}", token.secret));
            args.bound(*lease_ms).bytes(progress.as_ref().map(row::write_progress).unwrap_or_default());
        }
        let answers = reply::list(self.link.run(&script::EXTEND, &args).await?)?;
        let now = self.clock.now();
        extensions.iter().zip(answers).map(|(extend, answer)| self.extended(extend, answer, now)).collect()
    }

    fn extended(&self, extend: &Extend, answer: redis::Value, now: Now) -> Result<Extended, Error> {
        match &answer {
            redis::Value::Nil => return Ok(Extended::Missing),
            redis::Value::Array(fields) if fields.len() == 5 => {}
            redis::Value::Array(_) => {
                let Some(row) = Row::read(answer)? else { return Ok(Extended::Missing) };
                return Ok(match transition::extend(&row.record, extend.token) {
                    Ok(Extension::CancelRequested) => Extended::CancelRequested,
                    _ => Extended::LeaseLost,
                });
            }
            _ => return Ok(Extended::LeaseLost),
        }
        let [ends, beat, window, name, worker] = reply::fixed(answer)?;
        self.watch_lease(reply::number(name)?, &held(beat, window, worker)?, now);
        Ok(Extended::Until { expires_at: reply::number(ends)? })
    }
}

fn held(beat: redis::Value, window: redis::Value, worker: redis::Value) -> Result<Held, Error> {
    let worker = Name::new(&reply::text(worker)?).map_err(|_| reply::wrong("a lease with a wrong worker"))?;
    Ok(Held { beat: reply::number(beat)?, window_ms: reply::number(window)?, worker })
}

/// A question for the leases beyond a beat.
#[derive(Debug)]
struct Asked {
    /// After which beginning of the watch.
    begun: u64,
    after: u64,
    /// The number of the call.
    call: String,
}

/// The answer to it.
#[derive(Debug)]
struct Observed {
    /// The last beat that there was.
    last: u64,
    history: String,
    /// By the numbers of their tasks.
    leases: Vec<(RangeInclusive<u64>, Held)>,
    /// Whether there may be more of them.
    full: bool,
}

impl Observed {
    fn read(answer: redis::Value) -> Result<Observed, Error> {
        let mut answers = reply::list(answer)?.into_iter();
        let last = reply::number(answers.next().unwrap_or_default())?;
        let history = reply::text(answers.next().unwrap_or_default())?;
        let full = answers.len() as u64 >= OBSERVE_MAX;
        let lease = |lease| {
            let [from, till, beat, window, worker] = reply::fixed(lease)?;
            Ok((reply::number(from)?..=reply::number(till)?, held(beat, window, worker)?))
        };
        Ok(Observed { last, history, leases: answers.map(lease).collect::<Result<_, Error>>()?, full })
    }
}

#[cfg(test)]
mod tests;
