//! The limit of the machine for one request and one answer over TCP: a server that sends back what it gets.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::driver::{self, Driver};
use crate::wire::Wire;

/// More than any request here.
const ROOM: usize = 64 * 1024;

/// Serves until the process ends.
pub(crate) async fn serve(addr: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut buffer = vec![0; ROOM];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo {
    pub(crate) addr: SocketAddr,
}

impl Driver for Echo {
    type Producer = Producer;
    type Worker = NoWorker;

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { wire: Wire::open(self.addr).await? })
    }

    async fn worker(&self, _number: usize, _batch: usize) -> Result<NoWorker> {
        bail!("an echo has no work to give out")
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    wire: Wire,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        for payload in payloads {
            self.wire.send(payload).await?;
            self.wire.exact(payload.len()).await?;
        }
        Ok(())
    }
}

/// Cannot exist.
#[derive(Debug)]
pub(crate) enum NoWorker {}

impl driver::Worker for NoWorker {
    async fn turn(&mut self, _start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        match *self {}
    }
}
