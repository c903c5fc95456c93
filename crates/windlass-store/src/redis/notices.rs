//! Detects problems of a Redis that still serves: it lost its data set, may evict tasks, or is shared by processes whose clocks
//! differ. None of these fails a call, so they have to be looked for.
//!
//! Every process calls `lua/rollcall.lua` regularly. Each call stores a number that grows, and reads the number of the call
//! before. If that number is missing or lower, Redis lost it, and everything else that was written since. A data set also has a
//! random name, which is lost with it. Clocks are compared through the clock of the server, which all processes share: each
//! process stores how far its own clock is from it, measured over a round trip. A problem is logged when it begins and when it
//! is over, and `/health` shows it meanwhile. A loss stays there until the process ends.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::link::Args;
use super::{Shared, reply, script};
use crate::store::Error;

/// How often a process checks, and so how long a problem may go unnoticed. A clock difference takes longer, because it has to be
/// seen twice.
const EVERY: Duration = Duration::from_secs(10);
/// The largest clock difference that is not reported. Beyond it delays and schedules are noticeably off.
const SKEW_MS_MAX: u64 = 5000;
/// A clock difference that was measured over a longer round trip is ignored.
const ROUND_TRIP_MS_MAX: u64 = 1000;
/// How long a process counts as present after its last call.
const PRESENT_MS: u64 = 45_000;
/// How long the record of a process is kept after its last call.
const KEPT_MS: u64 = 600_000;

#[derive(Debug, Default)]
pub(super) struct Notices {
    state: Mutex<Noticed>,
}

#[derive(Debug, Default)]
struct Noticed {
    /// The number of the last call, whether or not an answer came.
    call: u64,
    answered: Option<Answered>,
    /// The clock of this process minus the clock of the server.
    offset_ms: Option<i64>,
    /// The process whose clock differed most at the last call.
    suspect: Option<String>,
    lost: Option<&'static str>,
    evicts: Option<String>,
    skewed: Option<Skewed>,
}

/// The last answer.
#[derive(Debug)]
struct Answered {
    call: u64,
    set: String,
    /// The time of the answer, on the clock of the server.
    at: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Skewed {
    who: String,
    text: String,
}

const LOST: &str = "Redis lost its data set (FLUSHALL, or a restart without it): tasks that were acknowledged before are gone";
const OLDER: &str = "Redis came back with an older data set: what was acknowledged since is gone";

impl Notices {
    pub(super) fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        let skewed = state.skewed.as_ref().map(|skewed| skewed.text.clone());
        let all = [state.lost.map(str::to_owned), state.evicts.clone(), skewed];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Notes that a part of a spread store lost its data.
    pub(super) fn lose_part(&self) {
        self.state.lock().lose(LOST);
    }
}

impl Noticed {
    fn lose(&mut self, how: &'static str) {
        tracing::error!("{how}");
        self.lost = Some(how);
    }

    /// Compares what Redis returned with what this process stored there.
    fn compare(&mut self, set: String, found: Option<u64>, call: u64, at: u64) {
        if let Some(before) = &self.answered {
            // Other processes remove the record of a process that was silent for very long.
            let kept = at.saturating_sub(before.at) < KEPT_MS / 2;
            if before.set != set {
                self.lose(LOST);
            } else if found.map_or(kept, |found| found < before.call) {
                self.lose(OLDER);
            }
        }
        self.answered = Some(Answered { call, set, at });
    }

    fn examine_policy(&mut self, policy: Option<String>) {
        let text = policy.map(|policy| {
            format!(
                "Redis may drop tasks when it is full: its maxmemory-policy is {policy}; set it to noeviction"
            )
        });
        match (&self.evicts, &text) {
            (before, Some(text)) if before.as_ref() != Some(text) => tracing::error!("{text}"),
            (Some(_), None) => tracing::info!("the maxmemory-policy of Redis is noeviction again"),
            _ => {}
        }
        self.evicts = text;
    }

    /// Finds the process whose clock differs most. It must be seen twice: after the clock of the server was set, or after a
    /// failover, only one call looks wrong.
    fn compare_clocks(&mut self, others: &[Other]) {
        let Some(own) = self.offset_ms else { return };
        let ahead = |other: &&Other| other.offset_ms.saturating_sub(own);
        let worst = others.iter().max_by_key(|other| ahead(other).unsigned_abs());
        let worst = worst.filter(|other| ahead(other).unsigned_abs() > SKEW_MS_MAX);
        let suspect = std::mem::replace(&mut self.suspect, worst.map(|other| other.who.clone()));
        let seen_twice = |other: &&Other| suspect.as_ref() == Some(&other.who);
        let known = |other: &&Other| self.skewed.as_ref().is_some_and(|skewed| skewed.who == other.who);
        let skewed = worst.filter(|other| seen_twice(other) || known(other)).map(|other| {
            let (ms, way) = (ahead(&other), if ahead(&other) > 0 { "ahead of" } else { "behind" });
            let seconds = ms.unsigned_abs().div_ceil(1000);
            let text = format!("the clock of {} is {seconds} s {way} the clock of this process", other.name);
            Skewed { who: other.who.clone(), text }
        });
        match (&self.skewed, &skewed) {
            (before, Some(now)) if before.as_ref().is_none_or(|before| before.who != now.who) => {
                tracing::warn!("{}; delays and schedules are off by as much", now.text);
            }
            (Some(_), None) if worst.is_none() => {
                tracing::info!("the clocks of all processes on this Redis agree again");
            }
            _ => {}
        }
        if skewed.is_some() || worst.is_none() {
            self.skewed = skewed;
        }
    }
}

/// Another process on this Redis.
#[derive(Debug)]
struct Other {
    who: String,
    name: String,
    offset_ms: i64,
}

impl Shared {
    /// Checks regularly until the store is closed.
    pub(super) async fn keep_looking(self: Arc<Self>) {
        loop {
            // sleep: nothing signals these problems.
            tokio::time::sleep(EVERY).await;
            if self.check_open().is_err() {
                return;
            }
            self.look().await;
        }
    }

    /// Checks once. A failed check is only logged: calls that need Redis notice that it cannot be reached.
    pub(super) async fn look(&self) {
        if let Err(error) = self.look_around().await {
            tracing::debug!(%error, "cannot check the state of Redis");
        }
    }

    pub(super) async fn look_around(&self) -> Result<(), Error> {
        self.call_roll().await?;
        let mut evicts = None;
        for info in self.link.ask_all(redis::cmd("INFO").arg("memory")).await? {
            let info = reply::text(info)?;
            let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).map(str::trim);
            evicts = evicts.or(policy.filter(|policy| *policy != "noeviction").map(str::to_owned));
        }
        self.notices.state.lock().examine_policy(evicts);
        Ok(())
    }

    async fn call_roll(&self) -> Result<(), Error> {
        let (call, offset) = {
            let mut state = self.notices.state.lock();
            state.call += 1;
            (state.call, state.offset_ms)
        };
        let mut args = Args::new("");
        args.text(&self.origin).text(&name_of_process()).number(call);
        args.text(&offset.map_or(String::new(), |offset| offset.to_string()));
        args.text(&format!("{:016x}", rand::random::<u64>())).number(PRESENT_MS).number(KEPT_MS);
        let before = self.clock.now();
        let answer = self.link.run(&script::ROLLCALL, &args).await?;
        let after = self.clock.now();
        let [set, found, at, others] = reply::fixed(answer)?;
        let at = reply::number(at)?;
        let found = reply::text(found)?.parse().ok();
        let others = reply::list(others)?.into_iter().map(other).collect::<Result<Vec<_>, _>>()?;
        let mut state = self.notices.state.lock();
        let round_trip_ms = after.mono.saturating_sub(before.mono);
        if at > 0 && round_trip_ms <= ROUND_TRIP_MS_MAX {
            state.offset_ms = Some((before.wall + round_trip_ms / 2).cast_signed() - at.cast_signed());
        }
        state.compare(reply::text(set)?, found, call, at);
        state.compare_clocks(&others);
        Ok(())
    }
}

fn other(answer: redis::Value) -> Result<Other, Error> {
    let [who, name, offset] = reply::fixed(answer)?;
    let wrong = |_| reply::wrong("a clock that is no number");
    let offset_ms = reply::text(offset)?.parse().map_err(wrong)?;
    Ok(Other { who: reply::text(who)?, name: reply::text(name)?, offset_ms })
}

/// The name of this process for people.
fn name_of_process() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("process {} on {host}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_clock(who: &str, offset_ms: i64) -> Other {
        Other { who: who.to_owned(), name: format!("process 7 on {who}"), offset_ms }
    }

    fn skew(state: &Noticed) -> &str {
        state.skewed.as_ref().map_or("", |skewed| &skewed.text)
    }

    #[test]
    fn a_clock_that_differs_is_named_when_it_was_seen_twice() {
        let mut state = Noticed { offset_ms: Some(-40), ..Noticed::default() };
        state.compare_clocks(&[with_clock("a", 4950), with_clock("b", -5030)]);
        state.compare_clocks(&[with_clock("a", 4950), with_clock("b", -5030)]);
        assert_eq!(skew(&state), "", "five seconds are no difference");
        state.compare_clocks(&[with_clock("a", 3_599_970), with_clock("b", 10)]);
        assert_eq!(skew(&state), "");
        state.compare_clocks(&[with_clock("a", 3_599_950)]);
        assert_eq!(skew(&state), "the clock of process 7 on a is 3600 s ahead of the clock of this process");
        state.compare_clocks(&[with_clock("a", -10_000)]);
        assert_eq!(skew(&state), "the clock of process 7 on a is 10 s behind the clock of this process");
        // Another one is worse now, and is believed when it was seen twice.
        state.compare_clocks(&[with_clock("a", -10_000), with_clock("c", 60_000)]);
        state.compare_clocks(&[with_clock("a", -10_000), with_clock("c", 60_000)]);
        assert!(skew(&state).starts_with("the clock of process 7 on c is 61 s ahead"), "{}", skew(&state));
        state.compare_clocks(&[with_clock("a", 0)]);
        assert_eq!(skew(&state), "");
    }

    #[test]
    fn a_loss_is_told_from_a_call_without_an_answer() {
        let lost = |calls: &[(&str, Option<u64>, u64, u64)]| {
            let mut state = Noticed::default();
            for (set, found, call, at) in calls {
                state.compare((*set).to_owned(), *found, *call, *at);
            }
            state.lost
        };
        assert_eq!(lost(&[("s", None, 1, 10), ("s", Some(1), 2, 20), ("s", Some(2), 3, 30)]), None);
        // The second one had no answer, and was carried out or not; the third one was sent again.
        assert_eq!(lost(&[("s", None, 1, 10), ("s", Some(2), 3, 30), ("s", Some(4), 4, 40)]), None);
        assert_eq!(lost(&[("s", None, 1, 10), ("s", Some(1), 3, 30)]), None);
        assert_eq!(lost(&[("s", None, 1, 10), ("t", None, 2, 20)]), Some(LOST));
        assert_eq!(lost(&[("s", None, 1, 10), ("t", Some(1), 2, 20)]), Some(LOST));
        assert_eq!(lost(&[("s", None, 1, 10), ("s", Some(1), 2, 20), ("s", Some(1), 3, 30)]), Some(OLDER));
        assert_eq!(lost(&[("s", None, 1, 10), ("s", None, 2, 20)]), Some(OLDER));
        assert_eq!(lost(&[("s", None, 1, 10), ("s", None, 2, 10 + KEPT_MS)]), None, "it was forgotten");
    }
}
