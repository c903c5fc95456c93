//! Claims that wait, in the process in which they were asked.
//!
//! A claim that may wait takes its place in line before anything else happens. One task per store then asks Redis on behalf of
//! those who are new and of those whose lane got something, in the order in which they came, several in one call. While a
//! call is under way others gather for the next one, so a busy process makes few calls and an idle one none.
//!
//! - Verbs that may make a task ready, and claims that do not wait, first let everybody who came before them have a first look
//!   ([`Waits::settled`]), so nobody who came later is served with what one who came earlier did not see. Batches of completions do not
//!   wait for that: what they make room for is found by the next claim, and none goes past those who wait.
//! - A claim whose wait ends while Redis is asked for it takes the answer of that call (`waits/caller.rs`): what it was leased has used
//!   a token of a rate limit, which giving it back would waste.
//! - A caller that went away is noticed when its tasks are to be handed over, or by its own end; the tasks go back.

mod caller;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use windlass_core::limits::CLAIM_PAIRS_MAX;
use windlass_core::{Name, Task};

use super::Shared;
use super::hints::Lane;
use super::taken::Taken;
use crate::store::{Claim, Error};
use crate::waiting::{Ticket, Waiting};

/// Claims that are asked for by one call.
const CALL_CLAIMS_MAX: usize = 32;
/// Tasks that they want together; a single claim may want more. While these are read here, Redis serves the next.
const CALL_TASKS_MAX: usize = 400;
/// How long to leave Redis alone after it failed.
const PAUSE: Duration = Duration::from_millis(500);

type Reply = oneshot::Sender<Result<Vec<Task>, Error>>;

#[derive(Debug)]
pub(super) struct Waits {
    inner: Mutex<Inner>,
    work: Notify,
    /// The number of the last arrival that had its first look.
    looked: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    waiting: Waiting<Waiter>,
    fresh: VecDeque<(u64, Ticket)>,
    arrivals: u64,
    lanes: BTreeSet<Lane>,
    /// Those for whom Redis is being asked.
    asked: BTreeSet<Ticket>,
    /// The pair of queue and type that was asked for last: those behind it are next.
    turn: Option<(Name, Name)>,
}

#[derive(Debug)]
struct Waiter {
    claim: Claim,
    reply: Reply,
    /// Its wait ended while Redis was asked: nothing is an answer too.
    is_over: bool,
}

impl Default for Waits {
    fn default() -> Self {
        Self { inner: Mutex::default(), work: Notify::new(), looked: watch::channel(0).0 }
    }
}

impl Waits {
    /// Something may be ready there.
    pub(super) fn wake(&self, lanes: &BTreeSet<Lane>) {
        if lanes.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.waiting.is_empty() {
            return;
        }
        inner.lanes.extend(lanes.iter().cloned());
        drop(inner);
        self.work.notify_one();
    }

    /// Waits until everybody who stands in line by now has had a first look.
    pub(super) async fn settled(&self) {
        let target = {
            let inner = self.inner.lock();
            if inner.closed {
                return;
            }
            inner.arrivals
        };
        if *self.looked.borrow() >= target {
            return;
        }
        let mut looked = self.looked.subscribe();
        // It ends with the store.
        let _ = looked.wait_for(|looked| *looked >= target).await;
    }

    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        // Whoever waits learns it by the end of its channel.
        inner.waiting.clear();
        let arrivals = inner.arrivals;
        drop(inner);
        self.looked.send_replace(arrivals);
        self.work.notify_one();
    }

    fn enter(&self, claim: Claim, reply: Reply) -> Result<Ticket, Error> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Error::Closed);
        }
        let queues = claim.queues.iter().map(|queue| queue.name.clone()).collect();
        let types = claim.types.clone();
        let ticket = inner.waiting.register(queues, types, Waiter { claim, reply, is_over: false })?;
        inner.arrivals += 1;
        let arrival = inner.arrivals;
        inner.fresh.push_back((arrival, ticket));
        drop(inner);
        self.work.notify_one();
        Ok(ticket)
    }

    fn leave(&self, ticket: Ticket) {
        self.inner.lock().waiting.remove(ticket);
    }

    /// Leaves the line, unless an answer is on its way: then it says so, and that answer is the last.
    fn leave_or_await(&self, ticket: Ticket) -> bool {
        let mut inner = self.inner.lock();
        let is_asked = inner.asked.contains(&ticket);
        match inner.waiting.get_mut(ticket) {
            Some(waiter) if is_asked => {
                waiter.is_over = true;
                true
            }
            Some(_) => {
                inner.waiting.remove(ticket);
                false
            }
            // It was taken out of the line to be served.
            None => true,
        }
    }

    /// Those to ask for next: the first of each lane that got something, in turns, and those who are new. Neither takes more than
    /// half of a call from the other.
    fn gather(&self) -> Round {
        let mut inner = self.inner.lock();
        let mut round = Round::default();
        let lanes = std::mem::take(&mut inner.lanes);
        let pairs: BTreeSet<(Name, Name)> = lanes.iter().flat_map(|lane| inner.pairs(lane)).collect();
        let most = CALL_CLAIMS_MAX - inner.fresh.len().min(CALL_CLAIMS_MAX / 2);
        let had = |pair: &(Name, Name)| inner.turn.as_ref().is_some_and(|turn| pair <= turn);
        let (had, due): (Vec<_>, Vec<_>) = pairs.into_iter().partition(had);
        let mut full = false;
        for (queue, kind) in due.into_iter().chain(had) {
            let Some((ticket, waiter)) = inner.waiting.first(&queue, &kind) else { continue };
            let claim = waiter.claim.clone();
            let lane = Lane::Type(queue.clone(), kind.clone());
            if !full && round.asked.len() < most && round.takes(ticket, &claim) {
                round.ask(Asked { ticket, claim, lane: Some(lane) });
                inner.turn = Some((queue, kind));
            } else {
                // It is for the next round, and only this pair: those that were asked for are done with. Smaller ones behind it do
                // not go first, so that its turn comes.
                full |= !round.asks(ticket);
                inner.lanes.insert(lane);
            }
        }
        let mut first = true;
        while let Some((arrival, ticket)) = inner.fresh.front().copied() {
            let claim = inner.waiting.get(ticket).map(|waiter| waiter.claim.clone());
            if let Some(claim) = claim.filter(|_| !round.asks(ticket)) {
                // The first one goes in whatever the lanes took: others wait for its look.
                let goes_in = first && round.asked.len() < CALL_CLAIMS_MAX;
                if !goes_in && !round.takes(ticket, &claim) {
                    break;
                }
                first = false;
                round.ask(Asked { ticket, claim, lane: None });
            }
            inner.fresh.pop_front();
            round.looked = Some(arrival);
        }
        if inner.fresh.is_empty() && round.looked.is_none() {
            round.looked = Some(inner.arrivals);
        }
        inner.asked = round.asked.iter().map(|asked| asked.ticket).collect();
        round
    }

    /// Ends a round: takes some of its claims out of the line, and answers those of the others whose wait ended meanwhile.
    fn end_round(&self, round: &Round, leaves: impl Fn(usize) -> bool) -> Vec<Option<Waiter>> {
        let mut inner = self.inner.lock();
        inner.asked.clear();
        let mut leave = |(i, asked): (usize, &Asked)| {
            if leaves(i) {
                return inner.waiting.remove(asked.ticket);
            }
            let is_over = inner.waiting.get(asked.ticket).is_some_and(|waiter| waiter.is_over);
            if is_over && let Some(waiter) = inner.waiting.remove(asked.ticket) {
                let _ = waiter.reply.send(Ok(Vec::new()));
            }
            None
        };
        round.asked.iter().enumerate().map(&mut leave).collect()
    }

    fn look_everywhere(&self) {
        let mut inner = self.inner.lock();
        if !inner.waiting.is_empty() {
            inner.lanes.insert(Lane::Everywhere);
        }
    }

    fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }
}

impl Inner {
    /// The pairs of queue and type that somebody waits for in a lane.
    fn pairs(&self, lane: &Lane) -> Vec<(Name, Name)> {
        let of_queue = |queue: &Name| -> Vec<(Name, Name)> {
            let any = Name::new("-").expect("a valid name");
            let wanted = self.waiting.wanted(queue).map(|kind| kind.cloned().unwrap_or_else(|| any.clone()));
            wanted.map(|kind| (queue.clone(), kind)).collect()
        };
        match lane {
            Lane::Type(queue, kind) => vec![(queue.clone(), kind.clone())],
            Lane::Queue(queue) => of_queue(queue),
            Lane::Everywhere => self.waiting.queues().flat_map(of_queue).collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Round {
    asked: Vec<Asked>,
    looked: Option<u64>,
    /// Pairs of queue and type that these claims stand for.
    pairs: usize,
    /// Tasks that they want.
    tasks: usize,
}

impl Round {
    fn asks(&self, ticket: Ticket) -> bool {
        self.asked.iter().any(|asked| asked.ticket == ticket)
    }

    /// Whether another claim fits into the call, which looks at every pair and keeps all others from Redis meanwhile.
    fn takes(&self, ticket: Ticket, claim: &Claim) -> bool {
        let fits =
            self.pairs + pairs(claim) <= CLAIM_PAIRS_MAX && self.tasks + claim.max as usize <= CALL_TASKS_MAX;
        (fits || self.asked.is_empty()) && self.asked.len() < CALL_CLAIMS_MAX && !self.asks(ticket)
    }

    fn ask(&mut self, asked: Asked) {
        self.pairs += pairs(&asked.claim);
        self.tasks += asked.claim.max as usize;
        self.asked.push(asked);
    }
}

fn pairs(claim: &Claim) -> usize {
    claim.queues.len() * claim.types.as_ref().map_or(1, |types| types.len().max(1))
}

#[derive(Debug)]
struct Asked {
    ticket: Ticket,
    claim: Claim,
    /// Where something was said to be ready; `None` for a first look.
    lane: Option<Lane>,
}

impl Shared {
    /// Serves those who wait, until the store is closed.
    pub(super) async fn serve_waiting(self: Arc<Self>) {
        while !self.waits.is_closed() {
            let round = self.waits.gather();
            if round.asked.is_empty() {
                self.waits.looked.send_if_modified(|looked| moved(looked, round.looked));
                if tokio::time::timeout(self.look_every(), self.waits.work.notified()).await.is_err() {
                    self.waits.look_everywhere();
                }
                continue;
            }
            let claims: Vec<&Claim> = round.asked.iter().map(|asked| &asked.claim).collect();
            match self.claim_all(&claims).await {
                Ok(served) => self.hand_out(&round, served),
                Err(error) => self.put_off(&round, error).await,
            }
            self.waits.looked.send_if_modified(|looked| moved(looked, round.looked));
        }
    }

    fn hand_out(self: &Arc<Self>, round: &Round, served: Vec<Taken>) {
        // Who is served waits no more, so nobody asks for it again.
        let waiters = self.waits.end_round(round, |i| served.get(i).is_some_and(|taken| !taken.is_empty()));
        let mut parcels = Vec::new();
        for ((asked, waiter), taken) in round.asked.iter().zip(waiters).zip(served) {
            if taken.is_empty() {
                continue;
            }
            parcels.push((waiter, taken));
            // There may be more for the next one in line.
            if let Some(lane) = &asked.lane {
                self.waits.wake(&BTreeSet::from([lane.clone()]));
            }
        }
        if !parcels.is_empty() {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.deliver(parcels).await });
        }
    }

    /// Reads what claims got while others are asked for. What nobody takes goes back.
    async fn deliver(&self, parcels: Vec<(Option<Waiter>, Taken)>) {
        let mut unwanted = Vec::new();
        for (waiter, taken) in parcels {
            match (waiter, self.unpack(taken)) {
                (Some(waiter), tasks) => {
                    unwanted
                        .extend(waiter.reply.send(tasks).err().and_then(Result::ok).into_iter().flatten());
                }
                (None, Ok(tasks)) => unwanted.extend(tasks),
                (None, Err(error)) => tracing::warn!(%error, "a claim that nobody waits for cannot be read"),
            }
        }
        if !unwanted.is_empty() {
            self.give_back(unwanted).await;
        }
    }

    /// Who is new is told that Redis failed; the others keep waiting.
    async fn put_off(&self, round: &Round, error: Error) {
        let waiters = self.waits.end_round(round, |i| round.asked[i].lane.is_none());
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.reply.send(Err(error.clone()));
        }
        let lanes: BTreeSet<Lane> = round.asked.iter().filter_map(|asked| asked.lane.clone()).collect();
        self.waits.wake(&lanes);
        tokio::time::sleep(PAUSE).await;
    }
}

fn moved(looked: &mut u64, to: Option<u64>) -> bool {
    let Some(to) = to.filter(|to| to > looked) else { return false };
    *looked = to;
    true
}
