//! Two stores get the same random commands on one clock, and every answer is compared.
//!
//! `WINDLASS_SEED=n` replays one run, `WINDLASS_RUNS=n` makes more of them; a failing run prints its seed.

mod commands;

use std::sync::Arc;

use commands::Pair;
use windlass_core::choice::Draws;
use windlass_store::Store;
use windlass_store::clock::ManualClock;
use windlass_store::memory::MemoryStore;

/// Drives `a` and what `open` opens with the commands of one seed. A persistent store is opened again now and then.
pub(crate) async fn run<Open>(seed: u64, steps: usize, clock: Arc<ManualClock>, a: Arc<dyn Store>, open: Open)
where
    Open: AsyncFn() -> Arc<dyn Store>,
{
    let _told = TellSeed(seed);
    let b = open().await;
    let reopens = b.capabilities().persistent;
    let mut pair = Pair::new(clock, a, b, Draws::new(seed));
    for step in 1..=steps {
        if reopens && step % 97 == 0 {
            pair.before_reopen().await;
            pair.b.close().await.expect("close");
            pair.b = open().await;
            pair.after_reopen().await;
        }
        pair.step().await;
    }
    pair.compare_everything().await;
    pair.show_coverage().await;
}

/// The seeds to run: one that is asked for, or the first few.
pub(crate) fn seeds(runs: u64) -> Vec<u64> {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
    };
    match number("WINDLASS_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("WINDLASS_RUNS").unwrap_or(runs)).collect(),
    }
}

struct TellSeed(u64);

impl Drop for TellSeed {
    #[expect(clippy::print_stderr, reason = "the one thing needed to repeat a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this run with WINDLASS_SEED={}", self.0);
        }
    }
}

#[tokio::test]
async fn memory_agrees_with_itself() {
    for seed in seeds(6) {
        let clock = ManualClock::shared();
        let a = MemoryStore::new(clock.clone());
        run(seed, 600, clock.clone(), a, async || MemoryStore::new(clock.clone()) as Arc<dyn Store>).await;
    }
}

/// A difference that shows only in which tasks are given out.
#[tokio::test]
#[should_panic(expected = "the stores differ")]
async fn a_queue_paused_in_one_store_alone_is_noticed() {
    let clock = ManualClock::shared();
    let a = MemoryStore::new(clock.clone());
    let open = async || {
        let b = MemoryStore::new(clock.clone());
        b.set_paused(&commands::name("q1"), true).await.expect("set_paused");
        b as Arc<dyn Store>
    };
    run(1, 600, clock.clone(), a, open).await;
}

/// A difference of one number, which no count shows.
#[tokio::test]
#[should_panic(expected = "the stores differ")]
async fn a_number_used_up_in_one_store_alone_is_noticed() {
    let clock = ManualClock::shared();
    let a = MemoryStore::new(clock.clone());
    let open = async || {
        let b: Arc<dyn Store> = MemoryStore::new(clock.clone());
        commands::add_and_remove(&b).await;
        b
    };
    run(1, 600, clock.clone(), a, open).await;
}
