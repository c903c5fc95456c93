//! The control of `bench steady`: what the disk alone does to the same bytes at the same pace.
//!
//! One thread appends groups as large as the broker's mean group to a prepared file, and syncs each. A stall that both have is
//! the disk's. One that only the broker has is the broker's.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::bench::report::{histogram, record};
use crate::bench::{Error, io};

/// The file is as large as a segment of the log, and written from its beginning again when it is full.
const FILE_BYTES: u64 = 64 << 20;
const ZEROS: usize = 1 << 20;

/// The groups of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    pub(super) bytes: u64,
    pub(super) per_second: f64,
}

/// Writes groups in an open loop. The latencies count from the moments at which the groups were due.
pub(super) fn run(dir: &Path, groups: Groups, length: Duration) -> Result<Histogram<u64>, Error> {
    let path = dir.join("control");
    let file = prepared(&path)?;
    let group = vec![b'x'; groups.bytes.clamp(1, FILE_BYTES) as usize];
    let mut latency = histogram();
    let (mut at, began) = (0, Instant::now());
    for number in 0.. {
        let due = Duration::from_secs_f64(f64::from(number) / groups.per_second.max(1.0));
        if due >= length {
            break;
        }
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        if at + group.len() as u64 > FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&group, at).map_err(io("write the control"))?;
        file.sync_data().map_err(io("sync the control"))?;
        at += group.len() as u64;
        record(&mut latency, began.elapsed().saturating_sub(due));
    }
    std::fs::remove_file(&path).map_err(io("remove the control"))?;
    Ok(latency)
}

/// A file of written zeros: a sync of blocks that exist writes no metadata.
fn prepared(path: &Path) -> Result<File, Error> {
    let mut file = File::create_new(path).map_err(io("create the control"))?;
    let zeros = vec![0; ZEROS];
    for _ in 0..FILE_BYTES / ZEROS as u64 {
        file.write_all(&zeros).map_err(io("write the control"))?;
    }
    file.sync_all().map_err(io("sync the control"))?;
    Ok(file)
}
