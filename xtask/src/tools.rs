//! The programs that some proofs need and that a Rust toolchain does not bring. A missing one never fails the run: it
//! is installed where that is possible, otherwise what cannot be shown without it is named.

use std::env;
use std::process::Command;

use crate::cargo::run as run_command;

struct Tool {
    program: &'static str,
    package: &'static str,
    proves: &'static str,
}

const TOOLS: [Tool; 8] = [
    Tool {
        program: "python3",
        package: "python3-venv",
        proves: "the tests of generated clients and of the OpenAPI document, which fail",
    },
    Tool { program: "chromium", package: "chromium", proves: "the dashboard works in a browser" },
    Tool {
        program: "redis-server",
        package: "redis-server",
        proves: "the tests of the store on Redis, which fail",
    },
    Tool { program: "openssl", package: "openssl", proves: "Redis over TLS, whose test fails" },
    Tool { program: "tmux", package: "tmux", proves: "the tests of `windlass top`, which fail" },
    // Provides the library that G14 preloads into the broker.
    Tool { program: "faketime", package: "faketime", proves: "G14 (a clock that is set hurts no duration)" },
    Tool { program: "strace", package: "strace", proves: "G4 (an fsync error is fatal)" },
    Tool { program: "mkfs.ext4", package: "e2fsprogs", proves: "G2 (nothing is lost in a power cut)" },
];

pub(crate) fn provide() {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !exists(tool.program)).collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return;
    }
    if let Err(reason) = install(&missing) {
        println!("not installed: {reason}");
    }
    for tool in missing.iter().filter(|tool| !exists(tool.program)) {
        println!("without {} this cannot be shown: {}", tool.program, tool.proves);
    }
}

fn install(tools: &[&Tool]) -> Result<(), String> {
    let packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    let packages_shown = packages.join(", ");
    if !exists("apt-get") {
        return Err(format!("{packages_shown} (there is no apt-get on this machine)"));
    }
    if !is_root() {
        return Err(format!("{packages_shown} (only root may run apt-get)"));
    }
    println!("installing with apt-get: {packages_shown}");
    run_command(apt_get().args(["-qq", "update"]))?;
    run_command(apt_get().args(["-qq", "install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The administrator's folders count too: they are missing from the PATH of most users.
pub(crate) fn exists(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up() {
        assert!(exists("sh"));
        assert!(!exists("no-such-program-anywhere"));
    }
}
