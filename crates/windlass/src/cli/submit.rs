//! `windlass submit`.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::value::RawValue;
use windlass_client::Submit;
use windlass_core::{Class, Name, OnConflict, Payload, Priority, StateName, TaskId};
use windlass_proto::rest::{TaskBody, Time};

use super::args;
use super::error::{Failure, TASK_FAILED};
use super::output::{self, Output};
use super::wire::Wire;

/// One long poll under `--wait`; it is repeated until the task is finished.
const POLL: Duration = Duration::from_secs(20);
/// How long a broker that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass submit echo '{\"hello\":\"world\"}' --wait
  windlass submit email.send @mail.json --queue mail --priority high
  generate | windlass submit report - --delay 10m")]
pub(crate) struct Args {
    /// What to run
    #[arg(value_name = "TYPE", value_parser = args::name)]
    kind: Name,
    /// JSON, @FILE, or - for standard input
    #[arg(allow_negative_numbers = true)]
    payload: Option<String>,
    /// The payload is bytes, not JSON
    #[arg(long)]
    binary: bool,
    /// Where it waits
    #[arg(long, short = 'q', value_name = "NAME", value_parser = args::name)]
    queue: Option<Name>,
    /// Whose share and limit it counts towards, like a tenant
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    key: Option<Name>,
    /// 0-255, or critical, high, normal, low
    #[arg(long, short = 'p', value_parser = priority)]
    priority: Option<Priority>,
    /// Earliest start from now, like 30s
    #[arg(long, allow_hyphen_values = true, value_parser = args::duration)]
    delay: Option<Duration>,
    /// Earliest start, like 2027-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay", value_parser = moment)]
    at: Option<SystemTime>,
    /// Never start after this moment, like 2027-01-31T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    expires_at: Option<SystemTime>,
    /// Keep it this long after its end, like 24h
    #[arg(long, value_name = "LENGTH", value_parser = args::duration)]
    retention: Option<Duration>,
    /// Goes with the task and means nothing to the broker; may come again
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// An id of your own; the same submit again makes no second task
    #[arg(long, value_parser = args::task_id)]
    id: Option<TaskId>,
    /// Not before this task has completed; may be given again
    #[arg(long, value_name = "ID", value_parser = args::task_id)]
    after: Vec<TaskId>,
    /// At most one live task has this key
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Free the key after this long, even if the task still lives
    #[arg(long, value_name = "LENGTH", requires = "unique_key", value_parser = args::duration)]
    unique_for: Option<Duration>,
    /// When another live task has the key: return, reject or replace
    #[arg(long, value_name = "RULE", requires = "unique_key", value_parser = on_conflict)]
    on_conflict: Option<OnConflict>,
    /// Attempts after the first one
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Lost workers before it is a dead letter
    #[arg(long, value_name = "N")]
    max_crashes: Option<u32>,
    /// The handler's time limit, like 5m
    #[arg(long, allow_hyphen_values = true, value_parser = args::duration)]
    timeout: Option<Duration>,
    /// Wait for the end and print the result
    #[arg(long, short = 'w')]
    wait: bool,
    #[command(flatten)]
    wire: Wire,
}

pub(super) fn priority(text: &str) -> Result<Priority, String> {
    let class = || Class::parse(text).map(Class::priority);
    let number = text.parse::<u8>().ok().map(Priority);
    number.or_else(class).ok_or_else(|| "must be 0-255, critical, high, normal or low".into())
}

fn on_conflict(text: &str) -> Result<OnConflict, String> {
    OnConflict::parse(text).ok_or_else(|| "must be return, reject or replace".into())
}

fn moment(text: &str) -> Result<SystemTime, String> {
    let time: Time = text.parse()?;
    Ok(UNIX_EPOCH + Duration::from_millis(time.as_ms()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    let client = args.wire.client()?.patience(PATIENCE);
    let failure = |error| args.wire.failure(error);
    let submitted = client.submit(submit(&args)?).await.map_err(failure)?;
    if args.wait {
        loop {
            let task = client.wait(&submitted.id, POLL).await.map_err(failure)?;
            if task.state.is_terminal() {
                return show_end(&task, output);
            }
        }
    }
    if output.is_json() {
        let task = client.task(&submitted.id).await.map_err(failure)?;
        output.value(&task, String::new);
    } else {
        output.data(submitted.id.as_str());
    }
    Ok(())
}

fn submit(args: &Args) -> Result<Submit, Failure> {
    let payload = match payload(args.payload.as_deref())? {
        Some(bytes) if args.binary => Payload::Binary(bytes.into()),
        Some(bytes) => {
            json(&bytes)?;
            Payload::Json(bytes.into())
        }
        None => Payload::Json(b"null".as_slice().into()),
    };
    let mut submit = Submit::with(args.kind.as_str(), payload);
    if let Some(id) = &args.id {
        submit = submit.id(id.clone());
    }
    if let Some(queue) = &args.queue {
        submit = submit.queue(queue.as_str());
    }
    if let Some(key) = &args.key {
        submit = submit.key(key.as_str());
    }
    if let Some(priority) = args.priority {
        submit = submit.priority(priority);
    }
    if let Some(n) = args.max_retries {
        submit = submit.max_retries(n);
    }
    if let Some(delay) = args.delay {
        submit = submit.delay(delay);
    }
    if let Some(limit) = args.timeout {
        submit = submit.timeout(limit);
    }
    for id in &args.after {
        submit = submit.after(id);
    }
    if let Some(at) = args.at {
        submit = submit.at(at);
    }
    if let Some(at) = args.expires_at {
        submit = submit.expires_at(at);
    }
    if let Some(length) = args.retention {
        submit = submit.retention(length);
    }
    if let Some(n) = args.max_crashes {
        submit = submit.max_crashes(n);
    }
    for (key, value) in &args.metadata {
        submit = submit.metadata(key, value);
    }
    if let Some(key) = &args.unique_key {
        submit = submit.unique_key(key);
    }
    if let Some(length) = args.unique_for {
        submit = submit.unique_for(length);
    }
    if let Some(rule) = args.on_conflict {
        submit = submit.on_conflict(rule);
    }
    Ok(submit)
}

pub(super) fn payload(argument: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |place: &str, error: std::io::Error| Failure::error(format!("{place}: {error}"));
    match argument {
        None => Ok(None),
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(|error| failed("standard input", error))?;
            Ok(Some(bytes))
        }
        Some(text) => match text.strip_prefix('@') {
            Some(path) => std::fs::read(Path::new(path)).map(Some).map_err(|error| failed(path, error)),
            None => Ok(Some(text.as_bytes().to_vec())),
        },
    }
}

pub(super) fn json(bytes: &[u8]) -> Result<&RawValue, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::usage(format!("the payload is not JSON: {error}"))
            .hint("quote it for the shell, as '{\"key\":\"value\"}', or say --binary")
    })
}

/// What happened to standard error, the result to standard output.
pub(super) fn show_end(task: &TaskBody, output: &Output) -> Result<(), Failure> {
    let place = format!("{}  {}/{}", task.id, task.queue, task.kind);
    let times = times(task);
    if output.is_json() {
        output.value(task, String::new);
    }
    match task.state {
        StateName::Completed => {
            output.note(&format!("✓ {place}{times}"));
            if !output.is_json() {
                show_result(task, output);
            }
            Ok(())
        }
        state => {
            let error = task.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let message = format!("{place}  {} after {} attempts{error}", state.as_str(), task.attempts);
            Err(Failure::new(TASK_FAILED, message))
        }
    }
}

fn show_result(task: &TaskBody, output: &Output) {
    match task.result() {
        Some(Payload::Json(text)) => output.data(&output::escape_lines(&String::from_utf8_lossy(&text))),
        Some(Payload::Binary(bytes)) => output.bytes(&bytes),
        None => {}
    }
}

/// Spans of the wall clock; the queue's own time starts when the task may start.
fn times(task: &TaskBody) -> String {
    let (Some(started), Some(ended)) = (task.started_at, task.completed_at) else { return String::new() };
    let ready = task.scheduled_at.map_or(task.created_at, |at| at.max(task.created_at));
    let waited = started.as_ms().saturating_sub(ready.as_ms());
    format!("  waited {waited} ms  ran {} ms", ended.as_ms().saturating_sub(started.as_ms()))
}
