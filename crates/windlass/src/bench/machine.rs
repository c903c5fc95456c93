//! What the figures were measured on, and what a process uses, as Linux tells it. Elsewhere the facts are missing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) cpu: Option<String>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) kernel: Option<String>,
    pub(super) file_system: Option<String>,
    /// How many processes wanted a core in the minute before: above the cores, the figures are low.
    pub(super) load_before: Option<f64>,
}

impl Machine {
    /// The machine as seen from a directory.
    pub(super) fn look(dir: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok();
        let trimmed = |text: String| text.trim().to_owned();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: read("/proc/cpuinfo").and_then(|text| field(&text, "model name").map(str::to_owned)),
            memory_bytes: read("/proc/meminfo").and_then(|text| kilobytes(field(&text, "MemTotal")?)),
            kernel: read("/proc/sys/kernel/osrelease").map(trimmed),
            file_system: file_system(dir),
            load_before: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}

/// The kind of file system a directory is on.
pub(super) fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(mount), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
        // Of two mounts in one place the later one is seen.
        if dir.starts_with(mount) && best.is_none_or(|(length, _)| mount.len() >= length) {
            best = Some((mount.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Memory and time of a process.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Usage {
    pub(super) rss_bytes: u64,
    pub(super) rss_peak_bytes: u64,
    #[serde(skip)]
    pub(super) cpu: Duration,
}

impl Usage {
    pub(super) fn of(pid: u32) -> Usage {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let bytes = |name| field(&status, name).and_then(kilobytes).unwrap_or_default();
        Usage { rss_bytes: bytes("VmRSS"), rss_peak_bytes: bytes("VmHWM"), cpu: cpu(pid).unwrap_or_default() }
    }

    pub(super) fn own() -> Usage {
        Usage::of(std::process::id())
    }
}

/// Time on a core, of all threads. The kernel counts it in hundredths of a second.
fn cpu(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets that may contain anything.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| words.get(i)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim()))
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|count| count * 1024)
}

/// Waits until this process is quiet, on its cores and towards the disk (a checkpoint has ended), for a while at most.
pub(super) async fn settle() {
    const STEP: Duration = Duration::from_millis(250);
    let busy = || (Usage::own().cpu, written_bytes());
    let mut before = busy();
    let mut quiet = 0;
    for _ in 0..240 {
        tokio::time::sleep(STEP).await;
        let now = busy();
        quiet = if now.0 - before.0 <= STEP / 20 && now.1 == before.1 { quiet + 1 } else { 0 };
        if quiet == 2 {
            return;
        }
        before = now;
    }
}

/// What this process has given to the disk so far.
fn written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    field(&text, "write_bytes").and_then(|count| count.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_a_file_system() {
        assert!(Usage::own().rss_bytes > 100_000);
        assert!(Usage::own().rss_peak_bytes >= Usage::own().rss_bytes / 2);
        assert_eq!(file_system(Path::new("/proc/self")).as_deref(), Some("proc"));
    }
}
