//! Asking for tasks, and giving back what nobody took.

use std::fmt::Write as _;

use windlass_core::choice::{Draws, Mode};
use windlass_core::limits::{ANSWER_BYTES_MAX, CLAIM_EXPIRED_MAX};
use windlass_core::{Record, State, Task, transition};

use super::Shared;
use super::commit::Decided;
use super::link::Args;
use super::row::{self, Row};
use super::{reply, script};
use crate::store::{Claim, Committed, Error};

/// How often a call goes on behind tasks that expired.
const ROUNDS_MAX: usize = 8;
/// Draws for the choices that lead to tasks which turn out to have expired.
const DRAWS_SPARE: usize = 64;

impl Shared {
    /// One call for several claims; the i-th answer belongs to the i-th claim.
    pub(super) async fn claim_all(&self, claims: &[&Claim]) -> Result<Vec<Vec<Task>>, Error> {
        let mut served = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let now = self.clock.now();
            let answer = self.link.run(&script::CLAIM, &arguments(claims, now.wall)).await?;
            let [expired, answers] = reply::fixed(answer)?;
            served = Vec::with_capacity(claims.len());
            for answer in reply::list(answers)? {
                let rows = row::rows(answer)?;
                for Row { record, held, .. } in &rows {
                    if let Some(held) = held {
                        self.watch_lease(record.seq, held, now);
                    }
                }
                served.push(rows.into_iter().map(Row::task).collect::<Result<Vec<_>, _>>()?);
            }
            let expired: Vec<Record> = row::rows(expired)?.into_iter().map(|row| row.record).collect();
            if expired.is_empty() {
                break;
            }
            let cancelled = self.cancel_expired(&expired, now.wall).await;
            if served.iter().any(|tasks| !tasks.is_empty()) {
                // What was leased must reach those who claimed it; whoever leads cancels the others.
                if let Err(error) = cancelled {
                    tracing::warn!(%error, "expired tasks are cancelled later");
                }
                break;
            }
            cancelled?;
        }
        Ok(served)
    }

    /// Somebody else may have changed them meanwhile, which is as good.
    async fn cancel_expired(&self, records: &[Record], now: u64) -> Result<(), Error> {
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
        let now = self.clock.now().wall;
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
