//! Tables with a row for each thing that has a name: schedules, operations.

use prost::Message;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use windlass_core::Name;

use super::{failed, seal};
use crate::embedded::codec::{self, Undecodable};
use crate::store::Error;

pub(in crate::embedded) type Rows = TableDefinition<'static, &'static str, &'static [u8]>;

/// What a checkpoint writes: the new value, or `None` for what is gone.
pub(in crate::embedded) type Changed = Vec<(Name, Option<Vec<u8>>)>;

/// Hands every row to `take`.
pub(in crate::embedded) fn read<M: Message + Default>(
    read: &ReadTransaction,
    rows: Rows,
    mut take: impl FnMut(Name, M) -> Result<(), Undecodable>,
) -> Result<(), Error> {
    let table = read.open_table(rows).map_err(failed("open a table"))?;
    for entry in table.iter().map_err(failed("read a table"))? {
        let (key, value) = entry.map_err(failed("read a table"))?;
        let bytes = seal::open(key.value(), value.value())?;
        let damaged = |error: Undecodable| Error::Damaged(error.to_string());
        let name = codec::name(key.value()).map_err(damaged)?;
        let message = M::decode(bytes).map_err(|error| Error::Damaged(error.to_string()))?;
        take(name, message).map_err(damaged)?;
    }
    Ok(())
}

/// Writes what changed; with nothing to write it only sees to it that there is a table.
pub(in crate::embedded) fn write(
    write: &WriteTransaction,
    rows: Rows,
    changed: &Changed,
) -> Result<(), Error> {
    let mut table = write.open_table(rows).map_err(failed("open a table"))?;
    let mut buffer = Vec::new();
    for (name, value) in changed {
        let name = name.as_str();
        match value {
            Some(value) => {
                buffer.clear();
                buffer.extend_from_slice(value);
                table.insert(name, seal::close(name, &mut buffer)).map_err(failed("write a row"))?;
            }
            None => drop(table.remove(name).map_err(failed("remove a row"))?),
        }
    }
    Ok(())
}
