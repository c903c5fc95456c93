//! A server as a process group of its own, started and stopped by this program.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// How long a server may take to end by itself.
const GOODBYE: Duration = Duration::from_secs(20);
/// What the kernel counts time on a core in.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    group: Pid,
}

impl Process {
    /// What the process prints goes to `log`.
    pub(crate) fn start(name: &str, mut command: Command, log: &Path) -> Result<Process> {
        let file = File::create(log).with_context(|| format!("make {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok(Process { name: name.to_owned(), child, group: pid.context("a process has no id")? })
    }

    /// An error if the process has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended by itself: {status}", self.name),
            None => Ok(()),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of_group(self.group)
    }

    /// Waits for the process to end by itself.
    pub(crate) async fn wait(mut self, at_most: Duration) -> Result<()> {
        match tokio::time::timeout(at_most, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) => bail!("{} failed", self.name),
            Err(_) => {
                let name = self.name.clone();
                self.stop().await?;
                bail!("{name} took longer than {at_most:?}")
            }
        }
    }

    /// Asks the group to end, and makes it end if it does not.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            kill_process_group(self.group, Signal::TERM).ok();
            if tokio::time::timeout(GOODBYE, self.child.wait()).await.is_err() {
                kill_process_group(self.group, Signal::KILL).ok();
                self.child.wait().await?;
            }
        }
        // Whatever the leader left behind.
        let until = Instant::now() + GOODBYE;
        while kill_process_group(self.group, Signal::TERM).is_ok() {
            if Instant::now() > until {
                kill_process_group(self.group, Signal::KILL).ok();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `stop` there is no such group any more; a run that fails must leave nothing behind either.
        if self.child.id().is_some() {
            kill_process_group(self.group, Signal::KILL).ok();
        }
    }
}

/// Time on cores so far, and memory now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) rss_bytes: u64,
}

impl Usage {
    /// Of this program.
    pub(crate) fn own() -> Usage {
        usage_of(std::process::id().cast_signed()).map_or_else(Usage::default, |(_, usage)| usage)
    }

    fn of_group(group: Pid) -> Usage {
        let mut total = Usage::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some((of, usage)) = usage_of(pid)
                && of == group.as_raw_nonzero().get()
            {
                total.cpu += usage.cpu;
                total.rss_bytes += usage.rss_bytes;
            }
        }
        total
    }
}

/// The group of a process and what it uses.
fn usage_of(pid: i32) -> Option<(i32, Usage)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (group, cpu) = parse_stat(&stat)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let rss_bytes = rss.and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok()).unwrap_or(0) * 1024;
    Some((group, Usage { cpu, rss_bytes }))
}

/// The group, and the time of all threads and of children that have ended.
fn parse_stat(stat: &str) -> Option<(i32, Duration)> {
    // The second field is a name in brackets that may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let mut ticks = 0;
    for place in 11..=14 {
        ticks += fields.get(place)?.parse::<u32>().ok()?;
    }
    Some((fields.get(2)?.parse().ok()?, TICK * ticks))
}

/// What a directory takes up on the disk.
pub(crate) fn disk_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        // A server may remove a file while this looks.
        let Ok(facts) = entry.metadata() else { continue };
        total += if facts.is_dir() { disk_bytes(&entry.path()).unwrap_or(0) } else { facts.blocks() * 512 };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_read_behind_its_name() {
        let stat = "7 (a) b) S 1 42 3 0 -1 4194560 1 2 3 4 100 50 7 3 20 0 4 0 1 2 3";
        assert_eq!(parse_stat(stat), Some((42, TICK * 160)));
        assert_eq!(parse_stat("7 (a)"), None);
    }

    #[test]
    fn this_program_has_memory() {
        assert!(Usage::own().rss_bytes > 100_000);
    }

    #[tokio::test]
    async fn a_stopped_group_is_gone_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let process = Process::start("sh", command, &dir.path().join("log")).unwrap();
        let group = process.group;
        process.stop().await.unwrap();
        assert!(kill_process_group(group, Signal::TERM).is_err());
    }
}
