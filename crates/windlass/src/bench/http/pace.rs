//! An open loop: requests at moments fixed beforehand, whatever the server does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::Connection;
use crate::bench::report::{add, histogram, record};
use crate::bench::{Error, io};

/// A thread that sleeps is woken about this exactly, and tokio's timers are coarser. Requests due within one step go
/// out together.
const STEP: Duration = Duration::from_micros(250);

#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Pace {
    pub(in crate::bench) addr: SocketAddr,
    pub(in crate::bench) connections: u64,
    pub(in crate::bench) rate: u64,
    pub(in crate::bench) length: Duration,
    /// Of the first request.
    pub(in crate::bench) began: Instant,
}

impl Pace {
    /// Sends the request that `make` gives for each moment. The latencies count from the moments at which the requests
    /// were due, not from when a connection was free for them.
    pub(in crate::bench) async fn run(
        self,
        call: &'static str,
        make: impl Fn(Duration) -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Histogram<u64>, Error> {
        let make = Arc::new(make);
        let mut senders = Vec::new();
        let mut running = JoinSet::new();
        for _ in 0..self.connections {
            let mut connection = Connection::open(self.addr).await.map_err(io("connect"))?;
            // Bounded by the rate and the length of the run.
            let (sender, mut moments) = mpsc::unbounded_channel();
            senders.push(sender);
            let make = make.clone();
            running.spawn(async move {
                let mut latency = histogram();
                while let Some(due) = moments.recv().await {
                    connection.call(&make(due)).await.map_err(io("call the server"))?.ok(call)?;
                    record(&mut latency, self.began.elapsed().saturating_sub(due));
                }
                Ok::<Histogram<u64>, Error>(latency)
            });
        }
        let pacing = tokio::task::spawn_blocking(move || self.send_all(&senders));
        let mut latency = histogram();
        while let Some(ended) = running.join_next().await {
            add(&mut latency, &ended??);
        }
        pacing.await?;
        Ok(latency)
    }

    fn send_all(&self, senders: &[mpsc::UnboundedSender<Duration>]) {
        for number in 0..self.rate * self.length.as_secs() {
            let due = Duration::from_secs_f64(number as f64 / self.rate as f64);
            let early = due.saturating_sub(self.began.elapsed());
            if early > STEP {
                std::thread::sleep(early);
            }
            // A connection that failed is told apart by its own error.
            if senders[(number % senders.len() as u64) as usize].send(due).is_err() {
                return;
            }
        }
    }
}
