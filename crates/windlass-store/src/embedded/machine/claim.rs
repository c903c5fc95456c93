//! Choosing the next tasks for a worker.

use windlass_core::choice::{self, Draws};
use windlass_core::flow::Next;
use windlass_core::limits::{ANSWER_BYTES_MAX, CLAIM_EXPIRED_MAX};
use windlass_core::transition::{self, Claim as Input};
use windlass_core::{Name, Refusal, Stamp, Task, Token};

use super::{Machine, decode_body, missing};
use crate::embedded::dirty::READY_LANES;
use crate::embedded::index::Beyond;
use crate::embedded::names::lane_of;
use crate::store::{Claim, Error};

/// Room that a claim makes for its tasks with the first of them: a task is large, and moving it costs as much as finding it.
const TASKS_AT_ONCE: u32 = 128;

/// One queue of a claim, by number, with the lanes it may be served from, as the flow numbers them (`None`: all).
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
        let flow = &self.names.flow;
        // The time of a claim may open what is closed.
        (flow.has_alarms() && flow.is_due(self.clock.now().wall))
            || sources.any(|source| self.best(&source).is_some())
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: Stamp) -> Result<Vec<Task>, Error> {
        self.names.flow.advance(now.wall);
        let mut draws = Draws::new(claim.seed);
        let sources: Vec<Option<Source>> =
            claim.queues.iter().map(|queue| self.source(&queue.name, claim.types.as_deref())).collect();
        let mut heads: Vec<Option<Next>> =
            sources.iter().map(|source| source.as_ref().and_then(|source| self.best(source))).collect();
        let mut tasks: Vec<Task> = Vec::new();
        let mut bytes = 0;
        let mut expired = 0;
        while tasks.len() < claim.max as usize && bytes < ANSWER_BYTES_MAX && expired < CLAIM_EXPIRED_MAX {
            let Some(i) = choice::pick(claim.mode, &claim.queues, &mut draws, |i| heads[i].is_some()) else {
                break;
            };
            let (Some(next), Some(source)) = (heads[i], &sources[i]) else { break };
            let gates = self.names.flow.turns_of_gates();
            match self.lease(&next, source, claim, &mut draws, now)? {
                Some(task) => {
                    bytes += task.bytes();
                    if tasks.is_empty() {
                        tasks.reserve_exact(claim.max.min(TASKS_AT_ONCE) as usize);
                    }
                    tasks.push(task);
                }
                None => expired += 1,
            }
            // A limit may reach over queues.
            let turned = self.names.flow.turns_of_gates() != gates;
            let queue = source.queue;
            for (head, source) in heads.iter_mut().zip(&sources) {
                if let Some(source) = source.as_ref().filter(|source| turned || source.queue == queue) {
                    *head = self.best(source);
                }
            }
        }
        Ok(tasks)
    }

    /// Leases the task at the head of a lane; `None` if it expired and was cancelled instead.
    fn lease(
        &mut self,
        next: &Next,
        source: &Source,
        claim: &Claim,
        draws: &mut Draws,
        now: Stamp,
    ) -> Result<Option<Task>, Error> {
        let lane = lane_of(next);
        let dirty = |seq| self.dirty.contains(seq);
        let beyond = Beyond { snapshot: &self.snapshot, dirty: &dirty };
        let head = if self.names.ages(lane) {
            self.index.first_at(lane, next.place.0, &beyond)?
        } else {
            self.index.first(lane, &beyond)?
        };
        let seq = head
            .filter(|(found, _)| *found == next.place)
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
                let record = self.change(seq, &change)?;
                self.signals.lapsed.push(record);
                self.signals.due.notify_one();
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
        self.names.flow.start(next, source.lanes.as_deref(), now.wall);
        let record = self.change(seq, &change)?;
        Ok(Some(Task { record, body: decode_body(seq, self.body(seq)?)? }))
    }

    fn source(&self, queue: &Name, types: Option<&[Name]>) -> Option<Source> {
        let queue = self.names.queue_number(queue)?;
        let lane = |kind: &Name| self.names.lane_number(queue, kind).map(|lane| lane - READY_LANES);
        Some(Source { queue, lanes: types.map(|types| types.iter().filter_map(lane).collect()) })
    }

    fn best(&self, source: &Source) -> Option<Next> {
        if self.names.queue(source.queue).paused {
            return None;
        }
        self.names.flow.best(source.queue, source.lanes.as_deref())
    }
}
