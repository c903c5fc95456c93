//! Tasks that a claim found expired and cancelled instead of giving them out. The answer to a claim has no place for them, so
//! they are left here for whoever tells of changes.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windlass_core::Record;
use windlass_core::limits::LAPSED_MAX;

#[derive(Debug, Default)]
pub struct Lapsed {
    any: AtomicBool,
    records: Mutex<Vec<Record>>,
}

impl Lapsed {
    pub(crate) fn push(&self, record: Record) {
        let mut records = self.records.lock();
        if records.len() < LAPSED_MAX {
            records.push(record);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Those since the last time. It costs nothing to ask when there are none.
    pub fn take(&self) -> Vec<Record> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut records = self.records.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut records)
    }
}
