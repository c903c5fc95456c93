//! What processes on one Redis tell each other of what happened (`store/exchange.rs`), over the channel `events`.
//!
//! Who listens says so over the channel of the hints, every few seconds, and at once when somebody asks. Who heard it publishes
//! until it was not said for a while. So an idle or unwatched store carries nothing, no key has to be looked after, and a
//! process that dies is forgotten. A connection over which nothing came for long, not even what was said to test it, is
//! dead; what was missed meanwhile is told as a gap once there is another one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::Shared;
use super::hints::{Hint, Loop};
use super::link::{Args, Link};
use super::target::Target;
use super::{reply, script};
use crate::clock::Clock;
use crate::store::{Error, Exchange, Signals};

/// How often a process that listens says so.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// How long others take that for true: two of its words may be lost.
const WANTED_FOR: Duration = Duration::from_secs(35);
/// Words of its own that a process may miss before it takes its connection for dead.
const UNHEARD_MAX: u32 = 2;
const PAUSE: Duration = Duration::from_secs(1);
/// Numbers for the events of one process: they last for weeks of ten thousand a second, and for 400,000 processes below
/// the largest number that a browser can tell from its neighbour.
const IDS: u64 = 1 << 34;

/// Who elsewhere listens.
#[derive(Debug)]
pub(super) struct Audience {
    until: parking_lot::Mutex<Instant>,
    /// Somebody asked who listens.
    pub(super) asked: tokio::sync::Notify,
}

impl Default for Audience {
    fn default() -> Self {
        Self { until: parking_lot::Mutex::new(Instant::now()), asked: tokio::sync::Notify::new() }
    }
}

/// How a process is heard, and what it says without being asked.
pub(super) struct Voice {
    pub(super) signals: Arc<Signals>,
    /// What is to be told to others; the parts of a store that is spread have one voice, which is the first one's.
    pub(super) outgoing: Option<mpsc::Receiver<Bytes>>,
}

impl Voice {
    /// Opens the exchange of this process.
    pub(super) async fn open(link: &Link, clock: &dyn Clock) -> Result<Voice, Error> {
        let mut args = Args::new("");
        args.number(clock.now().wall.saturating_mul(1000)).number(IDS);
        let (exchange, outgoing) = Exchange::new(reply::number(link.run(&script::IDS, &args).await?)?);
        let signals = Signals { exchange: Some(Arc::new(exchange)), ..Signals::default() };
        Ok(Voice { signals: Arc::new(signals), outgoing: Some(outgoing) })
    }

    /// That of another part, which only listens for hints.
    pub(super) fn beside(signals: &Arc<Signals>) -> Voice {
        Voice { signals: Arc::clone(signals), outgoing: None }
    }
}

impl Shared {
    fn exchange(&self) -> Option<&Exchange> {
        self.signals.exchange.as_deref().filter(|_| self.link.is_first())
    }

    /// Somebody elsewhere listens.
    pub(super) fn want_events(&self) {
        *self.audience.until.lock() = Instant::now() + WANTED_FOR;
        if let Some(exchange) = self.exchange() {
            exchange.want(true);
        }
    }

    /// Whether nobody said for long that it listens; call it only while that would have been heard.
    pub(super) fn forget_audience(&self) {
        if let Some(exchange) = self.exchange()
            && exchange.is_wanted()
            && Instant::now() > *self.audience.until.lock()
        {
            exchange.want(false);
        }
    }

    /// Says something to all processes over the channel of the hints.
    pub(super) async fn say(&self, what: Loop) {
        let line = Hint::default().wakes(what).write(&self.origin);
        self.publish("hints", line.as_bytes()).await;
    }

    async fn publish(&self, channel: &str, bytes: &[u8]) {
        let mut command = redis::cmd("PUBLISH");
        command.arg(self.key(channel)).arg(bytes);
        // What is lost is noticed by those who listen, by its number.
        if let Err(error) = self.link.ask(&command).await {
            tracing::debug!(channel, %error, "could not be said to other processes");
        }
    }

    /// Carries what happened here to the others, until the store is closed.
    pub(super) async fn tell_events(self: Arc<Self>, mut outgoing: mpsc::Receiver<Bytes>) {
        while let Some(piece) = outgoing.recv().await {
            self.publish("events", &piece).await;
        }
    }

    /// Hears what happened elsewhere while somebody here listens, until the store is closed.
    pub(super) async fn hear_events(self: Arc<Self>, target: Target) {
        let Some(mut listening) = self.exchange().map(Exchange::listening) else { return };
        let mut broken = false;
        while listening.wait_for(|on| *on).await.is_ok() && self.check_open().is_ok() {
            if let Err(error) = self.hear_others(&target, &mut listening, broken).await {
                tracing::warn!(%error, "events of other processes are not heard");
            }
            broken = *listening.borrow();
            if broken {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Until nobody listens any more, or the connection ends.
    async fn hear_others(
        &self,
        target: &Target,
        listening: &mut watch::Receiver<bool>,
        broken: bool,
    ) -> Result<(), redis::RedisError> {
        let Some(exchange) = self.exchange() else { return Ok(()) };
        let mut channel = target.pubsub().await?;
        channel.subscribe(self.key("events")).await?;
        if broken {
            exchange.tell(|hearer| hearer.missed());
        }
        let mut messages = channel.on_message();
        let mut say = tokio::time::interval(SAY_EVERY);
        say.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unheard = 0;
        while self.check_open().is_ok() {
            tokio::select! {
                message = messages.next() => {
                    let Some(message) = message else { break };
                    unheard = 0;
                    let piece = Bytes::copy_from_slice(message.get_payload_bytes());
                    exchange.tell(|hearer| hearer.heard(piece));
                }
                _ = say.tick() => {
                    if unheard > UNHEARD_MAX {
                        break;
                    }
                    unheard += 1;
                    self.say(Loop::Listens).await;
                    self.publish("events", b"").await;
                }
                () = self.audience.asked.notified() => self.say(Loop::Listens).await,
                changed = listening.changed() => {
                    if changed.is_err() || !*listening.borrow() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn can_hear(&self, can: bool) {
        self.hears.store(can, Ordering::Relaxed);
        if can && self.exchange().is_some_and(Exchange::is_wanted) {
            // It was not heard that nobody wants it any more.
            self.want_events();
        }
    }
}
