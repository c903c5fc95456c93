//! The connection, and how a script is called: by hash, again after an answer that was lost, and never for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::Instant;

use super::replicas::Replicas;
use super::reply;
use super::script::{self, Script};
use super::target::{Target, Wire};
use crate::store::Error;

/// How long a call is tried before its caller is told: a restart of Redis with a large append-only file takes longer, and
/// then people want to know.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long one answer may take. A script looks at a bounded number of tasks, so only a Redis that hangs takes longer.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// What is kept for longer than this is still there when a call that was not answered is sent again.
const KEPT_MS: u64 = 60_000;
/// How long clocks are trusted to go alike.
const HEARD_FOR: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(20);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Link {
    pub(super) wire: Wire,
    meta: String,
    part: Option<Part>,
    /// When this process heard the time there, and what it was.
    heard: Mutex<Option<(Instant, u64)>>,
    /// Who must have what is answered, if anybody.
    pub(super) replicas: Option<Replicas>,
}

/// Which part of a store that is spread the keys belong to.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) shard: usize,
    pub(super) shards: usize,
    /// The largest number that this process has seen in any part.
    pub(super) floor: Arc<AtomicU64>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("meta", &self.meta).finish_non_exhaustive()
    }
}

/// What a script answered, and whether it may have done so to an earlier call whose answer was lost.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) repeated: bool,
}

impl Link {
    /// `base` is what all keys begin with.
    pub(super) async fn open(target: &Target, base: &str) -> Result<Link, Error> {
        let wire = target.connect().await.map_err(|error| failed("connect", &error))?;
        let link = Link::on(wire, base, None);
        for script in script::all() {
            let mut patience = Patience::new(script.name);
            while let Err(error) = link.load(script).await {
                patience.wait(&error).await?;
            }
        }
        Ok(link)
    }

    /// On a connection whose servers have the scripts, or will be given them when they miss one.
    pub(super) fn on(wire: Wire, base: &str, part: Option<Part>) -> Link {
        Link { wire, meta: format!("{base}meta"), part, heard: Mutex::default(), replicas: None }
    }

    pub(super) fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Whether it is the only part, or the first.
    pub(super) fn is_first(&self) -> bool {
        self.part.as_ref().is_none_or(|part| part.shard == 0)
    }

    /// No task has a larger number, as far as this process knows.
    pub(super) fn floor(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.floor.load(Ordering::SeqCst))
    }

    /// The time there and the largest number that was given out.
    pub(super) async fn hear(&self) -> Result<u64, Error> {
        let [time, number] = reply::fixed(self.run(&script::CLOCK, &Args::new("")).await?)?;
        *self.heard.lock() = Some((Instant::now(), reply::number(time)?));
        reply::number(number)
    }

    /// What the clock there shows in so long, or a little earlier; `None` if it was not heard of late.
    pub(super) fn time_in(&self, ahead: Duration) -> Option<u64> {
        let (at, time) = (*self.heard.lock())?;
        let passed = at.elapsed();
        (passed < HEARD_FOR).then(|| time + (passed + ahead).as_millis() as u64)
    }

    pub(super) async fn run(&self, script: &Script, args: &Args) -> Result<Value, Error> {
        Ok(self.call(script, args).await?.value)
    }

    /// Calls a script until it answers. A call whose answer was lost is sent again with the same number, and says so.
    pub(super) async fn call(&self, script: &Script, args: &Args) -> Result<Answer, Error> {
        self.call_and_keep(script, args, script.promises()).await
    }

    /// Calls a script that promises something at other times, only to look.
    pub(super) async fn look(&self, script: &Script, args: &Args) -> Result<Value, Error> {
        Ok(self.call_and_keep(script, args, false).await?.value)
    }

    async fn call_and_keep(&self, script: &Script, args: &Args, promises: bool) -> Result<Answer, Error> {
        let mut patience = Patience::new(script.name);
        loop {
            let repeated = patience.repeated || self.wire.repeats();
            let error = match self.send(script, args, repeated).await {
                Ok((value, history)) => match &self.replicas {
                    Some(replicas) if promises && !replicas.confirm(&history).await? => {
                        // Another server would confirm it than the one that has it, and either may be the wrong one.
                        self.wire.forsake();
                        patience.repeated = true;
                        if !patience.rest().await {
                            return Err(replicas.unconfirmed(0));
                        }
                        continue;
                    }
                    _ => return Ok(Answer { value, repeated }),
                },
                Err(error) => error,
            };
            if error.kind() != ErrorKind::Server(ServerErrorKind::NoScript) {
                patience.wait(&error).await?;
                continue;
            }
            // Redis was restarted or its scripts were flushed: nothing of this call was done.
            if let Err(error) = self.load(script).await {
                patience.wait(&error).await?;
            }
        }
    }

    /// How often the primary was replaced, as far as it matters to anybody.
    pub(super) fn era(&self) -> u64 {
        self.replicas.as_ref().map_or(0, Replicas::era)
    }

    /// Whether what was read since is where it must be; if not, it must be read again.
    pub(super) async fn is_kept(&self, era: u64) -> Result<bool, Error> {
        match &self.replicas {
            Some(replicas) => replicas.confirm_since(era).await,
            None => Ok(true),
        }
    }

    /// A plain command, which does the same however often it is sent.
    pub(super) async fn ask(&self, command: &redis::Cmd) -> Result<Value, Error> {
        let mut patience = Patience::new("ask");
        loop {
            match command.query_async(&mut self.wire.clone()).await {
                Ok(value) => return Ok(value),
                Err(error) => patience.wait(&error).await?,
            }
        }
    }

    /// The same of every primary there is.
    pub(super) async fn ask_all(&self, command: &redis::Cmd) -> Result<Vec<Value>, Error> {
        let mut patience = Patience::new("ask");
        loop {
            match self.wire.clone().ask_all(command).await {
                Ok(values) => return Ok(values),
                Err(error) => patience.wait(&error).await?,
            }
        }
    }

    /// The answer, and the history that was written to if somebody must confirm it.
    async fn send(
        &self,
        script: &Script,
        args: &Args,
        repeated: bool,
    ) -> Result<(Value, String), RedisError> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.hash).arg(1).arg(&self.meta);
        let again = if repeated { "1" } else { "0" };
        match &self.part {
            None => command.arg(again),
            Some(Part { shard, shards, .. }) => {
                let late = args.fence.map_or(String::new(), |fence| format!(" {fence}"));
                command.arg(format!("{again} {shard} {shards} {}{late}", self.floor()))
            }
        };
        for arg in &args.list {
            command.arg(&arg[..]);
        }
        match &self.replicas {
            Some(replicas) => replicas.send(&self.wire, command).await,
            None => Ok((command.query_async(&mut self.wire.clone()).await?, String::new())),
        }
    }

    async fn load(&self, script: &Script) -> Result<(), RedisError> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&script.source);
        command.query_async::<Value>(&mut self.wire.clone()).await.map(drop)
    }
}

/// Whether a task may be forgotten before a call about it is sent again for the last time.
pub(super) fn is_brief(retention_ms: u64) -> bool {
    retention_ms < KEPT_MS
}

/// How long to try while Redis is away.
struct Patience {
    what: &'static str,
    deadline: Instant,
    pause: Duration,
    /// Whether an attempt may have been carried out although it was not answered.
    repeated: bool,
}

impl Patience {
    fn new(what: &'static str) -> Patience {
        Patience { what, deadline: Instant::now() + PATIENCE, pause: PAUSE_FIRST, repeated: false }
    }

    /// Waits for a better moment, unless there will be none.
    async fn wait(&mut self, error: &RedisError) -> Result<(), Error> {
        if !is_passing(error) || Instant::now() + self.pause > self.deadline {
            return Err(failed(self.what, error));
        }
        self.repeated |= is_cut_off(error);
        tracing::debug!(what = self.what, %error, "calling Redis again");
        self.rest().await;
        Ok(())
    }

    /// `false` if the patience has ended.
    async fn rest(&mut self) -> bool {
        if Instant::now() + self.pause > self.deadline {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// Whether the connection broke before the answer was there; an answer that ends in its midst cannot be read.
pub(super) fn is_cut_off(error: &RedisError) -> bool {
    error.is_io_error() || error.kind() == ErrorKind::Parse
}

/// Whether the same call may succeed in a moment.
fn is_passing(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    match error.kind() {
        ErrorKind::Server(kind) => {
            matches!(kind, Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain)
        }
        // While a failover is under way nobody may know who the primary is.
        ErrorKind::ClusterConnectionNotFound | ErrorKind::MasterNameNotFoundBySentinel => true,
        // A long script of somebody else runs, and this call was not begun; or a primary that is told to want replicas has lost
        // them, and may be about to be replaced.
        _ => is_cut_off(error) || matches!(error.code(), Some("BUSY" | "NOREPLICAS")),
    }
}

pub(super) fn failed(what: &str, error: &RedisError) -> Error {
    if error.code() == Some("OOM") {
        return Error::NoSpace;
    }
    let text = error.to_string();
    let wants_password = error.code() == Some("NOAUTH") || text.contains("unauthenticated");
    let wrong_password = error.code() == Some("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed;
    let error = match () {
        () if wants_password => {
            "it asks for a password; put one into the URL: redis://:password@host".to_owned()
        }
        () if wrong_password => "it refuses the user or the password of the URL".to_owned(),
        () => text,
    };
    Error::Io { context: format!("Redis ({what})"), error }
}

/// The arguments of a script behind the one that says whether it is repeated.
#[derive(Debug, Default, Clone)]
pub(super) struct Args {
    list: Vec<Bytes>,
    fence: Fence,
}

/// The time of a part of a store that is spread after which a call is refused there.
pub(super) type Fence = Option<u64>;

impl Args {
    /// `hint` is what to tell other processes if anything changes.
    pub(super) fn new(hint: &str) -> Args {
        let mut args = Args::default();
        args.text(hint).text(&format!("{:016x}", rand::random::<u64>()));
        args
    }

    /// The answer is kept for a while, in case the call is sent again when what it is about is forgotten.
    pub(super) fn outliving(&mut self, outlives: bool) -> &mut Self {
        if outlives && let Some(number) = self.list.get_mut(1) {
            *number = [b"!", &number[..]].concat().into();
        }
        self
    }

    /// The number of the call, as scripts know it.
    pub(super) fn call(&self) -> &str {
        self.list.get(1).and_then(|number| std::str::from_utf8(number).ok()).unwrap_or("-")
    }

    pub(super) fn bytes(&mut self, bytes: impl Into<Bytes>) -> &mut Self {
        self.list.push(bytes.into());
        self
    }

    pub(super) fn fenced(&mut self, fence: Fence) -> &mut Self {
        self.fence = fence;
        self
    }

    pub(super) fn append(&mut self, other: Args) -> &mut Self {
        self.list.extend(other.list);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(Bytes::copy_from_slice(text.as_bytes()))
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.bytes(number.to_string().into_bytes())
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.text(if flag { "1" } else { "0" })
    }

    /// A time in a row; a dash stands for none.
    pub(super) fn maybe(&mut self, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(number),
            None => self.text("-"),
        }
    }

    /// A bound; an empty text stands for none.
    pub(super) fn bound(&mut self, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(number),
            None => self.text(""),
        }
    }
}
