//! A control group with a memory limit, for a broker to live in. Always removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use crate::proof::Trouble;

#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    /// Where the number of kills is told.
    kills: &'static str,
}

impl Cgroup {
    /// A new group below the top of a hierarchy that bounds memory, of version 2 or 1.
    pub(crate) fn with_memory(name: &str, bytes: u64) -> Result<Cgroup, Trouble> {
        if !rustix::process::geteuid().is_root() {
            return Err(Trouble::Skipped("needs root to make a control group".to_owned()));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let name = format!("windlass-prove-{name}-{}", process::id());
        let made =
            mounts.lines().filter_map(hierarchy).find_map(|(top, version)| make(&top, version, &name, bytes));
        made.ok_or_else(|| {
            Trouble::Skipped("no control group with a memory limit can be made here".to_owned())
        })
    }

    /// A program that enters the group and becomes the one that follows.
    pub(crate) fn entering(&self) -> [String; 4] {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.path.display());
        ["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()]
    }

    /// Processes that were killed because the limit was reached.
    pub(crate) fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.path.join(self.kills)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        count.unwrap_or_default()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It can be removed when its last process is gone, which may take a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            // sleep: the system tells nobody when a group is empty.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

fn hierarchy(mount: &str) -> Option<(PathBuf, Version)> {
    let (before, after) = mount.split_once(" - ")?;
    let at = PathBuf::from(before.split(' ').nth(4)?);
    let mut after = after.split(' ');
    match (after.next()?, after.nth(1).unwrap_or_default()) {
        ("cgroup2", _) => Some((at, Version::Two)),
        ("cgroup", options) if options.split(',').any(|word| word == "memory") => Some((at, Version::One)),
        _ => None,
    }
}

fn make(top: &Path, version: Version, name: &str, bytes: u64) -> Option<Cgroup> {
    let path = top.join(name);
    let (limit, kills) = match version {
        Version::Two => {
            // It may be there already, or only for some other controller.
            let _ = fs::write(top.join("cgroup.subtree_control"), "+memory");
            ("memory.max", "memory.events")
        }
        Version::One => ("memory.limit_in_bytes", "memory.oom_control"),
    };
    fs::create_dir(&path).ok()?;
    let group = Cgroup { path, kills };
    let bounded =
        group.path.join(limit).exists() && fs::write(group.path.join(limit), bytes.to_string()).is_ok();
    bounded.then_some(group)
}
