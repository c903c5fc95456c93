//! The binary as a child process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The binary with none of the caller's settings, in a directory without a file of settings.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WINDLASS_")) {
        command.env_remove(name);
    }
    command.args(words).current_dir(std::env::temp_dir()).stdin(Stdio::null());
    command
}

pub(crate) fn run(words: &[&str]) -> Done {
    command(words).output().unwrap().into()
}

/// A running `windlass dev` on a free port.
#[derive(Debug)]
pub(crate) struct Dev {
    child: Child,
    pub(crate) url: String,
    pub(crate) grpc: String,
}

impl Dev {
    pub(crate) fn start(words: &[&str]) -> Dev {
        let mut command = command(&["dev", "--http-addr", "127.0.0.1:0"]);
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut grpc, mut url) = (String::new(), String::new());
        for line in lines.map(Result::unwrap) {
            match line.trim().strip_prefix("listening ").and_then(|rest| rest.split_once(' ')) {
                Some(("grpc", address)) => grpc = format!("http://{address}"),
                Some(("http", address)) => url = format!("http://{address}"),
                _ => {}
            }
            // The last of them.
            if !url.is_empty() {
                break;
            }
        }
        assert!(!url.is_empty() && !grpc.is_empty(), "dev says where it listens");
        Dev { child, url, grpc }
    }

    pub(crate) fn run(&self, words: &[&str]) -> Done {
        let mut command = command(words);
        command.env("WINDLASS_SERVER", &self.url).env("WINDLASS_GRPC_SERVER", &self.grpc);
        command.output().unwrap().into()
    }

    /// Asks it to stop and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        terminate(&self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}
