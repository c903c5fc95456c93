//! Asking for tasks, and giving back what nobody took.

use std::fmt::Write as _;

use windlass_core::choice::{Draws, Mode};
use windlass_core::limits::{ANSWER_BYTES_MAX, CLAIM_EXPIRED_MAX, LANES_MAX, SHUT_MET_MAX};
use windlass_core::{Record, Stamp, State, Task, transition};

use super::Shared;
use super::commit::Decided;
use super::link::Args;
use super::row::{self, Row};
use super::taken::Taken;
use super::{reply, script};
use crate::store::{Claim, Committed, Error};

/// How often a call goes on behind tasks that expired.
const ROUNDS_MAX: usize = 8;
/// How often claims that got nothing are asked for again because a call met more that is shut than it may pass. Each call takes those
/// out of the way of all others, so as many as there can be at all are passed long before.
const BLIND_ROUNDS_MAX: usize = LANES_MAX / SHUT_MET_MAX;
/// Draws for the choices that lead to tasks which turn out to have expired.
const DRAWS_SPARE: usize = 64;

impl Shared {
    /// One call for several claims, and more for those that it leaves in doubt; the i-th answer belongs to the i-th claim.
    pub(super) async fn claim_all(&self, claims: &[&Claim]) -> Result<Vec<Taken>, Error> {
        let mut served: Vec<Taken> = Vec::new();
        served.resize_with(claims.len(), Taken::default);
        let mut open: Vec<usize> = (0..claims.len()).collect();
        let (mut lapsed, mut blind) = (0, 0);
        while !open.is_empty() && lapsed < ROUNDS_MAX && blind < BLIND_ROUNDS_MAX {
            let round = self.claim_once(claims, &open).await;
            let any = served.iter().any(|taken| !taken.is_empty());
            let Round { taken, expired, unsure } = match round {
                Ok(round) => round,
                // What was leased must reach those who claimed it.
                Err(error) if any => {
                    tracing::warn!(%error, "some claims look again later");
                    break;
                }
                Err(error) => return Err(error),
            };
            let found = any || taken.iter().any(|taken| !taken.is_empty());
            open.iter().zip(taken).for_each(|(i, taken)| served[*i] = taken);
            if !expired.is_empty() {
                let cancelled = self.cancel_expired(&expired, self.clock.now().stamp()).await;
                if !found {
                    cancelled?;
                    lapsed += 1;
                    continue;
                }
                // The same; whoever leads cancels the others.
                if let Err(error) = cancelled {
                    tracing::warn!(%error, "expired tasks are cancelled later");
                }
            }
            let mut unsure = unsure.into_iter();
            open.retain(|i| unsure.next().unwrap_or(false) && served[*i].is_empty());
            blind += 1;
        }
        Ok(served)
    }

    pub(super) async fn claim_one(&self, claim: &Claim) -> Result<Vec<Task>, Error> {
        self.unpack(self.claim_all(&[claim]).await?.pop().unwrap_or_default())
    }

    /// One call for some of the claims.
    async fn claim_once(&self, claims: &[&Claim], open: &[usize]) -> Result<Round, Error> {
        let asked: Vec<&Claim> = open.iter().map(|i| claims[*i]).collect();
        let answer = self.link.run(&script::CLAIM, &arguments(&asked, self.clock.now().wall)).await?;
        // Leases are timed from here: Redis may have been away for long.
        let now = self.clock.now();
        let [expired, answers, unsure] = reply::fixed(answer)?;
        let answers = reply::list(answers)?.into_iter();
        let taken = answers.map(|answer| Taken::new(answer, now)).collect::<Result<_, _>>()?;
        let expired = row::rows(expired)?.into_iter().map(|row| row.record).collect();
        let unsure = reply::list(unsure)?.iter().map(|flag| reply::is_text(flag, "1")).collect();
        Ok(Round { taken, expired, unsure })
    }

    /// The tasks that a claim got. From here on their leases are watched.
    pub(super) fn unpack(&self, taken: Taken) -> Result<Vec<Task>, Error> {
        let now = taken.at;
        let rows = taken.rows()?;
        self.recent.remember(rows.iter().map(|row| &row.record));
        self.watch_leases(&rows, now);
        rows.into_iter().map(Row::task).collect()
    }

    /// Somebody else may have changed them meanwhile, which is as good.
    async fn cancel_expired(&self, records: &[Record], now: Stamp) -> Result<(), Error> {
        let ticked = |record: &Record| Some((record.clone(), transition::tick(record, now).ok()??));
        let decided = records.iter().filter_map(ticked).map(Decided::plain).collect();
        for committed in self.write_all(decided).await? {
            if let Committed::Done(record) = committed {
                self.signals.lapsed.push(*record);
                self.signals.due.notify_one();
            }
        }
        Ok(())
    }

    /// Takes back what a caller that went away was served.
    pub(super) async fn give_back(&self, tasks: Vec<Task>) {
        let now = self.clock.now();
        let released = |Task { record, .. }: Task| {
            let State::Running(lease) = &record.state else { return None };
            let change = transition::release(&record, lease.token, None, now).ok()??;
            Some(Decided::plain((record, change)))
        };
        let decided: Vec<Decided> = tasks.into_iter().filter_map(released).collect();
        if let Err(error) = self.write_all(decided).await {
            tracing::warn!(%error, "tasks that nobody took come back when their leases run out");
        }
    }
}

/// What one call answered.
struct Round {
    /// Of each claim.
    taken: Vec<Taken>,
    expired: Vec<Record>,
    /// Whether there may be something behind what was passed, for each claim that got nothing.
    unsure: Vec<bool>,
}

/// The arguments of `lua/claim.lua`.
fn arguments(claims: &[&Claim], now: u64) -> Args {
    let mut args = Args::new("");
    args.number(now).number(ANSWER_BYTES_MAX as u64).number(CLAIM_EXPIRED_MAX as u64);
    args.number(claims.len() as u64);
    for claim in claims {
        let mode = match claim.mode {
            Mode::Weighted => "weighted",
            Mode::Strict => "strict",
        };
        args.text(claim.worker.as_str()).number(claim.lease_ms).text(mode).number(u64::from(claim.max));
        args.text(&draws(claim));
        match &claim.types {
            None => args.text("-1"),
            Some(types) => args.number(types.len() as u64),
        };
        for kind in claim.types.iter().flatten() {
            args.text(kind.as_str());
        }
        args.number(claim.queues.len() as u64);
        for queue in &claim.queues {
            args.text(queue.name.as_str()).number(u64::from(queue.weight));
        }
    }
    args
}

/// Enough numbers for the choices between queues and the secrets of the tokens.
fn draws(claim: &Claim) -> String {
    let chooses = claim.mode == Mode::Weighted && claim.queues.len() > 1;
    let count = claim.max as usize * if chooses { 2 } else { 1 } + DRAWS_SPARE;
    let mut draws = Draws::new(claim.seed);
    (0..count).fold(String::with_capacity(count * 16), |mut text, _| {
        let _ = write!(text, "{:016x}", draws.next_u64());
        text
    })
}
