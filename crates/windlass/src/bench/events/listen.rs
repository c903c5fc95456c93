//! The listeners of `bench events`: many WebSockets in a process that stands back.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_proto::rest::{GapBody, Time};

use super::socket::Socket;
use crate::bench::report::{Latency, add, histogram, record};
use crate::bench::{Error, io};

/// What the process says when all of them listen.
pub(super) const READY: &str = "ready";
/// In life they are on other machines, so here they take what the broker and its load leave.
const NICENESS: i32 = 19;
/// Connections that are opened at once.
const OPENING: usize = 50;
/// How long what is under way may take to arrive after the load.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    addr: SocketAddr,
    #[arg(long)]
    listeners: u64,
    #[arg(long)]
    everything: u64,
    #[arg(long)]
    queues: u64,
}

/// What all of them heard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Heard {
    pub(super) events: u64,
    /// As gaps said.
    pub(super) missed: u64,
    /// Connections that the broker ended.
    pub(super) cut: u64,
    /// From the change to the listener, in whole milliseconds.
    pub(super) delivery: Latency,
}

#[derive(Debug)]
struct Tally {
    events: u64,
    missed: u64,
    cut: u64,
    delivery: Histogram<u64>,
}

/// The beginning of every event.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    timestamp: Time,
    #[serde(borrow)]
    data: &'a serde_json::value::RawValue,
}

/// The name of a queue of the load.
pub(super) fn queue(number: u64) -> String {
    format!("bench-{number}")
}

pub(in crate::bench) async fn run(args: Args) -> Result<(), Error> {
    // Where that does not work they are only less modest.
    let _ = rustix::process::setpriority_process(Some(rustix::process::getpid()), NICENESS);
    let over = CancellationToken::new();
    let tally = Arc::new(Mutex::new(Tally { events: 0, missed: 0, cut: 0, delivery: histogram() }));
    let mut listening = JoinSet::new();
    let mut opening = JoinSet::new();
    for number in 0..args.listeners {
        let query = match number < args.everything {
            true => "?type=task.*".to_owned(),
            false => format!("?type=task.*&queue={}", queue(number % args.queues)),
        };
        let addr = args.addr;
        opening.spawn(async move { Socket::open(addr, &query).await });
        while opening.len() >= OPENING || (number + 1 == args.listeners && !opening.is_empty()) {
            let Some(opened) = opening.join_next().await else { break };
            let socket = opened?.map_err(io("listen"))?;
            listening.spawn(listen(socket, tally.clone(), over.clone()));
        }
    }
    say(READY);
    // Its end is the sign to stop.
    let parent = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(parent).await?;
    tokio::time::sleep(LAST_WORDS).await;
    over.cancel();
    while let Some(ended) = listening.join_next().await {
        ended?;
    }
    let tally = tally.lock();
    let heard = Heard {
        events: tally.events,
        missed: tally.missed,
        cut: tally.cut,
        delivery: Latency::of(&tally.delivery),
    };
    say(&serde_json::to_string(&heard).expect("numbers become JSON"));
    Ok(())
}

/// To the parent.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A parent that is gone needs nothing.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

async fn listen(mut socket: Socket, tally: Arc<Mutex<Tally>>, over: CancellationToken) {
    let mut own = Tally { events: 0, missed: 0, cut: 0, delivery: histogram() };
    loop {
        let read = tokio::select! {
            () = over.cancelled() => break,
            read = socket.read() => read,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let heard = read.and_then(|()| socket.take(|message| own.hear(message, now)));
        if heard.is_err() {
            own.cut += 1;
            break;
        }
    }
    let mut tally = tally.lock();
    tally.events += own.events;
    tally.missed += own.missed;
    tally.cut += own.cut;
    add(&mut tally.delivery, &own.delivery);
}

impl Tally {
    fn hear(&mut self, message: &[u8], now: Duration) {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(message) else { return };
        if event.kind == "position" {
            return;
        }
        if event.kind == "gap" {
            let gap: Option<GapBody> = serde_json::from_str(event.data.get()).ok();
            // One whose size nobody knows is one at least.
            self.missed += gap.and_then(|gap| gap.missed).unwrap_or(1);
            return;
        }
        self.events += 1;
        let at = Duration::from_millis(event.timestamp.as_ms());
        record(&mut self.delivery, now.saturating_sub(at));
    }
}
