//! Whether replicas have what was written, for those who ask for it (`wait_replicas` in the URL).
//!
//! A failover loses what the new primary had not received. So after a script that promises something, Redis is asked (WAIT) whether enough
//! replicas have everything up to here, and the caller is answered after that. If too few have it in time, the caller is told so: the
//! write is done, whether it survives a failover is unknown, and to ask again is harmless, as after every lost answer. Who asks again
//! finds it done and writes nothing, so what such an answer relies on is waited for too (`Link::is_kept`).
//!
//! Those who wait at one moment are asked for by one WAIT, on a connection of its own: it would hold up all others there. WAIT speaks of
//! what its own connection wrote last, so that one touches a key first. A primary that was replaced between a script and its WAIT would
//! confirm a write that it never had; it is known by the id of its replication, and the script is sent again.
//!
//! Claims, extensions and the lead are not waited for: a lost one makes its task run again, which is what a lost lease does too.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use tokio::sync::Mutex;

use super::link::failed;
use super::reply;
use super::target::{Target, Wire};
use crate::store::Error;

/// How many must have it, and how long they have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: u32,
    pub(super) wait_ms: u64,
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
    connection: Wire,
    wanted: Wanted,
    key: String,
    era: AtomicU64,
    asked: AtomicU64,
    told: Mutex<Told>,
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
    /// Whose replication it is.
    history: Option<String>,
}

impl Replicas {
    /// `base` is what all keys begin with.
    pub(super) async fn open(target: &Target, wanted: Wanted, base: &str) -> Result<Replicas, Error> {
        let connection = target.connect_apart().await.map_err(|error| failed("connect", &error))?;
        let replicas = Replicas {
            connection,
            wanted,
            key: format!("{base}wait"),
            era: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            told: Mutex::default(),
        };
        // Whose replication it is must be known before anything is written.
        let (found, history) = replicas.ask().await?;
        replicas.told.lock().await.history = Some(history);
        let Wanted { replicas: wanted, wait_ms } = wanted;
        if found < u64::from(wanted) {
            tracing::warn!(found, wanted, "fewer replicas than answers wait for: writes will be refused");
        } else {
            tracing::info!(wanted, wait_ms, "an answered call is on that many replicas");
        }
        Ok(replicas)
    }

    /// How many must have what is answered.
    pub(super) fn wanted(&self) -> u32 {
        self.wanted.replicas
    }

    /// How often the primary was replaced, as far as it is known. It is asked before a script is sent.
    pub(super) fn era(&self) -> u64 {
        self.era.load(Ordering::SeqCst)
    }

    /// Called after a script has answered that was sent in some era. `false` if it must be sent again.
    pub(super) async fn confirm(&self, era: u64) -> Result<bool, Error> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut told = self.told.lock().await;
        if told.upto < own {
            // Everybody who has asked by now has been answered by their script.
            let upto = self.asked.load(Ordering::SeqCst);
            let (confirmed, history) = self.ask().await?;
            if told.history.as_ref() != Some(&history) {
                self.era.fetch_add(1, Ordering::SeqCst);
            }
            *told = Told { upto, confirmed, history: Some(history) };
        }
        if self.era() != era {
            return Ok(false);
        }
        let Wanted { replicas: wanted, wait_ms } = self.wanted;
        match told.confirmed {
            enough if enough >= u64::from(wanted) => Ok(true),
            confirmed => Err(Error::Unconfirmed { confirmed, wanted, wait_ms }),
        }
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
            let answers: Result<[Value; 3], _> = match self.pipe(&touch).await {
                Ok(answers) => answers.try_into(),
                // One that broke meanwhile is made again by the next call.
                Err(error) if error.is_io_error() => continue,
                Err(error) => return Err(failed("wait", &error)),
            };
            let [touched, info, confirmed] =
                answers.map_err(|_| reply::wrong("an answer to WAIT of another shape"))?;
            if reply::number(touched)? > 0 {
                return Ok((reply::number(confirmed)?, history(&reply::text(info)?)?));
            }
            let made: Result<Value, _> = make.query_async(&mut self.connection.clone()).await;
            made.map_err(|error| failed("wait", &error))?;
        }
        Err(Error::Unconfirmed { confirmed: 0, wanted: replicas, wait_ms })
    }

    async fn pipe(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>, redis::RedisError> {
        pipeline.query_async(&mut self.connection.clone()).await
    }
}

fn history(info: &str) -> Result<String, Error> {
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
    id.map(|id| id.trim().to_owned()).ok_or_else(|| reply::wrong("a replication without an id"))
}
