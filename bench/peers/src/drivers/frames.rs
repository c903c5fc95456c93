//! Windlass over TCP frames: a length as `u32` in network order, a kind as `u8`, and JSON. A batch is as many frames in one
//! write.

mod claimed;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::driver::{self, Driver, QUEUE, WAIT};
use crate::wire::Wire;

const SUBMIT: u8 = 1;
const CLAIM: u8 = 2;
const RESULT: u8 = 3;
const ACK: u8 = 5;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    pub(crate) addr: SocketAddr,
}

impl Driver for Frames {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { wire: Wire::open(self.addr).await?, request: Vec::new() })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let body = format!(
            r#"{{"worker_id":"bench-{number}","queues":["{QUEUE}"],"max":{batch},"wait_seconds":{}}}"#,
            WAIT.as_secs()
        );
        let mut claim = Vec::new();
        frame(&mut claim, CLAIM, &[body.as_bytes()]);
        Ok(Worker { wire: Wire::open(self.addr).await?, claim, results: Vec::new() })
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    wire: Wire,
    request: Vec<u8>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        for payload in payloads {
            let parts: [&[u8]; 5] =
                [br#"{"type":"bench","queue":""#, QUEUE.as_bytes(), br#"","payload":"#, payload, b"}"];
            frame(&mut self.request, SUBMIT, &parts);
        }
        self.wire.send(&self.request).await?;
        for _ in payloads {
            answer(&mut self.wire).await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    wire: Wire,
    claim: Vec<u8>,
    results: Vec<u8>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.wire.send(&self.claim).await?;
        let body = answer(&mut self.wire).await?;
        self.results.clear();
        let mut taken = 0;
        for task in claimed::tasks(body)? {
            let task = task?;
            start(task.payload);
            let report: [&[u8]; 5] =
                [br#"{"id":""#, task.id, br#"","lease":""#, task.lease, br#"","status":"completed"}"#];
            frame(&mut self.results, RESULT, &report);
            taken += 1;
        }
        if taken > 0 {
            self.wire.send(&self.results).await?;
            for _ in 0..taken {
                answer(&mut self.wire).await?;
            }
        }
        Ok(taken)
    }
}

/// The body of an answer, if the request was carried out.
async fn answer(wire: &mut Wire) -> Result<&[u8]> {
    let (length, kind) = head(wire.exact(5).await?)?;
    let body = wire.exact(length).await?;
    if kind != ACK {
        bail!("Windlass answered {kind}: {}", String::from_utf8_lossy(body));
    }
    Ok(body)
}

/// The length of the body and the kind.
fn head(bytes: &[u8]) -> Result<(usize, u8)> {
    let &[a, b, c, d, kind] = bytes else { bail!("a frame has no head") };
    let length = u32::from_be_bytes([a, b, c, d]).checked_sub(1).context("a frame has no kind")?;
    Ok((length as usize, kind))
}

fn frame(bytes: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length + 1).expect("requests of a bench are small");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_counts_the_kind() {
        let mut bytes = Vec::new();
        frame(&mut bytes, ACK, &[b"{", b"}"]);
        assert_eq!(bytes, [0, 0, 0, 3, 5, b'{', b'}']);
        assert_eq!(head(&bytes[..5]).unwrap(), (2, ACK));
        assert!(head(&[0; 5]).is_err());
    }
}
