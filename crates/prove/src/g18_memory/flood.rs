//! Load that is offered whether the broker keeps up or not: small submits over frames, pipelined, at a rate.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::frames::Frames;
use crate::proof::Trouble;
use crate::server::Server;

const CONNECTIONS: u64 = 8;
/// Clients that submit one task after the other, to see what the broker can take.
const MEASURING: u64 = 16;
const TICK: Duration = Duration::from_millis(20);
/// What is not answered by then stays unknown: the sockets hold much.
const DRAIN: Duration = Duration::from_secs(2);
const ACK: u8 = 5;

/// Submits a second that the broker takes when nobody hurts it.
pub(super) async fn measure(server: &Server, length: Duration) -> Result<u64, Trouble> {
    let address = frames(server)?;
    let mut clients = JoinSet::new();
    for number in 0..MEASURING {
        clients.spawn(async move {
            let (mut frames, began, mut done) = (Frames::new(address), Instant::now(), 0);
            while began.elapsed() < length {
                let task = json!({"type": "measure", "queue": "measure", "payload": number});
                if frames.submit(&task).await.is_ok_and(|answer| answer.is_success()) {
                    done += 1;
                }
            }
            done
        });
    }
    let done: u64 = clients.join_all().await.into_iter().sum();
    match done / length.as_secs() {
        0 => Err(Trouble::failed("the broker took nothing, though nobody hurt it")),
        rate => Ok(rate),
    }
}

fn frames(server: &Server) -> Result<SocketAddr, Trouble> {
    server.frames().ok_or_else(|| Trouble::failed("the broker has no frames"))
}

#[derive(Debug)]
pub(super) struct Flood {
    clients: JoinSet<io::Result<()>>,
    counts: Arc<Counts>,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct Counts {
    offered: AtomicU64,
    sent: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Flooded {
    offered: u64,
    sent: u64,
    pub(super) accepted: u64,
    refused: u64,
    /// Sent and never answered.
    pub(super) unknown: u64,
}

impl Flood {
    pub(super) fn start(server: &Server, rate: u64) -> Result<Flood, Trouble> {
        let address = frames(server)?;
        let mut flood =
            Flood { clients: JoinSet::new(), counts: Arc::default(), over: CancellationToken::new() };
        for _ in 0..CONNECTIONS {
            let (counts, over) = (flood.counts.clone(), flood.over.clone());
            flood.clients.spawn(offer(address, (rate / CONNECTIONS).max(1), counts, over));
        }
        Ok(flood)
    }

    /// Stops offering and waits for the answers that are still due.
    pub(super) async fn finish(mut self) -> Flooded {
        self.over.cancel();
        let all = async { while self.clients.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, all).await;
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let Counts { offered, sent, accepted, refused } = &*self.counts;
        let (sent, accepted, refused) = (of(sent), of(accepted), of(refused));
        Flooded { offered: of(offered), sent, accepted, refused, unknown: sent - accepted - refused }
    }
}

impl Flooded {
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.accepted == 0 {
            complaints.push("nothing of the flood was accepted".to_owned());
        }
        if self.offered <= self.accepted {
            complaints.push("the flood offered no more than the broker took, so it was none".to_owned());
        }
        complaints
    }
}

impl fmt::Display for Flooded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flooded { offered, sent, accepted, refused, unknown } = self;
        write!(
            f,
            "flood: {offered} offered, {sent} sent, {accepted} accepted, {refused} refused, {unknown} unknown"
        )
    }
}

/// One connection, opened again when it is lost. What the socket does not take in time is offered in vain.
async fn offer(
    address: SocketAddr,
    rate: u64,
    counts: Arc<Counts>,
    over: CancellationToken,
) -> io::Result<()> {
    let body = json!({"type": "flood", "queue": "flood", "payload": {"text": "x".repeat(500)}}).to_string();
    let frame = [&(body.len() as u32 + 1).to_be_bytes()[..], &[1], body.as_bytes()].concat();
    let each = (rate * TICK.as_millis() as u64).div_ceil(1000);
    while !over.is_cancelled() {
        let Ok(stream) = TcpStream::connect(address).await else {
            // sleep: it may be turned away.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (reading, mut writing) = stream.into_split();
        let answers = tokio::spawn(count_answers(reading, counts.clone()));
        let mut tick = tokio::time::interval(TICK);
        'connected: while !over.is_cancelled() {
            tick.tick().await;
            counts.offered.fetch_add(each, Ordering::SeqCst);
            let until = tokio::time::Instant::now() + TICK;
            for _ in 0..each {
                let mut rest = &frame[..];
                while !rest.is_empty() {
                    // A frame that has begun is sent to its end.
                    let begun = rest.len() < frame.len();
                    let written = tokio::select! {
                        written = writing.write(rest) => written,
                        () = tokio::time::sleep_until(until), if !begun => continue 'connected,
                    };
                    match written {
                        Ok(bytes) if bytes > 0 => rest = &rest[bytes..],
                        _ => break 'connected,
                    }
                }
                counts.sent.fetch_add(1, Ordering::SeqCst);
            }
        }
        let _ = writing.shutdown().await;
        let _ = answers.await;
    }
    Ok(())
}

async fn count_answers(reading: OwnedReadHalf, counts: Arc<Counts>) -> io::Result<()> {
    let mut reading = BufReader::new(reading);
    let mut body = Vec::new();
    loop {
        let length = reading.read_u32().await? as usize;
        let kind = reading.read_u8().await?;
        body.resize(length.saturating_sub(1), 0);
        reading.read_exact(&mut body).await?;
        let count = if kind == ACK { &counts.accepted } else { &counts.refused };
        count.fetch_add(1, Ordering::SeqCst);
    }
}
