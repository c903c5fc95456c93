//! The tables whose rows point to blocks.

use redb::{ReadableTable, Table};

use super::{Place, Pointer, failed};
use crate::store::Error;

/// The rows of blocks of tasks and of large parts.
#[derive(Debug)]
pub(in crate::embedded) struct Trees<T, L> {
    pub(in crate::embedded) tasks: T,
    pub(in crate::embedded) large: L,
}

/// Trees that are being written.
pub(in crate::embedded) type Writing<'txn> =
    Trees<Table<'txn, u64, &'static [u8]>, Table<'txn, (u64, u8), &'static [u8]>>;

impl<T, L> Trees<T, L>
where
    T: ReadableTable<u64, &'static [u8]>,
    L: ReadableTable<(u64, u8), &'static [u8]>,
{
    /// Visits the place of every block.
    pub(super) fn places(&self, visit: &mut dyn FnMut(u64, Place) -> Result<(), Error>) -> Result<(), Error> {
        places(&self.tasks, visit)?;
        places(&self.large, visit)
    }
}

fn places<K: Pointer>(
    tree: &impl ReadableTable<K, &'static [u8]>,
    visit: &mut dyn FnMut(u64, Place) -> Result<(), Error>,
) -> Result<(), Error> {
    for entry in tree.range::<K>(..).map_err(failed("read the places of blocks"))? {
        let (key, value) = entry.map_err(failed("read the places of blocks"))?;
        if let Some(place) = Place::read(key.value(), value.value())? {
            visit(key.value().number(), place)?;
        }
    }
    Ok(())
}
