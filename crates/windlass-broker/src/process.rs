//! What this process takes of the machine, as the system tells it; figures that a system does not have are missing.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Ticks per second of the times in `/proc`: part of Linux's interface, the same on every architecture we build for.
const TICKS: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// User and system time together.
    pub cpu_us: u64,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub threads: Option<u64>,
}

/// What takes longer to find out, for whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessLimits {
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
    /// Wall clock.
    pub started_at_ms: Option<u64>,
}

impl Process {
    pub fn look() -> Process {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kib = |label| field(&status, label).map(|kib| kib * 1024);
        Process {
            cpu_us: cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000,
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            threads: field(&status, "Threads:"),
        }
    }
}

impl ProcessLimits {
    pub fn look(now_ms: u64) -> ProcessLimits {
        // Listing them opens one more.
        let open = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
        ProcessLimits {
            open_fds: open.map(|count| count.saturating_sub(1)),
            max_fds: getrlimit(Resource::Nofile).current,
            started_at_ms: started_at_ms(now_ms),
        }
    }
}

/// The number behind a label of `/proc/self/status`.
fn field(status: &str, label: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

fn started_at_ms(now_ms: u64) -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets and may contain anything; behind it, the start is the twentieth.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let up = clock_gettime(ClockId::Boottime);
    let up_ms = up.tv_sec as u64 * 1000 + up.tv_nsec as u64 / 1_000_000;
    Some(now_ms.saturating_sub(up_ms.saturating_sub(ticks * 1000 / TICKS)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let process = Process::look();
        assert!(process.resident_bytes.unwrap() > 100_000);
        assert!(process.virtual_bytes.unwrap() >= process.resident_bytes.unwrap());
        assert!(process.threads.unwrap() >= 1);
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let limits = ProcessLimits::look(now_ms);
        assert!(limits.open_fds.unwrap() >= 3 && limits.max_fds.is_none_or(|max| max > 3));
        // An hour: the tests of this crate take seconds.
        assert!((now_ms - 3_600_000..=now_ms + 1000).contains(&limits.started_at_ms.unwrap()));
    }
}
