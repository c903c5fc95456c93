//! The memory store passes the suite, and so it does behind a wrapper that could misbehave but does not.

use windlass_store::clock::ManualClock;
use windlass_store::conformance::Harness;
use windlass_store::faults::Faulty;
use windlass_store::memory::MemoryStore;

async fn plain() -> Harness {
    let clock = ManualClock::shared();
    Harness::volatile(MemoryStore::new(clock.clone()), clock)
}

windlass_store::conformance_suite!(plain);

mod wrapped {
    use super::*;

    async fn calm() -> Harness {
        let clock = ManualClock::shared();
        Harness::volatile(Faulty::new(MemoryStore::new(clock.clone())), clock)
    }

    windlass_store::conformance_suite!(calm);
}
