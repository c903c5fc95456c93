//! How far elapsed time has come, for the process that follows.
//!
//! The file `ELAPSED` is replaced at every checkpoint, when the store closes, and while the wall clock is behind elapsed time. A
//! process that starts goes on from there or from the wall clock, whichever is later. So a machine that starts with a clock in the
//! past still counts from where it was. Without the file, or with a damaged one, elapsed time begins at the wall clock:
//! durations may then end later, and nothing else is lost.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::engine::Shared;
use crate::clock::Clock;

pub(super) const NAME: &str = "ELAPSED";

/// Sets the clock to where the process before this one was.
pub(super) fn resume(dir: &Path, clock: &dyn Clock) {
    let Ok(text) = fs::read_to_string(dir.join(NAME)) else { return };
    match read(&text) {
        Some(elapsed) => clock.resume(elapsed),
        None => {
            tracing::warn!(path = %dir.join(NAME).display(), "a damaged record of elapsed time is ignored")
        }
    }
}

/// Records where elapsed time is. A failure is only logged, because nothing but durations depends on it.
pub(super) fn keep(shared: &Shared) {
    if let Err(error) = replace(shared.space.dir(), &write(shared.clock.now().elapsed())) {
        tracing::warn!(%error, "cannot record elapsed time; delays may end later after a restart");
    }
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
