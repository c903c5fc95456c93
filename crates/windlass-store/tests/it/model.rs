//! Two stores get the same random commands on one clock, and every answer is compared.
//!
//! `WINDLASS_SEED=n` replays one run, `WINDLASS_RUNS=n` makes more of them; a failing run prints its seed.

mod both;
mod commands;
mod dependents;
mod flow;
mod inserts;
mod lists;
mod numbered;
mod operations;
mod plain;
mod schedules;
mod spread;
mod table;

use std::sync::Arc;

use commands::Pair;
use parking_lot::Mutex;
use windlass_store::clock::ManualClock;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::memory::MemoryStore;
use windlass_store::{Durability, Store};

/// One run of the comparison.
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    /// From this place in line on the second store may say that it cannot tell.
    pub(crate) far: u64,
    /// Of a second store that is spread: its numbers.
    pub(crate) table: Option<Arc<Mutex<table::Table>>>,
}

impl Trial {
    fn new(seed: u64, steps: usize) -> Trial {
        Trial { seed, steps, far: u64::MAX, table: None }
    }
}

/// Drives `a` and what `open` opens with the commands of one seed. A persistent store is opened again now and then.
pub(crate) async fn run<Open>(trial: Trial, clock: Arc<ManualClock>, a: Arc<dyn Store>, open: Open)
where
    Open: AsyncFn() -> Arc<dyn Store>,
{
    let _told = TellSeed(trial.seed);
    let b = open().await;
    let reopens = b.capabilities().persistent;
    let mut pair = Pair::new(clock, a, b, &trial);
    for step in 1..=trial.steps {
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
    pair.b.close().await.expect("close");
}

/// The same with plain work alone, and no reopening.
pub(crate) async fn run_plain<Open>(trial: Trial, clock: Arc<ManualClock>, a: Arc<dyn Store>, open: Open)
where
    Open: AsyncFn() -> Arc<dyn Store>,
{
    let _told = TellSeed(trial.seed);
    let mut pair = Pair::new(clock, a, open().await, &trial);
    let mut work = plain::Work::default();
    for _ in 1..=trial.steps {
        pair.step_plain(&mut work).await;
    }
    pair.compare_plain().await;
    work.show_coverage();
    pair.b.close().await.expect("close");
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
        run(Trial::new(seed, 1500), clock.clone(), a, async || {
            MemoryStore::new(clock.clone()) as Arc<dyn Store>
        })
        .await;
    }
}

#[tokio::test]
async fn embedded_agrees_with_memory() {
    for seed in seeds(6) {
        check_embedded(Trial::new(seed, 900), |_| {}).await;
    }
}

/// Checkpoints, new segments and windows that hold next to nothing come into play all the time.
#[tokio::test]
async fn embedded_of_tiny_sizes_agrees_with_memory() {
    for seed in seeds(6) {
        check_embedded(Trial { far: 0, ..Trial::new(seed, 900) }, crate::embedded::tiny_sizes).await;
    }
}

#[tokio::test]
async fn redis_agrees_with_memory() {
    // In these, retries that wait for others stand among other changes of one batch.
    let known = if std::env::var_os("WINDLASS_SEED").is_some() { &[][..] } else { &[13, 27] };
    for seed in seeds(3).into_iter().chain(known.iter().copied()) {
        let clock = ManualClock::shared();
        let (a, url) = (MemoryStore::new(clock.clone()), crate::redis::fresh_url());
        let open = async || crate::redis::open(&url, clock.clone()).await;
        run(Trial::new(seed, 900), clock.clone(), a, open).await;
    }
}

/// Claims of one type are served in runs there, and batches of ends are written by another way than single ones.
#[tokio::test]
async fn redis_agrees_with_memory_on_plain_work() {
    for seed in seeds(3) {
        let clock = ManualClock::shared();
        let (a, url) = (MemoryStore::new(clock.clone()), crate::redis::fresh_url());
        let open = async || crate::redis::open(&url, clock.clone()).await;
        run_plain(Trial::new(seed, 400), clock.clone(), a, open).await;
    }
}

/// All of it in one slot: there every promise holds over all queues.
#[tokio::test]
async fn redis_cluster_agrees_with_memory() {
    for seed in seeds(1) {
        let clock = ManualClock::shared();
        let (a, url) = (MemoryStore::new(clock.clone()), crate::redis::cluster::fresh_url("&shards=1"));
        let open = async || crate::redis::open(&url, clock.clone()).await;
        run(Trial::new(seed, 900), clock.clone(), a, open).await;
    }
}

/// What a store that is spread cannot do is tried too, and must be refused.
#[tokio::test]
async fn redis_spread_over_a_cluster_agrees_with_memory() {
    for seed in seeds(1) {
        let clock = ManualClock::shared();
        let (a, url) = (MemoryStore::new(clock.clone()), crate::redis::cluster::fresh_url("&shards=4"));
        let table: Arc<Mutex<table::Table>> = Arc::default();
        let open = async || {
            let store = crate::redis::open(&url, clock.clone()).await;
            let (clock, table) = (clock.clone(), Arc::clone(&table));
            Arc::new(numbered::Numbered { clock, store, table }) as Arc<dyn Store>
        };
        let trial = Trial { table: Some(Arc::clone(&table)), ..Trial::new(seed, 900) };
        run(trial, clock.clone(), a, open).await;
    }
}

/// The primary changes each time the store is opened again.
#[tokio::test]
async fn redis_behind_sentinels_agrees_with_memory() {
    let group = crate::redis::sentinel::Group::start(60_000);
    let clock = ManualClock::shared();
    let (a, url) = (MemoryStore::new(clock.clone()), group.url("model"));
    let opened = std::cell::Cell::new(0);
    let open = async || {
        opened.set(opened.get() + 1);
        if opened.get() > 1 {
            group.fail_over();
        }
        crate::redis::open(&url, clock.clone()).await
    };
    let seed = seeds(1)[0];
    run(Trial::new(seed, 900), clock.clone(), a, open).await;
    assert!(opened.get() > 1, "the primary never changed");
}

async fn check_embedded(trial: Trial, adjust: fn(&mut Options)) {
    let clock = ManualClock::shared();
    let dir = tempfile::tempdir().expect("a directory");
    let open = async || {
        let mut options = Options::new(dir.path());
        options.durability = Durability::Os;
        options.disk_reserve_bytes = 0;
        options.segment_bytes = 1 << 20;
        adjust(&mut options);
        EmbeddedStore::open(options, clock.clone()).await.expect("open") as Arc<dyn Store>
    };
    let a = MemoryStore::new(clock.clone());
    run(trial, clock.clone(), a, open).await;
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
    run(Trial::new(1, 900), clock.clone(), a, open).await;
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
    run(Trial::new(1, 900), clock.clone(), a, open).await;
}
