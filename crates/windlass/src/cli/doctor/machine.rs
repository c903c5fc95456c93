//! The machine: directory, disk space, the time of an fsync, open files.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::{Finding, Verdict};

const SPACE_WARN_BYTES: u64 = 1 << 30;
const FSYNC_WARN: Duration = Duration::from_millis(20);
const FSYNC_ROUNDS: usize = 20;
const OPEN_FILES_WARN: u64 = 4096;

pub(super) fn look(dir: &Path) -> Vec<Finding> {
    let place = existing(dir);
    vec![directory(dir), space(&place), fsync(&place), open_files()]
}

/// The directory, or the nearest one above it that is there.
fn existing(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    absolute.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn directory(dir: &Path) -> Finding {
    let shown = dir.display();
    match std::fs::metadata(dir).as_ref().map(Metadata::is_dir) {
        Ok(true) => Finding::new("data dir", Verdict::Ok, shown.to_string()),
        Ok(false) => Finding::new("data dir", Verdict::Fail, format!("{shown} is not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::new("data dir", Verdict::Ok, format!("{shown} is not there yet"))
        }
        Err(error) => Finding::new("data dir", Verdict::Fail, format!("{shown}: {error}")),
    }
}

fn space(place: &Path) -> Finding {
    match rustix::fs::statvfs(place) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let verdict = if free >= SPACE_WARN_BYTES { Verdict::Ok } else { Verdict::Warn };
            Finding::new("disk space", verdict, format!("{:.1} GiB free", free as f64 / (1u64 << 30) as f64))
        }
        Err(error) => Finding::new("disk space", Verdict::Fail, format!("{}: {error}", place.display())),
    }
}

fn fsync(place: &Path) -> Finding {
    match measure(place) {
        Ok(mut times) => {
            times.sort();
            let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
            let verdict = if median <= FSYNC_WARN { Verdict::Ok } else { Verdict::Warn };
            let ms = |time: Duration| time.as_secs_f64() * 1000.0;
            Finding::new("fsync", verdict, format!("median {:.2} ms, worst {:.2} ms", ms(median), ms(worst)))
        }
        Err(error) => {
            Finding::new("fsync", Verdict::Fail, format!("cannot write in {}: {error}", place.display()))
        }
    }
}

fn measure(place: &Path) -> io::Result<Vec<Duration>> {
    let mut file: File = tempfile::tempfile_in(place)?;
    let mut times = Vec::with_capacity(FSYNC_ROUNDS);
    for _ in 0..FSYNC_ROUNDS {
        let began = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(times)
}

fn open_files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < OPEN_FILES_WARN => {
            Finding::new("open files", Verdict::Warn, format!("at most {limit}; raise it with ulimit -n"))
        }
        Some(limit) => Finding::new("open files", Verdict::Ok, format!("at most {limit}")),
        None => Finding::new("open files", Verdict::Ok, "no limit"),
    }
}
