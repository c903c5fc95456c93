//! Segment files: their names, their header block, and the directory they live in.

use super::frame::{u32_at, u64_at};
use super::{Error, StoreId, io_error};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(super) const HEADER_BYTES: u64 = 4096;
/// The version of a segment. Version 2 added the id of the store and the size of the file.
pub(super) const VERSION: u32 = 2;
/// The version without the id of the store and the size. It is read once, when a store is upgraded.
const VERSION_BEFORE: u32 = 1;

const MAGIC: [u8; 8] = *b"WINDLOG\0";
const CRC_AT: usize = HEADER_BYTES as usize - 4;

/// What a segment says about itself. The magic, the version and the place of the checksum are the same in
/// every version of the format, so that an old program recognises a newer log and leaves it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Index of the first entry the segment holds or will hold.
    pub(super) first: u64,
    /// Every entry below this was synced when the segment was made.
    pub(super) durable: u64,
    /// Drawn anew for each use of the file; frames of its earlier lives carry another one.
    pub(super) salt: u64,
    /// The store that the segment belongs to.
    pub(super) store: StoreId,
    /// The size of the file. A shorter file was cut.
    pub(super) bytes: u64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES as usize];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.first.to_le_bytes());
        block[24..32].copy_from_slice(&self.durable.to_le_bytes());
        block[32..40].copy_from_slice(&self.salt.to_le_bytes());
        block[40..56].copy_from_slice(&self.store);
        block[56..64].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32fast::hash(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// The header of `file`, or `None` if it is torn or damaged.
    pub(super) fn read(file: &File, path: &Path) -> Result<Option<Header>, Error> {
        let mut block = vec![0; HEADER_BYTES as usize];
        match file.read_exact_at(&mut block, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other.map_err(io_error("read", path))?,
        }
        if block[..8] != MAGIC || u32_at(&block, CRC_AT) != crc32fast::hash(&block[..CRC_AT]) {
            return Ok(None);
        }
        let version = u32_at(&block, 8);
        if !matches!(version, VERSION | VERSION_BEFORE) {
            return Err(Error::Version { segment: path.to_owned(), found: version, known: VERSION });
        }
        // Version 1 has zeros where the id and the size are.
        Ok(Some(Header {
            first: u64_at(&block, 16),
            durable: u64_at(&block, 24),
            salt: u64_at(&block, 32),
            store: block[40..56].try_into().expect("sixteen bytes"),
            bytes: u64_at(&block, 56),
        }))
    }
}

/// A segment found on disk.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) header: Header,
}

impl Segment {
    /// Opens a segment. It refuses an incomplete file, because a segment gets its size and a durable header before its name.
    fn open(first: u64, path: PathBuf, owner: Option<StoreId>) -> Result<Segment, Error> {
        let file = File::options().read(true).write(true).open(&path).map_err(io_error("open", &path))?;
        let bytes = file.metadata().map_err(io_error("inspect", &path))?.len();
        let Some(header) = Header::read(&file, &path)?.filter(|header| header.first == first) else {
            return Err(Error::Damaged { segment: path, offset: 0, index: first });
        };
        if owner.is_some_and(|store| header.store != store) {
            return Err(Error::Foreign { path });
        }
        if bytes < header.bytes {
            return Err(Error::CutShort { segment: path, bytes, whole: header.bytes });
        }
        Ok(Segment { first, path, file, bytes, header })
    }
}

/// The files of a log directory. Names that are not of the log are left alone.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In order of their first index.
    pub(super) segments: Vec<Segment>,
    pub(super) spares: Vec<(u64, PathBuf)>,
    /// Spares whose making was interrupted.
    pub(super) unfinished: Vec<PathBuf>,
}

impl Listing {
    /// Lists the directory. Segments must belong to `owner`, if it is known.
    pub(super) fn read(dir: &Path, owner: Option<StoreId>) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        for found in fs::read_dir(dir).map_err(io_error("list", dir))? {
            let path = found.map_err(io_error("list", dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((stem, kind)) = name.split_once('.') else { continue };
            let (20, Ok(number)) = (stem.len(), stem.parse::<u64>()) else { continue };
            match kind {
                "seg" => listing.segments.push(Segment::open(number, path, owner)?),
                "spare" => listing.spares.push((number, path)),
                "new" => listing.unfinished.push(path),
                _ => {}
            }
        }
        listing.segments.sort_by_key(|segment| segment.first);
        Ok(listing)
    }
}

pub(super) fn segment_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.seg"))
}

pub(super) fn spare_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.spare"))
}

pub(super) fn unfinished_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.new"))
}

/// Makes created, renamed and removed names survive a power cut.
pub(super) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(io_error("sync", dir))
}
