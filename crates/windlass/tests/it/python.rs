//! A Python with the packages of `tests/python/requirements.txt`, made once and kept in the target directory. Without Python
//! or without a way to get the packages the tests that need them fail, and say why.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");

/// The interpreter.
pub(crate) fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let wanted = std::fs::read_to_string(format!("{FOLDER}/requirements.txt")).unwrap();
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let made = place.join("made-of.txt");
        if std::fs::read_to_string(&made).ok().as_ref() != Some(&wanted) {
            let _ = std::fs::remove_dir_all(&place);
            run(Command::new("python3").args(["-m", "venv"]).arg(&place));
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
            run(Command::new(place.join("bin/python")).args(pip).arg(format!("{FOLDER}/requirements.txt")));
            std::fs::write(made, wanted).unwrap();
        }
        place.join("bin/python")
    })
}

/// A script of that folder, with the code that grpcio-tools makes of our proto files beside it.
pub(crate) fn script(name: &str, generated: &Path) -> Command {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass-proto/proto");
    let files = ["task", "error", "tasks", "worker", "schedule", "admin"]
        .map(|file| format!("windlass/v1/{file}.proto"));
    run(Command::new(interpreter())
        .args(["-m", "grpc_tools.protoc", "-I", proto])
        .arg(format!("--python_out={}", generated.display()))
        .arg(format!("--grpc_python_out={}", generated.display()))
        .args(files));
    let mut command = Command::new(interpreter());
    command.arg(format!("{FOLDER}/{name}")).env("PYTHONPATH", generated);
    command
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
