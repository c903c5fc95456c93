//! Claims of queues in several parts.
//!
//! - *Strict*: one part after the other, in the order of the queues, each for what is still wanted.
//! - *Weighted*: the parts are asked how many are ready, core draws among the queues as it does everywhere, and then each
//!   queue is asked for as many as fell to it. One that has fewer, because of a limit or because somebody else was faster, is left
//!   out, and what is missing is drawn among the others.
//! - *Waiting*: if there is nothing, a claim waits in every part at once. The first part that has something serves it; what
//!   another one gave out in the same moment goes back there, as if its caller had gone away.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::future::{select_all, try_join_all};
use tokio::sync::oneshot;
use windlass_core::choice::{Draws, Mode, Queue, pick};
use windlass_core::limits::ANSWER_BYTES_MAX;
use windlass_core::{Name, Task};

use super::super::handover::Handover;
use super::super::{Shared, reply};
use super::Spread;
use crate::store::{Claim, Error};

impl Spread {
    pub(super) async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        let mut by_shard: BTreeMap<usize, Vec<Queue>> = BTreeMap::new();
        for queue in &claim.queues {
            by_shard.entry(self.shard_of(&queue.name)).or_default().push(queue.clone());
        }
        let tasks = match by_shard.len() {
            0 => Vec::new(),
            1 => {
                let shard = by_shard.into_keys().next().unwrap_or(0);
                self.part(shard).claim(claim).await?
            }
            _ => self.claim_many(claim, by_shard).await?,
        };
        tasks.iter().for_each(|task| self.known.put(&task.record.id, self.shard_at(task.record.seq)));
        Ok(tasks)
    }

    async fn claim_many(
        &self,
        claim: Claim,
        by_shard: BTreeMap<usize, Vec<Queue>>,
    ) -> Result<Vec<Task>, Error> {
        self.check_open()?;
        if claim.max == 0 {
            return Ok(Vec::new());
        }
        let wait_ms = claim.wait_ms;
        let claim = Claim { wait_ms: 0, ..claim };
        let tasks = self.claim_now(claim.clone()).await?;
        if !tasks.is_empty() || wait_ms == 0 {
            return Ok(tasks);
        }
        let waiting = by_shard.into_iter().map(|(shard, queues)| {
            let claim = Claim { queues, wait_ms, ..claim.clone() };
            Box::pin(async move { self.part(shard).claim(claim).await })
        });
        let mut waiting: Vec<_> = waiting.collect();
        while !waiting.is_empty() {
            let (served, _, rest) = select_all(waiting).await;
            let tasks = served?;
            if !tasks.is_empty() {
                return Ok(tasks);
            }
            waiting = rest;
        }
        Ok(Vec::new())
    }

    /// Runs apart from the caller, so that tasks are given back if it goes away meanwhile.
    async fn claim_now(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        let queues: Vec<Place> = claim
            .queues
            .iter()
            .map(|queue| (queue.clone(), Arc::clone(self.part(self.shard_of(&queue.name)))))
            .collect();
        let (reply, answer) = oneshot::channel();
        tokio::spawn(async move {
            let mut served = Served::default();
            let result = match claim.mode {
                Mode::Strict => served.strict(&claim, &queues).await,
                Mode::Weighted => served.weighted(&claim, &queues).await,
            };
            // What was served before an error is served.
            let result = result.or_else(|error| if served.0.is_empty() { Err(error) } else { Ok(()) });
            let kept = served.keep().await;
            if let Err(Ok(kept)) = reply.send(result.map(|()| kept)) {
                give_back(kept).await;
            }
        });
        let back = |kept| drop(tokio::spawn(give_back(kept)));
        let kept = Handover { answer, back: Some(back) }.taken().await?;
        Ok(kept.into_iter().map(|(task, _)| task).collect())
    }
}

async fn give_back(kept: Vec<(Task, Arc<Shared>)>) {
    for (task, shared) in kept {
        shared.give_back(vec![task]).await;
    }
}

/// A queue, and the part that it is in.
type Place = (Queue, Arc<Shared>);

/// What was leased, and where.
#[derive(Default)]
struct Served(Vec<(Task, Arc<Shared>)>);

impl Served {
    async fn strict(&mut self, claim: &Claim, queues: &[Place]) -> Result<(), Error> {
        let mut bytes = 0;
        for (i, (queue, shared)) in queues.iter().enumerate() {
            let left = claim.max.saturating_sub(self.0.len() as u32);
            if left == 0 || bytes >= ANSWER_BYTES_MAX {
                return Ok(());
            }
            let one = Claim { queues: vec![queue.clone()], max: left, seed: seed(claim, i), ..claim.clone() };
            for task in shared.claim_one(&one).await? {
                bytes += task.bytes();
                self.0.push((task, Arc::clone(shared)));
            }
        }
        Ok(())
    }

    async fn weighted(&mut self, claim: &Claim, queues: &[Place]) -> Result<(), Error> {
        let names: Vec<Queue> = queues.iter().map(|(queue, _)| queue.clone()).collect();
        let mut draws = Draws::new(claim.seed);
        let ready = queues.iter().map(|(queue, shared)| ready(shared, &queue.name, claim.types.as_deref()));
        let mut ready = try_join_all(ready).await?;
        // Every round but the last finds a queue that has less than it seemed to.
        loop {
            let mut picked = Vec::new();
            while self.0.len() + picked.len() < claim.max as usize {
                let Some(i) = pick(claim.mode, &names, &mut draws, |i| ready[i] > 0) else { break };
                // A queue that is named twice has its tasks once.
                for (other, left) in ready.iter_mut().enumerate() {
                    *left -= u64::from(names[other].name == names[i].name && *left > 0);
                }
                // And is asked for them once, so that they come in their order.
                picked.push(names.iter().position(|queue| queue.name == names[i].name).unwrap_or(i));
            }
            if picked.is_empty() || self.bytes() >= ANSWER_BYTES_MAX {
                return Ok(());
            }
            for short in self.take(claim, queues, &picked, draws.next_u64()).await? {
                for (other, left) in ready.iter_mut().enumerate() {
                    *left = if names[other].name == names[short].name { 0 } else { *left };
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(task, _)| task.bytes()).sum()
    }

    /// As many of each queue as it was picked, in the order of the picks; returns those that had fewer.
    async fn take(
        &mut self,
        claim: &Claim,
        queues: &[Place],
        picked: &[usize],
        seed: u64,
    ) -> Result<Vec<usize>, Error> {
        let mut draws = Draws::new(seed);
        let mut wanted: BTreeMap<usize, u32> = BTreeMap::new();
        picked.iter().for_each(|i| *wanted.entry(*i).or_default() += 1);
        let asked = wanted.into_iter().map(|(i, max)| {
            let (queue, shared) = &queues[i];
            let one = Claim { queues: vec![queue.clone()], max, seed: draws.next_u64(), ..claim.clone() };
            async move { (i, shared.claim_one(&one).await) }
        });
        let mut served: BTreeMap<usize, VecDeque<Task>> = BTreeMap::new();
        let mut failed = None;
        for (i, answer) in futures_util::future::join_all(asked.collect::<Vec<_>>()).await {
            match answer {
                Ok(answer) => drop(served.insert(i, answer.into())),
                Err(error) => failed = Some(error),
            }
        }
        let mut short = Vec::new();
        for i in picked {
            match served.get_mut(i).and_then(VecDeque::pop_front) {
                Some(task) => self.0.push((task, Arc::clone(&queues[*i].1))),
                None => short.push(*i),
            }
        }
        failed.map_or(Ok(short), Err)
    }

    /// No more than one answer may hold; the rest goes back.
    async fn keep(self) -> Vec<(Task, Arc<Shared>)> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for (task, shared) in self.0 {
            if bytes >= ANSWER_BYTES_MAX {
                shared.give_back(vec![task]).await;
                continue;
            }
            bytes += task.bytes();
            kept.push((task, shared));
        }
        kept
    }
}

fn seed(claim: &Claim, place: usize) -> u64 {
    let mut draws = Draws::new(claim.seed);
    (0..=place).fold(0, |_, _| draws.next_u64())
}

/// How many tasks of a queue are ready at most; those that expired, that a limit holds or, where keys take turns, that are of other
/// types are counted until somebody meets them.
async fn ready(shared: &Shared, queue: &Name, types: Option<&[Name]>) -> Result<u64, Error> {
    let mut command = redis::cmd("HMGET");
    command.arg(shared.key(&format!("queue/{queue}"))).arg("paused").arg("2");
    let [paused, pending] = reply::fixed(shared.link.ask(&command).await?)?;
    if reply::is_text(&paused, "1") || matches!(pending, redis::Value::Nil) {
        return Ok(0);
    }
    let Some(types) = types else { return reply::number(pending) };
    let parties = shared.key(&format!("parties/{queue}"));
    if reply::number(shared.link.ask(redis::cmd("EXISTS").arg(parties)).await?)? > 0 {
        return reply::number(pending);
    }
    let mut sum = 0;
    for kind in types {
        let key = shared.key(&format!("ready/{queue}/{kind}"));
        sum += reply::number(shared.link.ask(redis::cmd("ZCARD").arg(key)).await?)?;
    }
    Ok(sum)
}
