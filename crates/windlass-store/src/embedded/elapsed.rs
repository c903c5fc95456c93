//! How far elapsed time had come, for the process that follows.
//!
//! The wall clock says that as long as it is not behind elapsed time, so a stamp is written only while it is: after it was set back
//! and before it has caught up. The file is replaced as a whole. Without it, or with one that is damaged, elapsed time begins at the
//! wall clock again: durations end later by as much as that was set back, and nothing else is lost.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::engine::Shared;
use crate::clock::Clock;

const NAME: &str = "ELAPSED";

/// Has the clock go on from where the process before this one was.
pub(super) fn resume(dir: &Path, clock: &dyn Clock) {
    let Ok(text) = fs::read_to_string(dir.join(NAME)) else { return };
    match read(&text) {
        Some(elapsed) => clock.resume(elapsed),
        None => {
            tracing::warn!(path = %dir.join(NAME).display(), "a damaged stamp of elapsed time is ignored")
        }
    }
}

/// Writes down where elapsed time is, if the wall clock would not say so.
pub(super) async fn keep(shared: Arc<Shared>) {
    let now = shared.clock.now();
    if now.ahead <= 0 {
        return;
    }
    let replaced = move || replace(shared.space.dir(), &write(now.elapsed()));
    let error = match tokio::task::spawn_blocking(replaced).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(error, "cannot write down elapsed time; after a restart delays may end later");
}

fn replace(dir: &Path, text: &str) -> std::io::Result<()> {
    let new = dir.join(format!("{NAME}.new"));
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(NAME))?;
    File::open(dir)?.sync_all()
}

fn write(elapsed: u64) -> String {
    format!("{elapsed} {:08x}\n", crc32fast::hash(elapsed.to_string().as_bytes()))
}

fn read(text: &str) -> Option<u64> {
    let (number, sum) = text.trim_end().split_once(' ')?;
    let elapsed = number.parse().ok()?;
    (write(elapsed).trim_end() == format!("{number} {sum}")).then_some(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_a_damaged_one_not_at_all() {
        let text = write(1_790_000_000_123);
        assert_eq!(read(&text), Some(1_790_000_000_123));
        for at in 0..text.trim_end().len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(read(&String::from_utf8(damaged).unwrap()), None, "byte {at}");
        }
        assert_eq!(read(""), None);
    }
}
