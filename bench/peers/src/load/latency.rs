//! W5: tasks are due at moments fixed beforehand, and count as late from then on, whatever held them up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{failing, histogram, summary};
use crate::driver::{Driver, Producer, Worker};
use crate::measure::{BATCHES, Sample};
use crate::payload;

/// A thread that sleeps is woken about this exactly, and tokio's timers are coarser. Tasks due within one step go out
/// together.
const STEP: Duration = Duration::from_micros(250);
/// How long the last tasks may take to arrive.
const LATE: Duration = Duration::from_secs(3);

pub(crate) async fn latency<D: Driver>(driver: &D, rate: u64, length: Duration) -> Result<Sample> {
    let seen = Rc::new(RefCell::new(histogram()));
    let broken = Rc::new(Cell::new(false));
    let mut running: JoinSet<Result<()>> = JoinSet::new();
    let mut moments = Vec::new();
    let began = Instant::now() + Duration::from_millis(100);
    for number in 0..BATCHES {
        let mut worker = driver.worker(number, 1).await?;
        let (seen, broken) = (seen.clone(), broken.clone());
        running.spawn_local(async move {
            loop {
                let mut start = |payload: &[u8]| match payload::moment(payload) {
                    Ok(due) => {
                        let late = began.elapsed().saturating_sub(Duration::from_micros(due));
                        seen.borrow_mut().saturating_record(late.as_nanos().max(1) as u64);
                    }
                    Err(_) => broken.set(true),
                };
                worker.turn(&mut start).await?;
            }
        });
        let mut producer = driver.producer().await?;
        // Bounded by the rate and the length of the run.
        let (sender, mut due) = mpsc::unbounded_channel::<Duration>();
        moments.push(sender);
        running.spawn_local(async move {
            while let Some(due) = due.recv().await {
                producer.submit(&[payload::at(due.as_micros() as u64).as_slice()]).await?;
            }
            std::future::pending().await
        });
    }
    let total = (rate as f64 * length.as_secs_f64()) as u64;
    let pacing = std::thread::spawn(move || pace(&moments, began, rate, total));
    let until = began + length + LATE;
    while seen.borrow().len() < total && Instant::now() < until {
        failing(&mut running, Duration::from_millis(20)).await?;
    }
    running.abort_all();
    if pacing.join().is_err() {
        bail!("the thread that keeps the pace failed");
    }
    let seen = seen.borrow();
    if broken.get() {
        bail!("a payload came back changed");
    }
    if seen.len() < total {
        bail!("{} of {total} tasks arrived within {LATE:?} of the end", seen.len());
    }
    let seconds = length.as_secs_f64();
    Ok(Sample { operations: total, seconds, latency: Some(summary(&seen)), ..Sample::default() })
}

/// Hands out the moments in turn, each when it has come.
fn pace(moments: &[mpsc::UnboundedSender<Duration>], began: Instant, rate: u64, total: u64) {
    for number in 0..total {
        let due = Duration::from_secs_f64(number as f64 / rate as f64);
        let early = (began + due).saturating_duration_since(Instant::now());
        if early > STEP {
            std::thread::sleep(early);
        }
        // A connection that failed is told apart by its own error.
        if moments[(number % moments.len() as u64) as usize].send(due).is_err() {
            return;
        }
    }
}
