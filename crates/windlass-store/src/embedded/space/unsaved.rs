//! What the next checkpoint will change, and the pages that it will change it in.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Changes that no table has yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Unsaved {
    /// The size of the changed tasks.
    pub(in crate::embedded) bytes: usize,
    /// Ids that have a row of their own and are added or removed. Each may be anywhere in the index.
    pub(in crate::embedded) ids: usize,
    /// Blocks from which tasks are removed, at most. What is left of each is written again.
    pub(in crate::embedded) blocks: usize,
}

impl std::ops::Add for Unsaved {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            ids: self.ids + other.ids,
            blocks: self.blocks + other.blocks,
        }
    }
}

/// [`Unsaved`], shared between threads.
#[derive(Debug, Default)]
pub(super) struct UnsavedCounts {
    bytes: AtomicUsize,
    ids: AtomicUsize,
    blocks: AtomicUsize,
}

impl UnsavedCounts {
    pub(super) fn get(&self) -> Unsaved {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Unsaved { bytes: get(&self.bytes), ids: get(&self.ids), blocks: get(&self.blocks) }
    }

    pub(super) fn set(&self, unsaved: Unsaved) {
        self.bytes.store(unsaved.bytes, Ordering::Relaxed);
        self.ids.store(unsaved.ids, Ordering::Relaxed);
        self.blocks.store(unsaved.blocks, Ordering::Relaxed);
    }

    /// Adds a submit, which removes nothing.
    pub(super) fn add(&self, submit: Unsaved) {
        self.bytes.fetch_add(submit.bytes, Ordering::Relaxed);
        self.ids.fetch_add(submit.ids, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, submit: Unsaved) {
        self.bytes.fetch_sub(submit.bytes, Ordering::Relaxed);
        self.ids.fetch_sub(submit.ids, Ordering::Relaxed);
    }
}

/// The pages of the index, as of the last checkpoint, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::embedded) struct IndexPages {
    /// Pages in use. A checkpoint copies each at most once.
    pub(in crate::embedded) used: u64,
    /// Free pages that the next checkpoint reuses.
    pub(in crate::embedded) free: u64,
}
