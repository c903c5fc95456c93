//! What Redis must write for a batch of tasks of Windlass, as plain commands in one pipeline: the same keys and the same bytes, counters
//! once for the batch, without a script that looks at anything. Only submits: it is what those of library mode are held against.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use tokio::sync::OnceCell;

use super::resp::{Resp, Token, command};
use crate::driver::{self, Driver, Producer as _};
use crate::drivers::library::Library;
use crate::payload;

/// Commands for one task, and for a batch beside those.
const TASK_COMMANDS: usize = 4;
const BATCH_COMMANDS: usize = 9;
/// Of the default priority.
const FIRST_SCORE: u64 = 155 << 45;

#[derive(Debug, Clone)]
pub(crate) struct Plain {
    addr: SocketAddr,
    row: Rc<OnceCell<Row>>,
}

/// A task as Windlass wrote it.
#[derive(Debug, Clone)]
struct Row {
    /// Its line and its record.
    task: Vec<u8>,
    body: Vec<u8>,
}

impl Plain {
    pub(crate) fn at(addr: SocketAddr) -> Plain {
        Plain { addr, row: Rc::default() }
    }

    /// Has Windlass write a task, and reads what it wrote.
    async fn row(&self) -> Result<Row> {
        let read = || async {
            Library::at(self.addr).producer().await?.submit(&[&payload::at(0)]).await?;
            let mut resp = Resp::open(self.addr).await?;
            let mut request = Vec::new();
            for hash in [&b"{windlass}:tasks"[..], b"{windlass}:bodies"] {
                command(&mut request, &[b"HGET", hash, b"00000000000001"]);
            }
            resp.send(&request).await?;
            let mut value = async || match resp.token().await? {
                Token::Bulk(bytes) => Ok(bytes.to_vec()),
                other => bail!("there is no row but {other:?}"),
            };
            Ok::<_, anyhow::Error>(Row { task: value().await?, body: value().await? })
        };
        let row = self.row.get_or_try_init(read).await;
        row.cloned().context("see what Windlass writes for a task")
    }
}

impl Driver for Plain {
    type Producer = Producer;
    type Worker = Producer;

    async fn producer(&self) -> Result<Producer> {
        let resp = Resp::open(self.addr).await?;
        Ok(Producer { resp, row: self.row().await?, request: Vec::new() })
    }

    async fn worker(&self, _: usize, _: usize) -> Result<Producer> {
        bail!("plain writes are only made")
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    resp: Resp,
    row: Row,
    request: Vec<u8>,
}

impl driver::Worker for Producer {
    async fn turn(&mut self, _: &mut dyn FnMut(&[u8])) -> Result<usize> {
        bail!("plain writes are only made")
    }
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        let names: Vec<String> = payloads.iter().map(|_| self.write()).collect();
        self.count(&names);
        self.resp.send(&self.request).await?;
        for _ in 0..payloads.len() * TASK_COMMANDS + BATCH_COMMANDS {
            self.resp.done().await?;
        }
        Ok(())
    }
}

impl Producer {
    /// Returns the name of the task.
    fn write(&mut self) -> String {
        let number = next_number();
        let name = format!("{number:014}");
        // As long as the ids that Windlass makes.
        let id = format!("0191f3c8-7c1e-7d1a-9a57-{number:012x}");
        let score = (FIRST_SCORE + number).to_string();
        let Row { task, body } = &self.row;
        let words: [&[&[u8]]; TASK_COMMANDS] = [
            &[b"HSET", b"{windlass}:tasks", name.as_bytes(), task],
            &[b"HSET", b"{windlass}:bodies", name.as_bytes(), body],
            &[b"HSET", b"{windlass}:ids", id.as_bytes(), name.as_bytes()],
            &[b"ZADD", b"{windlass}:ready/bench/task", score.as_bytes(), name.as_bytes()],
        ];
        for words in words {
            command(&mut self.request, words);
        }
        name
    }

    fn count(&mut self, names: &[String]) {
        let (many, first) = (names.len().to_string(), FIRST_SCORE.to_string());
        let many = many.as_bytes();
        // Others write at the same time, so the numbers of a batch need not follow each other; as many bytes it is.
        let run = match names {
            [.., last] if names.len() > 1 => format!("{}+{last}", names[0]),
            _ => names.concat(),
        };
        let (score, run) = (names.first().map_or(&b"0"[..], |name| name.as_bytes()), run.as_bytes());
        let words: [&[&[u8]]; BATCH_COMMANDS] = [
            &[b"HINCRBY", b"{windlass}:meta", b"number", many],
            &[b"HINCRBY", b"{windlass}:queue/bench", b"2", many],
            &[b"HINCRBY", b"{windlass}:queue/bench", b"class1", many],
            &[b"HINCRBY", b"{windlass}:waiting", b"1/task", many],
            &[b"HINCRBY", b"{windlass}:ledger", b"submitted", many],
            &[b"ZADD", b"{windlass}:state/2", score, run],
            &[b"ZADD", b"{windlass}:age/bench", score, run],
            &[b"ZADD", b"{windlass}:lanes/bench", b"LT", first.as_bytes(), b"155 task"],
            &[b"PUBLISH", b"{windlass}:hints", b"0000000000000000 - - - bench/task"],
        ];
        for words in words {
            command(&mut self.request, words);
        }
    }
}

/// No task is written twice.
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
