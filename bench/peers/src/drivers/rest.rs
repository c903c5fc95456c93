//! Windlass over REST, HTTP/1.1 on kept connections. There is no batch of completions in REST: they go out one behind the other.

use std::borrow::Cow;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::driver::{self, Driver, QUEUE, WAIT};
use crate::wire::{Wire, number};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest {
    pub(crate) addr: SocketAddr,
    /// The same requests to a server that sends them back.
    pub(crate) echo: bool,
}

impl Driver for Rest {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        let (one, many) = match self.echo {
            true => ("/", "/"),
            false => ("/api/v1/tasks", "/api/v1/tasks/batch"),
        };
        Ok(Producer { wire: Wire::open(self.addr).await?, one, many, body: Vec::new(), request: Vec::new() })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let body = format!(
            r#"{{"worker_id":"bench-{number}","queues":["{QUEUE}"],"max":{batch},"wait_seconds":{}}}"#,
            WAIT.as_secs()
        );
        let mut claim = Vec::new();
        post(&mut claim, "/api/v1/claim", body.as_bytes());
        Ok(Worker { wire: Wire::open(self.addr).await?, claim, request: Vec::new() })
    }
}

/// What a claim answers with, as far as a worker that does nothing needs it.
#[derive(Debug, Deserialize)]
pub(crate) struct Claimed<'a> {
    #[serde(borrow)]
    pub(crate) tasks: Vec<Leased<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Leased<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) lease: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) payload: &'a RawValue,
}

#[derive(Debug)]
pub(crate) struct Producer {
    wire: Wire,
    one: &'static str,
    many: &'static str,
    body: Vec<u8>,
    request: Vec<u8>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.body.clear();
        let single = payloads.len() == 1;
        if !single {
            self.body.extend_from_slice(b"{\"tasks\":[");
        }
        for (place, payload) in payloads.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let head = format!(r#"{comma}{{"type":"bench","queue":"{QUEUE}","payload":"#);
            self.body.extend_from_slice(head.as_bytes());
            self.body.extend_from_slice(payload);
            self.body.push(b'}');
        }
        if !single {
            self.body.extend_from_slice(b"]}");
        }
        self.request.clear();
        post(&mut self.request, if single { self.one } else { self.many }, &self.body);
        self.wire.send(&self.request).await?;
        let body = answer(&mut self.wire).await?;
        // A batch is answered with success even if a task in it was refused.
        if !single && body.windows(8).any(|window| window == b"\"error\":") {
            bail!("a task of a batch was refused: {}", String::from_utf8_lossy(body));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    wire: Wire,
    claim: Vec<u8>,
    request: Vec<u8>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.wire.send(&self.claim).await?;
        let claimed: Claimed<'_> =
            serde_json::from_slice(answer(&mut self.wire).await?).context("read a claim")?;
        self.request.clear();
        for task in &claimed.tasks {
            start(task.payload.get().as_bytes());
            let body = format!(r#"{{"lease":"{}"}}"#, task.lease);
            post(&mut self.request, &format!("/api/v1/tasks/{}/complete", task.id), body.as_bytes());
        }
        let taken = claimed.tasks.len();
        if taken > 0 {
            self.wire.send(&self.request).await?;
            for _ in 0..taken {
                answer(&mut self.wire).await?;
            }
        }
        Ok(taken)
    }
}

fn post(request: &mut Vec<u8>, path: &str, body: &[u8]) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    request.extend_from_slice(head.as_bytes());
    request.extend_from_slice(body);
}

/// The body of an answer, if the request was carried out.
async fn answer(wire: &mut Wire) -> Result<&[u8]> {
    let head = Head::parse(wire.until(b"\r\n\r\n").await?)?;
    let body = wire.exact(head.length).await?;
    if !(200..300).contains(&head.status) {
        bail!("Windlass answered {}: {}", head.status, String::from_utf8_lossy(body));
    }
    Ok(body)
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: usize,
}

impl Head {
    fn parse(head: &[u8]) -> Result<Head> {
        const LENGTH: &[u8] = b"content-length:";
        let mut lines = head.split(|&byte| byte == b'\n');
        let status = lines.next().and_then(|line| line.strip_prefix(b"HTTP/1.1 ")?.get(..3));
        let length = lines.find_map(|line| {
            let (name, value) = line.split_at_checked(LENGTH.len())?;
            name.eq_ignore_ascii_case(LENGTH).then(|| value.trim_ascii())
        });
        let status = number(status.context("the answer is no HTTP/1.1")?)?;
        Ok(Head { status, length: number(length.context("the answer has no length")?)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_status_and_a_length() {
        let head = b"HTTP/1.1 201 Created\r\nx: y\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(Head::parse(head).unwrap(), Head { status: 201, length: 5 });
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in
            ["SMTP ready\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 2\r\ncontent-length: 0\r\n\r\n"]
        {
            assert!(Head::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
