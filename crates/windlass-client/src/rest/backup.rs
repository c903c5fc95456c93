//! Backups: the whole store of a broker as one stream of bytes.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Response};
use tokio::time::timeout;

use super::{Client, send};
use crate::error::Error;

const BACKUP: [&str; 3] = ["api", "v1", "backup"];
/// The time limit for the whole stream. The broker ends a backup after half an hour.
const STREAM_TIMEOUT: Duration = Duration::from_secs(32 * 60);
/// The longest wait for the first bytes, which need a checkpoint, and between two pieces.
const SILENCE_MAX: Duration = Duration::from_secs(65);

/// A backup that is being taken, see [`Client::backup`].
#[derive(Debug)]
pub struct Backup(Response);

impl Client {
    /// Begins a backup. The stream is complete only if it ends with its manifest.
    pub async fn backup(&self) -> Result<Backup, Error> {
        let request = self.request(Method::GET, &BACKUP)?.timeout(STREAM_TIMEOUT);
        timeout(SILENCE_MAX, send(request)).await.map_err(|_| silent())?.map(Backup)
    }
}

impl Backup {
    /// Reads the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        timeout(SILENCE_MAX, self.0.chunk()).await.map_err(|_| silent())?.map_err(Error::from_transport)
    }
}

fn silent() -> Error {
    Error::Unreachable { detail: format!("no data arrived for {} seconds", SILENCE_MAX.as_secs()) }
}
