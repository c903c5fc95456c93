//! A proxy that cuts connections off: before a request is through, after it but before its answer, or in the middle of that.
//!
//! It knows nothing of what it carries. Each connection gets a number of bytes for either way and is gone when one is used up;
//! a connection carries many requests, so where that happens is anywhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// At most so many bytes of requests, and of answers, for one connection.
const UP_BYTES_MAX: u64 = 6000;
const DOWN_BYTES_MAX: u64 = 6000;

#[derive(Debug)]
pub(crate) struct Cutter {
    pub(crate) address: SocketAddr,
    behind: watch::Sender<SocketAddr>,
    cuts: Arc<AtomicU64>,
    accepting: AbortHandle,
}

impl Cutter {
    pub(crate) async fn start(behind: SocketAddr, seed: u64) -> std::io::Result<Cutter> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (behind, server) = watch::channel(behind);
        let cuts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&cuts);
        let accepting = tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            while let Ok((client, _)) = listener.accept().await {
                let budgets = [random.random_range(0..UP_BYTES_MAX), random.random_range(0..DOWN_BYTES_MAX)];
                let (server, counted) = (*server.borrow(), Arc::clone(&counted));
                tokio::spawn(async move {
                    if carry(client, server, budgets).await.unwrap_or(false) {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Ok(Cutter { address, behind, cuts, accepting: accepting.abort_handle() })
    }

    /// The broker was started again somewhere else.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        self.behind.send_replace(server);
    }

    /// How many connections were cut off.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Whether it was cut, and did not end by itself.
async fn carry(client: TcpStream, server: SocketAddr, [up, down]: [u64; 2]) -> std::io::Result<bool> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Either end drops both: nobody hears anything more on this connection.
    Ok(tokio::select! {
        cut = copy(from_client, to_server, up) => cut,
        cut = copy(from_server, to_client, down) => cut,
    })
}

/// Carries bytes until there are no more or `budget` is used up; whether that was why.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut budget: u64) -> bool {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return false };
        let carried = (read as u64).min(budget);
        if to.write_all(&buffer[..carried as usize]).await.is_err() {
            return false;
        }
        budget -= carried;
        if budget == 0 {
            return true;
        }
    }
}
