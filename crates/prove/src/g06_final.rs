//! G6: completed is final. Workers complete at once, late, or after their lease ran out, while leases expire, people retry
//! tasks by hand and the broker is restarted. Every task is accepted as completed exactly once and never given out after.
//!
//! Mutant: a rescuer that puts tasks back without looking at their state, as if it guarded its writes by id alone.

mod race;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use windlass_core::{TaskId, Token};
use windlass_store::Durability;

use crate::proof::{Outcome, Run, verdict};
use crate::volume::{self, World};

pub(crate) async fn prove(run: Run) -> Outcome {
    let tasks = run.pick(20_000, 1_000_000);
    let told = hold(&run, Contest { tasks, restarts: run.pick(8, 40), rescuer: false }).await?;
    let mut complaints = told.complaints.clone();
    if told.late == 0 || told.refused_retries == 0 {
        complaints.push("no completion came late, or nobody retried a completed task".to_owned());
    }
    let mutant = hold(&run, Contest { tasks: 500, restarts: 1, rescuer: true }).await?;
    if mutant.redelivered == 0 {
        complaints
            .push("the mutant (an unguarded rescuer) was not noticed, so this proof cannot fail".to_owned());
    }
    let figures = format!(
        "{tasks} tasks, {} deliveries, {} late completions refused, {} retries of completed tasks refused, {} completed twice, {} given out after completion; mutant gave out {} again",
        told.deliveries,
        told.late,
        told.refused_retries,
        told.completed_twice,
        told.redelivered,
        mutant.redelivered
    );
    verdict(figures, complaints)
}

#[derive(Debug, Clone, Copy)]
struct Contest {
    tasks: usize,
    restarts: usize,
    /// The mutant.
    rescuer: bool,
}

/// What happened to one task: leases with the revision at which they began or were completed.
#[derive(Debug, Default)]
struct Fate {
    deliveries: Vec<(Token, u64)>,
    completed: Vec<(Token, u64)>,
}

/// What all racers write into.
#[derive(Debug, Default)]
struct Record {
    fates: Mutex<HashMap<TaskId, Fate>>,
    surprises: Mutex<Vec<String>>,
    done: AtomicUsize,
    late: AtomicUsize,
    refused_retries: AtomicUsize,
}

#[derive(Debug, Default)]
struct Told {
    deliveries: usize,
    late: usize,
    refused_retries: usize,
    completed_twice: usize,
    redelivered: usize,
    complaints: Vec<String>,
}

async fn hold(run: &Run, contest: Contest) -> Result<Told, crate::proof::Trouble> {
    let home = run.home()?;
    let mut world = World::open(volume::options(home.path().join("data"), Durability::Os)).await?;
    let record = race::run(run, contest, &mut world).await?;
    let mut told = judge(&record);
    if !contest.rescuer {
        let ledger = world.store().ledger().await?;
        let tasks = contest.tasks as u64;
        if (ledger.submitted, ledger.completed, ledger.removed) != (tasks, tasks, 0) {
            told.complaints.push(format!("the books do not balance for {tasks} tasks: {ledger:?}"));
        }
    }
    world.close().await?;
    Ok(told)
}

fn judge(record: &Record) -> Told {
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering::Relaxed;
    let fates = record.fates.lock().unwrap_or_else(PoisonError::into_inner);
    let mut told = Told {
        late: record.late.load(Relaxed),
        refused_retries: record.refused_retries.load(Relaxed),
        complaints: record.surprises.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        ..Told::default()
    };
    for (id, fate) in fates.iter() {
        told.deliveries += fate.deliveries.len();
        let first = fate.completed.iter().map(|(_, revision)| *revision).min();
        let other_lease = fate.completed.iter().any(|(token, _)| *token != fate.completed[0].0);
        if other_lease {
            told.completed_twice += 1;
            told.complaints.push(format!("completed twice: {id} ({fate:?})"));
        }
        if first.is_some_and(|first| fate.deliveries.iter().any(|(_, revision)| *revision > first)) {
            told.redelivered += 1;
            told.complaints.push(format!("given out after completion: {id} ({fate:?})"));
        }
        if first.is_none() {
            told.complaints.push(format!("never completed: {id} ({fate:?})"));
        }
    }
    told.complaints.truncate(12);
    told
}
