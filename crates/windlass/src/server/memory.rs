//! How much memory this process may use: the smallest limit of its control group and all groups above it, or else what the machine has.

use std::fs;
use std::path::{Path, PathBuf};

/// The limit in bytes, if the system tells one.
pub(crate) fn limit_bytes() -> Option<u64> {
    limit_below(Path::new("/"))
}

/// `root` is where the system's files are.
fn limit_below(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let limits =
        mounts.lines().filter_map(|line| Hierarchy::of(line, &groups)).filter_map(|it| it.limit(root));
    limits.chain(machine_bytes(&read("proc/meminfo"))).min()
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A tree of control groups that bounds memory, and where this process is in it.
#[derive(Debug)]
struct Hierarchy {
    mounted_at: PathBuf,
    group: PathBuf,
    file: &'static str,
}

impl Hierarchy {
    /// From a line of `mountinfo`, if it is such a tree.
    fn of(mount: &str, groups: &str) -> Option<Hierarchy> {
        let (before, after) = mount.split_once(" - ")?;
        let mut before = before.split(' ');
        let (shown, mounted_at) = (before.nth(3)?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
        let file = match kind {
            "cgroup2" => "memory.max",
            "cgroup" if options.split(',').any(|word| word == "memory") => "memory.limit_in_bytes",
            _ => return None,
        };
        let own = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let here = match kind {
                "cgroup2" => number == "0" && controllers.is_empty(),
                _ => controllers.split(',').any(|word| word == "memory"),
            };
            here.then_some(path)
        })?;
        // In a container the tree may begin with the group of the container.
        let group = Path::new(own).strip_prefix(shown).or_else(|_| Path::new(own).strip_prefix("/")).ok()?;
        Some(Hierarchy { mounted_at: mounted_at.into(), group: group.to_owned(), file })
    }

    /// The smallest limit from the group of this process up to the top.
    fn limit(&self, root: &Path) -> Option<u64> {
        let top = root.join(self.mounted_at.strip_prefix("/").ok()?);
        let limit =
            |group: &Path| fs::read_to_string(top.join(group).join(self.file)).ok()?.trim().parse().ok();
        self.group.ancestors().filter_map(limit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cgroup: &str, mounts: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/cgroup", cgroup);
        put("proc/self/mountinfo", mounts);
        put("proc/meminfo", "MemTotal:        4000 kB\nMemFree: 1 kB\n");
        files.iter().for_each(|(path, text)| put(path, text));
        assert_eq!(limit_below(root.path()), expected, "{cgroup} {mounts}");
    }

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw";
    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
    const MACHINE: Option<u64> = Some(4_096_000);

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let files = [
            ("sys/fs/cgroup/a/memory.max", "700000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "900000\n"),
        ];
        check("0::/a/b/c\n", V2, &files, Some(700_000));
        check("0::/\n", V2, &files, MACHINE);
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "536870912\n"),
        ];
        check("4:memory:/x\n0::/\n", V1, &files, MACHINE);
        check("4:cpu,memory:/x\n", V1, &[(files[1].0, "1000")], Some(1000));
        check("4:cpu:/x\n", V1, &files, MACHINE);
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_top() {
        let mounts = V2.replace("0:28 / ", "0:28 /docker/abc ");
        let files = [("sys/fs/cgroup/memory.max", "500000")];
        check("0::/docker/abc\n", &mounts, &files, Some(500_000));
        check("0::/\n", V2, &files, Some(500_000));
        check("0::/../../elsewhere\n", V2, &files, Some(500_000));
        check("nonsense", "nonsense - cgroup2", &[], MACHINE);
    }
}
