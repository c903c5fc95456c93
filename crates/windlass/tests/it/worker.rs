//! `windlass worker exec` with small programs, over gRPC and over REST.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::cli::process::{Dev, Done, command, terminate};

/// A worker that runs a script of the shell; the tests name their types.
struct Exec(Child);

impl Exec {
    fn start(dev: &Dev, kind: &str, script: &str) -> Exec {
        Self::start_with(dev, kind, script, &[])
    }

    fn start_with(dev: &Dev, kind: &str, script: &str, more: &[&str]) -> Exec {
        Self::start_in(dev, kind, script, more, &std::env::temp_dir())
    }

    /// With a place for temporary files.
    fn start_in(dev: &Dev, kind: &str, script: &str, more: &[&str], tmp: &Path) -> Exec {
        let mut command = command(&["worker", "exec", "--type", kind, "--lease", "1s", "--drain", "100ms"]);
        command.env("TMPDIR", tmp);
        command.args(more).args(["--", "sh", "-c", script]);
        command.env("WINDLASS_SERVER", &dev.url).env("WINDLASS_GRPC_SERVER", &dev.grpc);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("serves"), "{first}");
        // The rest must be read, or the worker would stop at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Exec(child)
    }

    fn stop(mut self) -> Option<i32> {
        terminate(&self.0);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn end_of(script: &str, payload: &str) -> Done {
    let dev = Dev::start(&["--store", "memory"]);
    let _worker = Exec::start(&dev, "job", script);
    dev.run(&["submit", "job", payload, "--wait", "--max-retries", "0", "--id", "t1"])
}

#[test]
fn output_is_the_result() {
    assert_eq!(end_of("cat", r#"{"a":1}"#).stdout, "{\"a\":1}\n");
    let done = end_of("echo $WINDLASS_TASK_ID $WINDLASS_ATTEMPT $WINDLASS_QUEUE $WINDLASS_TASK_TYPE", "1");
    assert_eq!(done.stdout, "\"t1 1 default job\"\n", "{}", done.stderr);
}

#[test]
fn the_exit_code_decides() {
    let failed = end_of("echo why >&2; exit 3", "1");
    assert_eq!(failed.code, 10);
    assert!(failed.stderr.contains("exit status: 3: why"), "{}", failed.stderr);
    let dev = Dev::start(&["--store", "memory"]);
    let _worker = Exec::start(&dev, "job", "test $WINDLASS_ATTEMPT = 2 || exit 75; echo again");
    let done = dev.run(&["submit", "job", "1", "--wait"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "\"again\"\n"), "{}", done.stderr);
    let _fatal = Exec::start(&dev, "fatal", "exit 65");
    let done = dev.run(&["submit", "fatal", "1", "--wait", "--max-retries", "5"]);
    assert!(done.stderr.contains("dead_letter after 1 attempts"), "{}", done.stderr);
}

#[test]
fn a_cancelled_task_ends_its_whole_process_group() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("alive");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let dev = Dev::start(&["--store", "memory"]);
    // A grandchild holds the pipe open; it closes only when the last of the group is gone.
    let script = format!("(echo up; exec sleep 1000) > {} & wait", fifo.display());
    let worker = Exec::start(&dev, "job", &script);
    assert_eq!(dev.run(&["submit", "job", "1", "--id", "t1"]).code, 0);
    let mut lines = BufReader::new(std::fs::File::open(&fifo).unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    assert_eq!(dev.run(&["task", "cancel", "t1"]).code, 0);
    assert!(lines.next().is_none(), "the pipe is closed");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_failed_program_finds_its_checkpoint_again() {
    let script = r#"test -s "$WINDLASS_CHECKPOINT_FILE" && { printf 'went on at '; cat "$WINDLASS_CHECKPOINT_FILE"; exit 0; }
        printf 'page 7' > "$WINDLASS_CHECKPOINT_FILE"; exit 75"#;
    let dev = Dev::start(&["--store", "memory"]);
    for wire in [&[][..], &["--rest"]] {
        let kind = if wire.is_empty() { "grpc" } else { "rest" };
        let _worker = Exec::start_with(&dev, kind, script, wire);
        let done = dev.run(&["submit", kind, "1", "--wait"]);
        assert_eq!(done.stdout, "\"went on at page 7\"\n", "{}", done.stderr);
    }
}

#[test]
fn programs_run_where_no_file_can_be_made() {
    let dev = Dev::start(&["--store", "memory"]);
    let script = "echo ${WINDLASS_CHECKPOINT_FILE-none}";
    let _worker = Exec::start_in(&dev, "job", script, &[], Path::new("/dev/null/none"));
    let done = dev.run(&["submit", "job", "1", "--wait"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "\"none\"\n"), "{}", done.stderr);
}

#[test]
fn an_empty_file_counts_only_when_the_program_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The first attempt saves and fails; the second truncates, and is killed once the worker has looked; the third goes on
    // and gives the checkpoint up; the fourth has none.
    let script = format!(
        r#"f="$WINDLASS_CHECKPOINT_FILE"; case $WINDLASS_ATTEMPT in
        1) printf 'page 7' > "$f.new"; mv "$f.new" "$f"; exit 75;;
        2) : > "$f"; read -r line < {}; kill -9 $$;;
        3) test "$(cat "$f")" = 'page 7' || exit 65; : > "$f"; exit 75;;
        *) test -e "$f" && test ! -s "$f" && echo gone;; esac"#,
        fifo.display()
    );
    let dev = Dev::start(&["--store", "memory"]);
    let _worker = Exec::start_in(&dev, "job", &script, &[], dir.path());
    assert_eq!(dev.run(&["submit", "job", "1", "--id", "t1", "--max-retries", "5"]).code, 0);
    // It has opened the pipe, so the file is empty by now.
    let mut go = std::fs::File::options().write(true).open(&fifo).unwrap();
    std::io::Write::write_all(&mut go, b"on\n").unwrap();
    assert_eq!(dev.run(&["task", "watch", "t1"]).code, 0);
    let shown = dev.run(&["task", "get", "t1", "-o", "json"]);
    let task: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&task["result"], &task["attempts"]), (&"gone".into(), &4.into()), "{task}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["go"], "the files went with their attempts");
}

#[test]
fn a_stopped_worker_gives_its_task_back() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("alive");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let dev = Dev::start(&["--store", "memory"]);
    let worker = Exec::start(&dev, "job", &format!("echo up > {}; exec sleep 1000", fifo.display()));
    assert_eq!(dev.run(&["submit", "job", "1", "--id", "t1"]).code, 0);
    let line = BufReader::new(std::fs::File::open(&fifo).unwrap()).lines().next();
    assert_eq!(line.unwrap().unwrap(), "up");
    assert_eq!(worker.stop(), Some(0));
    let shown = dev.run(&["task", "get", "t1", "-o", "json"]);
    let task: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&task["state"], &task["attempts"]), (&"pending".into(), &0.into()), "{task}");
}

#[test]
fn one_flag_goes_back_to_rest() {
    let dev = Dev::start(&["--store", "memory"]);
    let _worker = Exec::start_with(&dev, "job", "cat", &["--rest", "--grpc-server", "http://127.0.0.1:1"]);
    let submit = ["submit", "job", "[1]", "--wait", "--grpc-server", "http://127.0.0.1:1"];
    let done = dev.run(&submit);
    assert_eq!(done.code, 6, "{}", done.stderr);
    assert!(done.stderr.contains("--rest"), "{}", done.stderr);
    let done = dev.run(&[&submit[..], &["--rest"]].concat());
    assert_eq!((done.code, done.stdout.as_str()), (0, "[1]\n"), "{}", done.stderr);
}
