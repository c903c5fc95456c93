//! Who gets which task.

use tokio::sync::oneshot;
use windlass_core::choice::{self, Draws};
use windlass_core::flow::Next;
use windlass_core::limits::ANSWER_BYTES_MAX;
use windlass_core::{Name, Now, State, Task, Token, transition};

use super::ready::Source;
use super::tables::Tables;
use crate::store::{Claim, Error};
use crate::waiting::Ticket;

/// A claim that waits, on the side of the store.
#[derive(Debug)]
pub(super) struct Waiter {
    claim: Claim,
    reply: oneshot::Sender<Vec<Task>>,
}

impl Tables {
    /// Leases what there is for a claim.
    pub(super) fn serve(&mut self, claim: &Claim, now: Now) -> Vec<Task> {
        if claim.max == 0 {
            return Vec::new();
        }
        self.ready.flow.advance(now.wall);
        let source = |name: &Name| self.ready.source(name, claim.types.as_deref());
        let sources: Vec<Option<Source>> = claim.queues.iter().map(|queue| source(&queue.name)).collect();
        let mut draws = Draws::new(claim.seed);
        let mut served = Vec::new();
        let mut bytes = 0;
        while served.len() < claim.max as usize && bytes < ANSWER_BYTES_MAX {
            let best = |i: usize| self.best(&claim.queues[i].name, sources[i].as_ref()?);
            let picked = choice::pick(claim.mode, &claim.queues, &mut draws, |i| best(i).is_some());
            let Some((i, next)) = picked.and_then(|i| Some((i, best(i)?))) else { break };
            let seq = self.ready.seq(&next);
            let record = &self.tasks[&seq].record;
            if let Ok(Some(expired)) = transition::tick(record, now) {
                self.change(seq, &expired, now);
                self.signals.lapsed.push(self.tasks[&seq].record.clone());
                self.signals.due.notify_one();
                continue;
            }
            let token = Token { number: self.claims + 1, secret: draws.next_u64() };
            let input = transition::Claim { token, worker: claim.worker.clone(), lease_ms: claim.lease_ms };
            let claimed = transition::claim(record, input, now).expect("a ready task that has not expired");
            self.claims += 1;
            if let Some(source) = &sources[i] {
                self.ready.start(&next, source, now.wall);
            }
            self.change(seq, &claimed, now);
            let task = self.tasks[&seq].clone();
            bytes += task.bytes();
            served.push(task);
        }
        self.tell_gates();
        served
    }

    /// The next ready task of a queue among the wanted types.
    fn best(&self, queue: &Name, source: &Source) -> Option<Next> {
        if self.queues.get(queue)?.counts.paused {
            return None;
        }
        self.ready.best(source)
    }

    fn has_ready(&self, queue: &Name, kind: &Name) -> bool {
        let source = self.ready.source(queue, Some(std::slice::from_ref(kind)));
        source.and_then(|source| self.best(queue, &source)).is_some()
    }

    fn next_readied(&mut self) -> Option<(Name, Name)> {
        let opened = self.ready.opened();
        self.readied.extend(opened);
        self.readied.pop_front()
    }

    pub(super) fn wait(&mut self, claim: Claim, reply: oneshot::Sender<Vec<Task>>) -> Result<Ticket, Error> {
        let queues = claim.queues.iter().map(|queue| queue.name.clone()).collect();
        let types = claim.types.clone();
        self.waiting.register(queues, types, Waiter { claim, reply })
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(ticket);
    }

    /// Hands what became ready to those who wait for it, in the order in which they came.
    pub(super) fn serve_waiting(&mut self, now: Now) {
        // Giving back what nobody received makes tasks ready again, so this runs until it is quiet.
        while let Some((queue, kind)) = self.next_readied() {
            while self.has_ready(&queue, &kind) {
                let Some((ticket, waiter)) = self.waiting.first(&queue, &kind) else { break };
                let claim = waiter.claim.clone();
                let tasks = self.serve(&claim, now);
                if tasks.is_empty() {
                    // All that it wanted had expired; it keeps its place.
                    continue;
                }
                let waiter = self.waiting.remove(ticket).expect("it was just found");
                if let Err(tasks) = waiter.reply.send(tasks) {
                    self.release(&tasks, now);
                }
            }
        }
    }

    /// Takes back what a caller that went away was served.
    pub(super) fn give_back(&mut self, tasks: &[Task], now: Now) {
        self.release(tasks, now);
        self.serve_waiting(now);
    }

    fn release(&mut self, tasks: &[Task], now: Now) {
        for Task { record, .. } in tasks {
            let State::Running(lease) = &record.state else { continue };
            // A task that changed meanwhile is not in the gone caller's hands any more.
            let Some(current) =
                self.tasks.get(&record.seq).filter(|task| task.record.revision == record.revision)
            else {
                continue;
            };
            if let Ok(Some(released)) = transition::release(&current.record, lease.token, None, now) {
                self.change(record.seq, &released, now);
            }
        }
    }
}
