//! G8: lease and state are one record. After random work with expiring leases, cancels, retries and restarts, the running
//! tasks are exactly those that the store holds a lease for, and every counter agrees. Every other proof that hurts a
//! broker makes the same scan through the API.
//!
//! Can fail: the comparison is handed sets that differ, and the audit books that are wrong.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;
use windlass_broker::{Broker, Failed};
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{StateName, TaskId, Token};
use windlass_store::{Durability, Expire, List};

use crate::audit;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::volume::{self, LEASE_MS, World};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    audit::self_test()?;
    let rounds = run.pick(40, 1000);
    let home = run.home()?;
    let mut world = World::open(volume::options(home.path().join("data"), Durability::Os)).await?;
    let mut random = run.random("G8");
    let mut held: Vec<(TaskId, Token)> = Vec::new();
    let (mut complaints, mut leases) = (Vec::new(), 0);
    for round in 0..rounds {
        act(&world, round, &mut held, &mut random).await?;
        // The loops must stand still for a scan, so the broker ends here; every other time its store as well.
        world.broker.stop().await;
        if round % 2 == 0 {
            world.restart().await?;
            world.broker.stop().await;
        }
        let scan = Scan::take(&world).await?;
        leases += scan.leased.len();
        complaints.extend(scan.judge().into_iter().map(|words| format!("round {round}: {words}")));
        world.restart().await?;
    }
    complaints.extend(drain(&world).await?);
    world.close().await?;
    if leases == 0 {
        complaints.push("no lease was ever held during a scan".to_owned());
    }
    let differences = complaints.len();
    complaints.truncate(12);
    verdict(
        format!("{rounds} scans, {leases} leases compared with their tasks, {differences} differences"),
        complaints,
    )
}

/// Many clients at once: submits, claims, reports, extensions, cancels, retries, and time that passes meanwhile.
async fn act(
    world: &World,
    round: usize,
    held: &mut Vec<(TaskId, Token)>,
    random: &mut StdRng,
) -> Result<(), Trouble> {
    let broker = &world.broker;
    let batch = (0..60).map(|number| volume::submit(&format!("r{round}-{number}"))).collect();
    broker.submit_batch(batch, false).await?;
    let workers = (0..8).map(|number| broker.claim(volume::claim(&format!("w{number}"), 6)));
    for tasks in join_all(workers).await {
        held.extend(tasks?.iter().filter_map(|task| Some((task.record.id.clone(), volume::token(task)?))));
    }
    let choices: Vec<u8> = held.iter().map(|_| random.random_range(0..10)).collect();
    let reports = held.iter().zip(&choices).map(|((id, token), choice)| report(broker, id, *token, *choice));
    let expiring = async {
        world.pass(random.random_range(0..LEASE_MS * 3 / 2));
        tokio::task::yield_now().await;
    };
    let (kept, ()) = tokio::join!(join_all(reports), expiring);
    let mut kept = kept.into_iter();
    held.retain(|_| kept.next().unwrap_or_default());
    Ok(())
}

/// Whether the lease may still be good for something.
async fn report(broker: &Broker, id: &TaskId, token: Token, choice: u8) -> bool {
    let failed = |retryable| Failed { error: "as planned".to_owned(), retryable, retry_after_ms: Some(500) };
    match choice {
        0..3 => drop(broker.complete(id, token, None).await),
        3 => drop(broker.fail(id, token, failed(true)).await),
        4 => drop(broker.fail(id, token, failed(false)).await),
        5 => drop(broker.release(id, token, Some(300)).await),
        6 => drop(broker.cancel(id).await),
        7 => drop(broker.retry(id).await),
        8 => return broker.extend(id, token, None, None).await.is_ok(),
        _ => return true,
    }
    false
}

/// Whatever waits must be given out: a counter that says so and a line that does not know of it would be a stuck task.
async fn drain(world: &World) -> Result<Vec<String>, Trouble> {
    let began = Instant::now();
    loop {
        let stats = world.broker.stats().await?;
        let count = |state: StateName| stats.by_state[state.index()];
        let live = StateName::ALL.into_iter().filter(|state| !state.is_terminal()).map(count).sum::<u64>();
        if live == 0 {
            return Ok(Vec::new());
        }
        if began.elapsed() > PATIENCE {
            return Ok(vec![format!("stuck: {:?} of the states {:?}", stats.by_state, StateName::ALL)]);
        }
        for task in world.broker.claim(volume::claim("last", 100)).await? {
            if let Some(token) = volume::token(&task) {
                world.broker.complete(&task.record.id, token, None).await?;
            }
        }
        world.pass(LEASE_MS);
        tokio::task::yield_now().await;
    }
}

/// What the store has, with nobody at work.
#[derive(Debug, Default)]
struct Scan {
    running: BTreeSet<TaskId>,
    leased: BTreeSet<TaskId>,
    by_state: [u64; 8],
    counters: [u64; 8],
}

impl Scan {
    async fn take(world: &World) -> Result<Scan, Trouble> {
        let store = world.store();
        let mut scan = Scan::default();
        for queue in store.queues(None).await? {
            for (sum, count) in scan.counters.iter_mut().zip(queue.by_state) {
                *sum += count;
            }
        }
        let mut list = List { limit: PAGE_ROWS_MAX, ..List::default() };
        loop {
            let page = store.list(list.clone()).await?;
            for task in page.tasks {
                let state = task.record.state_name();
                scan.by_state[state.index()] += 1;
                if state == StateName::Running {
                    scan.running.insert(task.record.id);
                }
            }
            match page.next {
                Some(next) => list.before = Some(next),
                None => break,
            }
        }
        // Every lease that there is runs out, and the store must name them all.
        world.clock.advance_ms(2 * LEASE_MS);
        let expired = store.expired(Expire { dead_workers: Vec::new(), limit: usize::MAX }).await?;
        scan.leased = expired.tasks.into_iter().map(|task| task.record.id).collect();
        Ok(scan)
    }

    fn judge(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let without_lease: Vec<_> = self.running.difference(&self.leased).collect();
        let without_task: Vec<_> = self.leased.difference(&self.running).collect();
        if !without_lease.is_empty() {
            wrong.push(format!("running without a lease, so never given out again: {without_lease:?}"));
        }
        if !without_task.is_empty() {
            wrong.push(format!("leases of tasks that do not run: {without_task:?}"));
        }
        if self.by_state != self.counters {
            wrong.push(format!("the counters say {:?}, but there are {:?}", self.counters, self.by_state));
        }
        wrong
    }
}

/// Scans that are wrong in one way each.
fn self_test() -> Result<(), Trouble> {
    let right = || Scan {
        running: BTreeSet::from([volume::id("a")]),
        leased: BTreeSet::from([volume::id("a")]),
        by_state: [0, 0, 0, 1, 0, 0, 0, 0],
        counters: [0, 0, 0, 1, 0, 0, 0, 0],
    };
    let wrong = [
        Scan { leased: BTreeSet::new(), ..right() },
        Scan { leased: BTreeSet::from([volume::id("a"), volume::id("b")]), ..right() },
        Scan { counters: [0; 8], ..right() },
    ];
    let misjudged = !right().judge().is_empty() || wrong.iter().any(|scan| scan.judge().is_empty());
    if misjudged { Err(Trouble::failed("the scan misjudges")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_scan_sees_every_difference() {
        super::self_test().unwrap();
    }
}
