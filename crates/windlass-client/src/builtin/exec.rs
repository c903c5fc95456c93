//! Runs a program for each task, in any language and without a library: the payload is its input, its output the result,
//! its exit code the outcome. No shell is involved; the payload never becomes part of a command line.
//!
//! What it writes to the file `WINDLASS_CHECKPOINT_FILE` is there again for the next attempt. There is no such variable
//! where no file can be made.
//!
//! The program leads a process group of its own. Whatever ends the attempt early (cancel, time limit, lost lease,
//! shutdown) kills the whole group, children included.

mod saved;

use std::ffi::OsString;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use windlass_core::{Payload, limits};

use crate::worker::{Cause, Context, Handler, Job, Outcome};
use saved::Saved;

/// `EX_DATAERR` of sysexits.h: the input is wrong and no retry will help.
pub const EXIT_FATAL: i32 = 65;
/// `EX_TEMPFAIL`: try again. Every other failure is tried again too; this one says so.
pub const EXIT_RETRY: i32 = 75;
/// The end of standard error that becomes the error of the attempt.
const STDERR_BYTES_MAX: usize = 4096;
/// Between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone)]
pub struct Exec {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub worker: String,
}

impl Handler for Exec {
    fn run(&self, context: Context, job: Job) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let exec = self.clone();
        Box::pin(async move { exec.attempt(context, job).await })
    }
}

impl Exec {
    async fn attempt(&self, context: Context, job: Job) -> Outcome {
        let mut saved = Saved::new(&job);
        let mut command = self.command(&job);
        if let Some(path) = saved.path() {
            command.env("WINDLASS_CHECKPOINT_FILE", path);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let error = format!("cannot start {}: {error}", self.program.display());
                return Outcome::Retry { error };
            }
        };
        let group = Group::of(&child);
        let ended = tokio::select! {
            ended = converse(&mut child, &group, job.payload.bytes()) => Some(ended),
            _ = context.cancelled() => None,
            () = saved.keep(&context) => None,
        };
        match ended {
            Some(Ok(ended)) => {
                match ended.status.code() {
                    Some(0) => {}
                    Some(_) => saved.look_last(&context).await,
                    None => saved.look(&context).await,
                }
                ended.outcome()
            }
            Some(Err(error)) => Outcome::Retry { error: format!("lost the program: {error}") },
            None => {
                group.signal(Signal::TERM);
                let _ = tokio::time::timeout(KILL_AFTER, child.wait()).await;
                if context.cause() == Some(Cause::ShuttingDown) {
                    saved.look(&context).await;
                }
                Outcome::Release
            }
        }
    }

    fn command(&self, job: &Job) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env("WINDLASS_TASK_ID", job.id.as_str())
            .env("WINDLASS_TASK_TYPE", job.kind.as_str())
            .env("WINDLASS_QUEUE", job.queue.as_str())
            .env("WINDLASS_ATTEMPT", job.attempt.to_string())
            .env("WINDLASS_MAX_RETRIES", job.max_retries.to_string())
            .env("WINDLASS_TIMEOUT_SECONDS", job.timeout.as_secs_f64().to_string())
            .env("WINDLASS_LEASE", job.token.to_string())
            .env("WINDLASS_WORKER_ID", &self.worker)
            .env_remove("WINDLASS_CHECKPOINT_FILE")
            .env_remove("TRACEPARENT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(traceparent) = job.traceparent() {
            command.env("TRACEPARENT", traceparent);
        }
        command
    }
}

/// The process group of a running program; what is left of it is killed when this is dropped, which is also how a
/// time limit ends it.
#[derive(Debug)]
struct Group {
    leader: Option<Pid>,
}

impl Group {
    fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { leader }
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // It may be gone already, which is as good.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    stdout: Vec<u8>,
    stdout_cut: bool,
    stderr: Vec<u8>,
}

async fn converse(child: &mut Child, group: &Group, payload: &[u8]) -> std::io::Result<Ended> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program may end without reading its input; that is its right.
            let _ = stdin.write_all(payload).await;
            let _ = stdin.shutdown().await;
        }
    };
    let wait = async {
        let status = child.wait().await;
        // Children that outlive the program end with it. They would also keep its output open.
        group.signal(Signal::KILL);
        status
    };
    let ((), (stdout, stdout_cut), stderr, status) =
        tokio::join!(feed, head(stdout, limits::PAYLOAD_BYTES_MAX), tail(stderr, STDERR_BYTES_MAX), wait);
    Ok(Ended { status: status?, stdout, stdout_cut, stderr })
}

/// The beginning of a stream, and whether there was more. Reads to the end, so that the writer is never stuck.
async fn head(stream: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> (Vec<u8>, bool) {
    let Some(mut stream) = stream else { return (Vec::new(), false) };
    let (mut kept, mut more, mut chunk) = (Vec::new(), false, vec![0; 16 * 1024]);
    while let Ok(n @ 1..) = stream.read(&mut chunk).await {
        let room = bytes_max - kept.len();
        kept.extend_from_slice(&chunk[..n.min(room)]);
        more |= n > room;
    }
    (kept, more)
}

/// The end of a stream.
async fn tail(stream: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..n]);
        if kept.len() > 2 * bytes_max {
            kept.drain(..kept.len() - bytes_max);
        }
    }
    let extra = kept.len().saturating_sub(bytes_max);
    kept.split_off(extra)
}

impl Ended {
    fn outcome(self) -> Outcome {
        if self.status.success() {
            if self.stdout_cut {
                let error = format!("the output is larger than {} bytes", limits::PAYLOAD_BYTES_MAX);
                return Outcome::Fatal { error };
            }
            return Outcome::Done(result(self.stdout));
        }
        let said = String::from_utf8_lossy(&self.stderr).trim().to_owned();
        let error =
            if said.is_empty() { self.status.to_string() } else { format!("{}: {said}", self.status) };
        match self.status.code() {
            Some(EXIT_FATAL) => Outcome::Fatal { error },
            _ => Outcome::Retry { error },
        }
    }
}

/// JSON if it parses, text if it is text, bytes otherwise; nothing if nothing was printed.
fn result(stdout: Vec<u8>) -> Option<Payload> {
    if stdout.is_empty() {
        return None;
    }
    if serde_json::from_slice::<&serde_json::value::RawValue>(&stdout).is_ok() {
        return Some(Payload::Json(Bytes::copy_from_slice(stdout.trim_ascii())));
    }
    Some(match String::from_utf8(stdout) {
        Ok(text) => {
            let json =
                serde_json::to_vec(text.trim_end_matches(['\n', '\r'])).expect("a string is always JSON");
            Payload::Json(json.into())
        }
        Err(error) => Payload::Binary(error.into_bytes().into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_a_result() {
        let json = |text: &str| Some(Payload::Json(Bytes::copy_from_slice(text.as_bytes())));
        assert_eq!(result(b"".to_vec()), None);
        assert_eq!(result(b" {\"a\":1}\n".to_vec()), json("{\"a\":1}"));
        assert_eq!(result(b"done \"now\"\n".to_vec()), json("\"done \\\"now\\\"\""));
        assert_eq!(result(vec![0xff, 0xfe]), Some(Payload::Binary(Bytes::from_static(&[0xff, 0xfe]))));
    }

    #[tokio::test]
    async fn long_streams_are_kept_in_part() {
        let text: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(tail(Some(&text[..]), 4096).await, &text[text.len() - 4096..]);
        assert_eq!(head(Some(&text[..]), 100).await, (text[..100].to_vec(), true));
        assert_eq!(head(Some(&text[..10]), 100).await, (text[..10].to_vec(), false));
    }
}
