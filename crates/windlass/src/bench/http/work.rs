//! A worker over REST that does nothing with its tasks.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_proto::rest::StatsBody;

use super::connection::Connection;
use super::request;
use crate::bench::engine::expect;
use crate::bench::{Error, io};

#[derive(Debug)]
pub(in crate::bench) struct Worker {
    connection: Connection,
    claim: Vec<u8>,
    pub(in crate::bench) completed: u64,
}

#[derive(Deserialize)]
struct Claimed<'a> {
    #[serde(borrow)]
    tasks: Vec<Leased<'a>>,
}

#[derive(Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    lease: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl Worker {
    pub(in crate::bench) async fn open(
        addr: SocketAddr,
        number: u64,
        queue: &str,
        max: u64,
        wait_seconds: u64,
    ) -> Result<Worker, Error> {
        let connection = Connection::open(addr).await.map_err(io("connect"))?;
        let claim = request::claim(&format!("bench-{number}"), queue, max, wait_seconds);
        Ok(Worker { connection, claim, completed: 0 })
    }

    /// Claims once, shows each payload to `start`, completes everything, and says how much that was.
    pub(in crate::bench) async fn turn(&mut self, mut start: impl FnMut(&str)) -> Result<u64, Error> {
        let call = "a claim";
        let answer = self.connection.call(&self.claim).await.map_err(io("claim"))?;
        let claimed: Claimed<'_> = serde_json::from_slice(answer.ok(call)?)
            .map_err(|error| Error::Answer { call, reason: error.to_string() })?;
        let mut requests = Vec::with_capacity(claimed.tasks.len());
        for task in &claimed.tasks {
            start(task.payload.get());
            requests.push(request::complete(&task.id, &task.lease));
        }
        for request in &requests {
            self.connection.call(request).await.map_err(io("complete"))?.ok("a completion")?;
        }
        self.completed += requests.len() as u64;
        Ok(requests.len() as u64)
    }
}

/// The broker must have counted what the clients were told.
pub(in crate::bench) async fn audit(addr: SocketAddr, submitted: u64, completed: u64) -> Result<(), Error> {
    let call = "a look at the statistics";
    let mut connection = Connection::open(addr).await.map_err(io("connect"))?;
    let answer = connection.call(&request::get("/api/v1/stats")).await.map_err(io("read the statistics"))?;
    let stats: StatsBody = serde_json::from_slice(answer.ok(call)?)
        .map_err(|error| Error::Answer { call, reason: error.to_string() })?;
    expect("tasks that the broker counted", submitted, stats.ledger.submitted)?;
    expect("completions that the broker counted", completed, stats.ledger.completed)
}
