//! `windlass worker exec` with small programs, over gRPC and over REST.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::cli::process::{Dev, Done, command, terminate};

/// A worker that runs a script of the shell; the tests name their types.
struct Exec(Child);

impl Exec {
    fn start(dev: &Dev, kind: &str, script: &str) -> Exec {
        Self::start_with(dev, kind, script, &[])
    }

    fn start_with(dev: &Dev, kind: &str, script: &str, more: &[&str]) -> Exec {
        let mut command = command(&["worker", "exec", "--type", kind, "--lease", "1s", "--drain", "100ms"]);
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
