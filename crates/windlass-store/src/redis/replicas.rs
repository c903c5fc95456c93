//! Whether replicas have what was written, for those who ask for it (`wait_replicas` in the URL).
//!
//! A failover loses what the new primary had not received. So after a script that promises something, Redis is asked (WAIT) whether enough
//! replicas have everything up to here, and the caller is answered after that. If too few have it in time, the caller is told so: the
//! write is done, whether it survives a failover is unknown, and to ask again is harmless, as after every lost answer. Who asks again
//! finds it done and writes nothing, so what such an answer relies on is waited for too (`Link::is_kept`).
//!
//! Those who wait at one moment are asked for by one WAIT, on a connection of its own: it would hold up all others there. WAIT speaks of
//! what its own connection wrote last, so that one touches a key first.
//!
//! That other connection may lead elsewhere: one of the two was made anew behind a change of primaries, or, while two servers both
//! take themselves for the primary, each of them has one. Then replicas would confirm what they never got. So every script is sent with
//! the question whose *history* it writes to, which is the id of the replication, and never the same after a server became the
//! primary or began anew; and a WAIT counts only if it spoke of that very history. If not, the connection for it is made anew; if they still
//! differ, the script is sent again for a while, and then its caller is told that nobody has confirmed it.
//!
//! In a cluster each part of a store has histories of its own. Both connections find the primary of a part by its keys, so the question and
//! the script, and the touch and the WAIT, go to one node each.
//!
//! Claims, extensions and the lead are not waited for: a lost one makes its task run again, which is what a lost lease does too.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};

use super::link::{failed, is_cut_off};
use super::reply;
use super::target::{Target, Wire};
use crate::store::Error;

/// How many must have it, and how long they have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: u32,
    pub(super) wait_ms: u64,
}

impl Wanted {
    pub(super) fn announce(self, found: u64) {
        let Wanted { replicas: wanted, wait_ms } = self;
        if found < u64::from(wanted) {
            tracing::warn!(found, wanted, "fewer replicas than answers wait for: writes will be refused");
        } else {
            tracing::info!(wanted, wait_ms, "an answered call is on that many replicas");
        }
    }
}

/// A replica is a server of its own: nobody has more.
pub(super) const REPLICAS_MAX: u32 = 16;
/// Shorter than an answer may take at all.
pub(super) const WAIT_MS_MAX: u64 = 4000;
pub(super) const WAIT_MS_DEFAULT: u64 = 1000;
/// The key is touched at every WAIT; without any it goes away.
const KEY_MS: u64 = 86_400_000;
/// How often Redis is asked before the caller is told: once for a broken connection, once to make the key.
const TRIES_MAX: usize = 4;

pub(super) struct Replicas {
    target: Target,
    connection: Mutex<Wire>,
    wanted: Wanted,
    key: String,
    asked: AtomicU64,
    told: tokio::sync::Mutex<Told>,
    seen: Mutex<Seen>,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replicas").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// What Redis said last.
#[derive(Debug, Default)]
struct Told {
    /// It spoke of everything that those up to this number wrote.
    upto: u64,
    confirmed: u64,
    history: String,
}

/// What the connection for scripts leads to.
#[derive(Debug, Default)]
struct Seen {
    history: String,
    /// How often it was another one.
    era: u64,
}

impl Replicas {
    /// `base` is what all keys begin with.
    pub(super) async fn open(target: &Target, wanted: Wanted, base: &str) -> Result<Replicas, Error> {
        let connection = target.connect_apart().await.map_err(|error| failed("connect", &error))?;
        let replicas = Replicas::on(connection, target, wanted, base);
        wanted.announce(replicas.found().await?);
        Ok(replicas)
    }

    /// On a connection that nobody uses for anything else.
    pub(super) fn on(connection: Wire, target: &Target, wanted: Wanted, base: &str) -> Replicas {
        Replicas {
            target: target.clone(),
            connection: Mutex::new(connection),
            wanted,
            key: format!("{base}wait"),
            asked: AtomicU64::new(0),
            told: Default::default(),
            seen: Mutex::default(),
        }
    }

    /// How many there are now.
    pub(super) async fn found(&self) -> Result<u64, Error> {
        Ok(self.ask().await?.0)
    }

    /// How many must have what is answered.
    pub(super) fn wanted(&self) -> u32 {
        self.wanted.replicas
    }

    /// Sends a script with the question whose history it writes to. The question is first: a server that is no primary any more when
    /// the script comes refuses it.
    pub(super) async fn send(&self, wire: &Wire, script: Cmd) -> Result<(Value, String), RedisError> {
        let mut both = redis::pipe();
        both.cmd("INFO").arg("replication");
        both.add_command(script);
        let answers: [Value; 2] = match wire.clone().req_packed_commands(&both, 0, 2).await?.try_into() {
            Ok(answers) => answers,
            Err(_) => return Err((ErrorKind::Parse, "not as many answers as commands").into()),
        };
        let [info, answer] = answers;
        let answer = answer.extract_error()?;
        let info = String::from_redis_value(info.extract_error()?)?;
        let history = history(&info).unwrap_or_default().to_owned();
        let mut seen = self.seen.lock();
        if seen.history != history {
            *seen = Seen { history: history.clone(), era: seen.era + 1 };
        }
        Ok((answer, history))
    }

    /// How often scripts came to another history. It is asked before something is read that an answer may rely on.
    pub(super) fn era(&self) -> u64 {
        self.seen.lock().era
    }

    /// Whether enough replicas have all that was read since; `false` if it must be read again.
    pub(super) async fn confirm_since(&self, era: u64) -> Result<bool, Error> {
        let history = {
            let seen = self.seen.lock();
            (seen.era == era).then(|| seen.history.clone())
        };
        match history {
            Some(history) => self.confirm(&history).await,
            None => Ok(false),
        }
    }

    /// Called after a script has answered that wrote to this history. `false` if it must be sent again.
    pub(super) async fn confirm(&self, history: &str) -> Result<bool, Error> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut told = self.told.lock().await;
        if told.upto < own || told.history != history {
            // Everybody who has asked by now has been answered by their script.
            let upto = self.asked.load(Ordering::SeqCst);
            let mut answer = self.ask().await?;
            if answer.1 != history {
                self.reconnect().await?;
                answer = self.ask().await?;
            }
            *told = Told { upto, confirmed: answer.0, history: answer.1 };
        }
        if told.history != history {
            return Ok(false);
        }
        match told.confirmed {
            enough if enough >= u64::from(self.wanted.replicas) => Ok(true),
            confirmed => Err(self.unconfirmed(confirmed)),
        }
    }

    pub(super) fn unconfirmed(&self, confirmed: u64) -> Error {
        let Wanted { replicas: wanted, wait_ms } = self.wanted;
        Error::Unconfirmed { confirmed, wanted, wait_ms }
    }

    /// To where one gets now.
    async fn reconnect(&self) -> Result<(), Error> {
        self.connection.lock().clone().forsake();
        // Without its type, which would be a part of that of every call.
        let connecting: BoxFuture<'_, _> = Box::pin(self.target.connect_apart());
        *self.connection.lock() = connecting.await.map_err(|error| failed("connect", &error))?;
        Ok(())
    }

    /// How many replicas have everything by now, and whose replication it is.
    async fn ask(&self) -> Result<(u64, String), Error> {
        let Wanted { replicas, wait_ms } = self.wanted;
        let mut touch = redis::pipe();
        touch.cmd("PEXPIRE").arg(&self.key).arg(KEY_MS);
        touch.cmd("INFO").arg("replication");
        touch.cmd("WAIT").arg(replicas).arg(wait_ms);
        // A full Redis takes no new key but lets one that is there be touched, so it is made anew only when it is gone.
        let mut make = redis::cmd("SET");
        make.arg(&self.key).arg(1).arg("PX").arg(KEY_MS);
        for _ in 0..TRIES_MAX {
            let mut connection = self.connection.lock().clone();
            let answers: Result<[Value; 3], _> = match touch.query_async::<Vec<Value>>(&mut connection).await
            {
                Ok(answers) => answers.try_into(),
                // One that broke meanwhile is made again by the next call.
                Err(error) if is_cut_off(&error) => continue,
                Err(error) if is_replica(&error) => {
                    self.reconnect().await?;
                    continue;
                }
                Err(error) => return Err(failed("wait", &error)),
            };
            let [touched, info, confirmed] =
                answers.map_err(|_| reply::wrong("an answer to WAIT of another shape"))?;
            if reply::number(touched)? > 0 {
                let info = reply::text(info)?;
                let history = history(&info).ok_or_else(|| reply::wrong("a replication without an id"))?;
                return Ok((reply::number(confirmed)?, history.to_owned()));
            }
            let made: Result<Value, _> = make.query_async(&mut connection).await;
            made.map_err(|error| failed("wait", &error))?;
        }
        Err(self.unconfirmed(0))
    }
}

/// A server that was the primary before.
fn is_replica(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

fn history(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("master_replid:")).map(str::trim)
}
