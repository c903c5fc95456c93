//! Leases, on the clock of whoever watches them.
//!
//! The contract keeps leases on a monotonic clock, and processes on one Redis have none in common. So Redis keeps no deadline.
//! It keeps a *beat* for every lease, a number that grows with every claim and every extension; tasks that were claimed together share one. Whoever leads reads the beats
//! that are new to it and gives each of these leases its full length from that moment, on its own clock. A lease whose time
//! is over is noticed only if its beat is still the one that was timed. No clocks are compared, a lease never ends early, and
//! a new leader gives everybody one fresh window, as a restart does.

use std::collections::{BTreeSet, HashMap};

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
    /// The last one that there was then.
    last: Option<u64>,
}

#[derive(Debug, Clone)]
struct Timed {
    deadline: u64,
    beat: u64,
    worker: Name,
}

impl Watch {
    /// Times a lease; whether it is the next to end. One that is timed already keeps its time.
    fn hold(&mut self, seq: u64, held: &Held, now: Now) -> bool {
        if self.by_seq.get(&seq).is_some_and(|timed| timed.beat == held.beat) {
            return false;
        }
        let deadline = now.mono.saturating_add(held.window_ms);
        let next = self.by_deadline.first().is_none_or(|(first, _)| deadline < *first);
        self.end(seq);
        self.by_seq.insert(seq, Timed { deadline, beat: held.beat, worker: held.worker.clone() });
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
        self.by_deadline.insert((timed.deadline, seq));
    }

    /// Those that are over, and those of dead workers, with their beats.
    fn over(&self, expire: &Expire, now: Now, leads: bool) -> Vec<(u64, u64)> {
        let over = |(deadline, seq): &&(u64, u64)| {
            let timed = &self.by_seq[seq];
            (leads && *deadline <= now.mono) || expire.dead_workers.contains(&timed.worker)
        };
        let found = self.by_deadline.iter().filter(over).take(expire.limit);
        found.map(|(_, seq)| (*seq, self.by_seq[seq].beat)).collect()
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
        }
    }

    /// Forgets everything: whoever begins to lead gives everybody a fresh window.
    pub(super) fn clear(&mut self) {
        *self = Watch::default();
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
        if !self.link.is_first() && self.is_still().await? {
            return Ok(());
        }
        loop {
            let now = self.clock.now();
            let after = self.watch.lock().beat;
            let mut args = Args::new("");
            args.number(after).number(OBSERVE_MAX);
            let mut answers = reply::list(self.link.run(&script::OBSERVE, &args).await?)?.into_iter();
            let last = reply::number(answers.next().unwrap_or_default())?;
            if last < after {
                // Redis came back without its last writes. Beats are given again, so what was seen of them means nothing.
                *self.watch.lock() = Watch::default();
                continue;
            }
            let full = answers.len() as u64 >= OBSERVE_MAX;
            for lease in answers {
                let [from, till, beat, window, worker] = reply::fixed(lease)?;
                let held = held(beat, window, worker)?;
                let mut watch = self.watch.lock();
                watch.beat = watch.beat.max(held.beat.min(last));
                for seq in reply::number(from)?..=reply::number(till)? {
                    watch.hold(seq, &held, now);
                }
            }
            if !full {
                self.watch.lock().last = Some(last);
                return Ok(());
            }
        }
    }

    /// Whether no lease began or moved since the last look. A spread store has many parts, and most of them are idle.
    async fn is_still(&self) -> Result<bool, Error> {
        let Some(last) = self.watch.lock().last else { return Ok(false) };
        let beat = self.link.ask(redis::cmd("HGET").arg(self.key("meta")).arg("beat")).await?;
        Ok(last == if matches!(beat, redis::Value::Nil) { 0 } else { reply::number(beat)? })
    }

    pub(super) async fn expired(&self, expire: &Expire) -> Result<Due, Error> {
        self.check_open()?;
        let mark = self.leading().await?;
        if mark.is_some() {
            self.observe().await?;
        }
        let now = self.clock.now();
        let over = self.watch.lock().over(expire, now, mark.is_some());
        let mut due = Due::default();
        if !over.is_empty() {
            due.tasks = self.notice(&over, expire.dead_workers.is_empty(), now).await?;
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
        over: &[(u64, u64)],
        as_leader: bool,
        now: Now,
    ) -> Result<Vec<windlass_core::Task>, Error> {
        let mark = self.leader.mark().filter(|_| as_leader).unwrap_or_default();
        let mut args = Args::new("");
        args.text(&mark).number(over.len() as u64);
        for (seq, beat) in over {
            args.text(&row::name(*seq)).number(*beat);
        }
        let answer = self.link.run(&script::EXPIRE, &args).await?;
        if reply::is_text(&answer, "stranger") {
            self.leader.lose();
            return Ok(Vec::new());
        }
        let mut tasks = Vec::new();
        for ((seq, beat), answer) in over.iter().zip(reply::list(answer)?) {
            if matches!(answer, redis::Value::Nil) {
                self.forget_lease(*seq, *beat);
                continue;
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
        let now = self.clock.now();
        let mut args = Args::new("");
        args.number(now.wall).number(extensions.len() as u64);
        for Extend { id, token, lease_ms, progress } in &extensions {
            args.text(id.as_str()).number(token.number).text(&format!("{:016x}", token.secret));
            args.bound(*lease_ms).bytes(progress.as_ref().map(row::write_progress).unwrap_or_default());
        }
        let answers = reply::list(self.link.run(&script::EXTEND, &args).await?)?;
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
    let worker = reply::text(worker)?.parse().map_err(|_| reply::wrong("a lease with a wrong worker"))?;
    Ok(Held { beat: reply::number(beat)?, window_ms: reply::number(window)?, worker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_were_dropped_are_read_again_by_who_leads_again() {
        let held = Held { beat: 5, window_ms: 10, worker: Name::new("w").unwrap() };
        let at = |mono| Now { wall: 0, mono };
        let mut watch = Watch { beat: 5, last: Some(5), ..Watch::default() };
        watch.hold(1, &held, at(0));
        watch.drop_ended(at(5));
        assert_eq!((watch.by_seq.len(), watch.beat, watch.last), (1, 5, Some(5)), "it goes on");
        watch.drop_ended(at(20));
        assert_eq!((watch.by_seq.len(), watch.beat, watch.last), (0, 0, None));
    }
}
