//! The files of blocks in their folder.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableTable, WriteTransaction};

use super::{FILE_HEAD_BYTES, FILES, Files, Use, damaged, decode, failed, file_head, missing};
use crate::embedded::tables::seal;
use crate::log::StoreId;
use crate::store::Error;

pub(super) fn path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:010}.blk"))
}

/// The folder outlives a power cut before anything in it is relied on.
pub(super) fn make_dir(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir(dir).map_err(failed("make the folder of blocks"))?;
    let parent = dir.parent().unwrap_or_else(|| Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("make the folder of blocks"))
}

/// Where there is no index yet there are no blocks, or the index was lost: then nothing is made that would stand in its place.
pub(in crate::embedded::tables) fn expect_none(dir: &Path) -> Result<(), Error> {
    if !dir.is_dir() || files_in(dir)?.is_empty() {
        return Ok(());
    }
    let lost = format!("{} has blocks, but index.redb is missing beside it: put it back", dir.display());
    Err(damaged(lost))
}

pub(super) fn open_known(dir: &Path, number: u32, known: Use, store: StoreId) -> Result<File, Error> {
    let file = File::options().read(true).write(true).open(path(dir, number)).map_err(|error| match error
        .kind()
    {
        io::ErrorKind::NotFound => missing(number),
        _ => failed("open a file of blocks")(error),
    })?;
    let length = file.metadata().map_err(failed("look at a file of blocks"))?.len();
    if length < u64::from(known.end) {
        return Err(damaged(format!("file {number} of blocks is too short")));
    }
    if known.start > 0 {
        let mut head = [0; FILE_HEAD_BYTES as usize];
        file.read_exact_at(&mut head, 0).map_err(failed("read a file of blocks"))?;
        if head != file_head(number, store) {
            let words = "is damaged at its beginning, or belongs to another store";
            return Err(damaged(format!("file {number} of blocks {words}")));
        }
    }
    Ok(file)
}

/// The numbers of the files in the folder. What has another name is somebody else's.
pub(super) fn files_in(dir: &Path) -> Result<BTreeSet<u32>, Error> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(failed("read the folder of blocks"))? {
        let name = entry.map_err(failed("read the folder of blocks"))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".blk")?.parse().ok());
        numbers.extend(number.filter(|number| path(dir, *number).file_name() == Some(&name)));
    }
    Ok(numbers)
}

/// Writes another store id into the files that the tree knows. It does not check their blocks: each block has a checksum in the
/// tree.
pub(in crate::embedded) fn rename_owner(
    dir: &Path,
    write: &WriteTransaction,
    store: StoreId,
) -> Result<(), Error> {
    let table = write.open_table(FILES).map_err(failed("open a table"))?;
    for entry in table.range::<u32>(..).map_err(failed("read the files of blocks"))? {
        let (number, value) = entry.map_err(failed("read the files of blocks"))?;
        let number = number.value();
        let known = decode(seal::open(u64::from(number), value.value())?)?;
        if known.start > 0 {
            let file = File::options().write(true).open(path(dir, number)).map_err(|_| missing(number))?;
            file.write_all_at(&file_head(number, store), 0).map_err(failed("write a file of blocks"))?;
        }
    }
    Ok(())
}

/// Opens all files for reading. It does not check their heads, because the tree has a checksum for each block.
pub(in crate::embedded) fn open_all(dir: &Path) -> Result<Files, Error> {
    let mut files = std::collections::BTreeMap::new();
    if dir.is_dir() {
        for number in files_in(dir)? {
            let file = File::open(path(dir, number)).map_err(failed("open a file of blocks"))?;
            files.insert(number, Arc::new(file));
        }
    }
    Ok(Arc::new(files))
}
