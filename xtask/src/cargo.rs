//! Starting cargo and asking it about the workspace.

use std::env;
use std::ffi::OsStr;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// The root of the repository. Cargo says at run time which one is meant: two clones may share a target folder, and then
/// this binary may have been compiled for the other.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&xtask).parent().expect("xtask is a folder of the repository").to_owned()
    });
    &ROOT
}

/// Cargo with these arguments, in the root of the repository, with the toolchain that started this program.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command with the terminal as its output.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` did not start: {error}")),
    }
}

/// The manifests of the workspace as cargo reads them: inheritance, renames and targets resolved.
pub(crate) fn metadata() -> Result<Value, String> {
    let output = cargo(["metadata", "--no-deps", "--format-version=1", "--quiet"])
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata is not JSON: {error}"))
}

/// Where cargo leaves the `windlass` binary of a release build.
pub(crate) fn release_binary() -> Result<PathBuf, String> {
    Ok(target()?.join("release").join(format!("windlass{}", env::consts::EXE_SUFFIX)))
}

/// Where the tests leave a program that they run.
pub(crate) fn debug_binary(name: &str) -> Result<PathBuf, String> {
    Ok(target()?.join("debug").join(format!("{name}{}", env::consts::EXE_SUFFIX)))
}

/// Where cargo leaves what it builds.
pub(crate) fn target() -> Result<PathBuf, String> {
    let metadata = metadata()?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target_directory")?;
    Ok(PathBuf::from(target))
}

/// As a person would type it.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
