//! Choosing the next tasks for a worker.

use windlass_core::choice::{self, Draws};
use windlass_core::limits::{ANSWER_BYTES_MAX, CLAIM_EXPIRED_MAX};
use windlass_core::transition::{self, Claim as Input};
use windlass_core::{Name, Refusal, Task, Token};

use super::{Machine, decode_body, missing};
use crate::embedded::index::{Beyond, Place};
use crate::store::{Claim, Error};

/// The next task of a source: its place, and its lane.
type Head = (Place, u32);

/// One queue of a claim, by number, with the lanes it may be served from (`None`: all).
#[derive(Debug)]
struct Source {
    queue: u32,
    lanes: Option<Vec<u32>>,
}

impl Machine {
    /// Whether a claim would get something now.
    pub(in crate::embedded) fn has_work(&self, claim: &Claim) -> bool {
        let mut sources =
            claim.queues.iter().filter_map(|queue| self.source(&queue.name, claim.types.as_deref()));
        sources.any(|source| self.best(&source).is_some())
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: u64) -> Result<Vec<Task>, Error> {
        let mut draws = Draws::new(claim.seed);
        let sources: Vec<Option<Source>> =
            claim.queues.iter().map(|queue| self.source(&queue.name, claim.types.as_deref())).collect();
        let mut heads: Vec<Option<Head>> =
            sources.iter().map(|source| source.as_ref().and_then(|source| self.best(source))).collect();
        let mut tasks: Vec<Task> = Vec::new();
        let mut bytes = 0;
        let mut expired = 0;
        while tasks.len() < claim.max as usize && bytes < ANSWER_BYTES_MAX && expired < CLAIM_EXPIRED_MAX {
            let Some(i) = choice::pick(claim.mode, &claim.queues, &mut draws, |i| heads[i].is_some()) else {
                break;
            };
            let Some((place, lane)) = heads[i] else { break };
            match self.lease(lane, place, claim, &mut draws, now)? {
                Some(task) => {
                    bytes += task.bytes();
                    tasks.push(task);
                }
                None => expired += 1,
            }
            let queue = self.names.queue_of_lane(lane);
            for (head, source) in heads.iter_mut().zip(&sources) {
                if let Some(source) = source.as_ref().filter(|source| source.queue == queue) {
                    *head = self.best(source);
                }
            }
        }
        Ok(tasks)
    }

    /// Leases the task at the head of a lane; `None` if it expired and was cancelled instead.
    fn lease(
        &mut self,
        lane: u32,
        place: Place,
        claim: &Claim,
        draws: &mut Draws,
        now: u64,
    ) -> Result<Option<Task>, Error> {
        let dirty = |seq| self.dirty.contains(seq);
        let head = self.index.first(lane, &Beyond { snapshot: &self.snapshot, dirty: &dirty })?;
        let seq = head
            .filter(|(found, _)| *found == place)
            .map(|(_, seq)| seq)
            .ok_or_else(|| Error::Damaged(format!("the head of lane {lane} is not where it should be")))?;
        let number = self.next_claim;
        let record = &self.slot(seq)?.ok_or_else(|| missing(seq))?.record;
        let input = |secret| Input {
            token: Token { number, secret },
            worker: claim.worker.clone(),
            lease_ms: claim.lease_ms,
        };
        // The secret is drawn only for a task that is given out.
        let mut ahead = draws.clone();
        let change = match transition::claim(record, input(ahead.next_u64()), now) {
            Ok(change) => change,
            Err(Refusal::Expired) => {
                let change = transition::tick(record, now).ok().flatten().ok_or_else(|| missing(seq))?;
                self.change(seq, &change)?;
                return Ok(None);
            }
            Err(refusal) => {
                return Err(Error::Damaged(format!(
                    "task {seq} is in line but cannot be claimed: {refusal}"
                )));
            }
        };
        *draws = ahead;
        self.next_claim += 1;
        let record = self.change(seq, &change)?;
        Ok(Some(Task { record, body: decode_body(seq, self.body(seq)?)? }))
    }

    fn source(&self, queue: &Name, types: Option<&[Name]>) -> Option<Source> {
        let queue = self.names.queue_number(queue)?;
        let lanes =
            types.map(|types| types.iter().filter_map(|kind| self.names.lane_number(queue, kind)).collect());
        Some(Source { queue, lanes })
    }

    fn best(&self, source: &Source) -> Option<Head> {
        let queue = self.names.queue(source.queue);
        if queue.paused {
            return None;
        }
        match &source.lanes {
            None => queue.heads.first_key_value().map(|(place, lane)| (*place, *lane)),
            Some(lanes) => lanes.iter().filter_map(|lane| Some((self.names.head(*lane)?, *lane))).min(),
        }
    }
}
