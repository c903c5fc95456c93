//! The dashboard's own checks: its types, that what is committed is what its source comes to, and its tests in a real
//! browser against a real broker. They need node, which no other part of the project does: without it they are left out,
//! and that is said.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{debug_binary, root, run as run_command};
use crate::tools;

const APP: &str = "crates/windlass-ui/app";
/// What its build tool runs on.
const NODE_OLDEST: (u32, u32) = (20, 19);

pub(crate) fn run() -> Result<(), String> {
    if let Some(reason) = missing() {
        println!("not shown: the dashboard is what its source comes to, and works in a browser ({reason})");
        return Ok(());
    }
    let app = root().join(APP);
    install(&app)?;
    run_command(npm(&app).args(["run", "--silent", "check"]))?;
    run_command(npm(&app).args(["run", "--silent", "test"]).env("WINDLASS_BIN", debug_binary("windlass")?))
}

/// Why it cannot be shown here.
fn missing() -> Option<String> {
    if !tools::exists("npm") {
        return Some("there is no npm on this machine".to_owned());
    }
    let said = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let (major, minor) = NODE_OLDEST;
    (parse(&version) < Some(NODE_OLDEST))
        .then(|| format!("node is {version:?}, not {major}.{minor} or later"))
}

/// Major and minor of `v20.19.1`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// What the lock file names, unless that is what is there.
fn install(app: &Path) -> Result<(), String> {
    let lock =
        fs::read(app.join("package-lock.json")).map_err(|error| format!("package-lock.json: {error}"))?;
    let stamp = app.join("node_modules/.installed-from");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run_command(npm(app).args(["ci", "--no-audit", "--no-fund"]))?;
    fs::write(&stamp, lock).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn npm(app: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(app).env("npm_config_loglevel", "error");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(parse("v20.19.1"), Some((20, 19)));
        assert!(parse("v22.3.0") > Some(NODE_OLDEST));
        assert!(parse("v20.9.0") < Some(NODE_OLDEST));
        assert_eq!(parse("nonsense"), None);
    }
}
