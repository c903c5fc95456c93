//! Events over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use windlass_broker::{Heard, Listener};
use windlass_core::limits::{
    LISTENER_BEAT_MS, LISTENER_FAREWELL_MS_MAX, LISTENER_MESSAGE_BYTES_MAX, LISTENER_MESSAGES_MAX,
    LISTENER_SILENT_MS_MAX, LISTENER_WRITE_BYTES_MAX,
};

use super::text;
use crate::api::State;
use crate::server::budget::Account;

/// What the connection gathers before it writes, and what it may hold at most: a write, and one message that did not fit.
const GATHERED_BYTES: usize = 16 * 1024;
const HELD_BYTES_MAX: usize = LISTENER_WRITE_BYTES_MAX * 4;
/// Writes in one turn: enough for one that hears everything while a thousand others have their turns.
const PIECES_MAX: usize = 16;

pub(super) fn answer(
    state: &Arc<State>,
    upgrade: WebSocketUpgrade,
    listener: Listener,
    account: Option<Arc<Account>>,
) -> Response {
    let state = state.clone();
    upgrade
        .read_buffer_size(LISTENER_MESSAGE_BYTES_MAX)
        .write_buffer_size(GATHERED_BYTES)
        .max_write_buffer_size(HELD_BYTES_MAX)
        .max_message_size(LISTENER_MESSAGE_BYTES_MAX)
        .max_frame_size(LISTENER_MESSAGE_BYTES_MAX)
        .on_upgrade(async move |socket| {
            let serving = Connection::new(socket, listener, account).serve(state.clone());
            state.room.spawn(serving);
        })
}

struct Connection {
    socket: WebSocket,
    listener: Listener,
    /// When the client last said anything, a pong included.
    heard_at: Instant,
    /// What it said since the last beat.
    messages: usize,
    /// The id in the last message.
    said: u64,
    /// What it has not read counts here.
    account: Option<Arc<Account>>,
}

/// Why a listener is not served any more.
enum End {
    Gone,
    /// It said so.
    Left,
    Chatty,
    TooSlow,
    Stopping,
}

impl Connection {
    fn new(socket: WebSocket, listener: Listener, account: Option<Arc<Account>>) -> Self {
        Self { socket, listener, heard_at: Instant::now(), messages: 0, said: 0, account }
    }

    async fn serve(mut self, state: Arc<State>) {
        let end = self.run(&state).await;
        let Connection { mut socket, listener, .. } = self;
        let (code, reason, patience) = match end {
            End::Gone => return,
            End::Left => {
                // That it was understood, which is what it waits for.
                let _ = timeout(Duration::from_millis(1000), socket.flush()).await;
                return;
            }
            End::Chatty => (close_code::POLICY, "you talk too much; this is for listening", 1000),
            End::Stopping => (close_code::AWAY, "the broker is stopping", 1000),
            End::TooSlow => {
                listener.cut();
                let reason = "you read too slowly; come back with the id of the last event as last_id";
                (close_code::AGAIN, reason, LISTENER_FAREWELL_MS_MAX)
            }
        };
        let close = Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }));
        let farewell = async {
            // Behind what it has not read yet.
            socket.send(close).await?;
            // Until it has closed too, so that no reset overtakes the reason.
            while let Some(Ok(_)) = socket.next().await {}
            Ok::<(), axum::Error>(())
        };
        let _ = timeout(Duration::from_millis(patience), farewell).await;
    }

    async fn run(&mut self, state: &State) -> End {
        // Made here, on the thread whose clock it uses.
        let mut beat = interval(Duration::from_millis(LISTENER_BEAT_MS));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let patience = state.settings.listener_stall;
        if let Err(end) = within(patience, self.write_position()).await {
            return end;
        }
        loop {
            let written = tokio::select! {
                biased;
                () = state.closing.cancelled() => return End::Stopping,
                said = self.socket.next() => match said {
                    None | Some(Err(_)) => return End::Gone,
                    Some(Ok(Message::Close(_))) => return End::Left,
                    Some(Ok(_)) => {
                        self.heard_at = Instant::now();
                        self.messages += 1;
                        if self.messages > LISTENER_MESSAGES_MAX {
                            return End::Chatty;
                        }
                        continue;
                    }
                },
                // Before what it hears, which may be without end.
                _ = beat.tick() => {
                    if self.heard_at.elapsed() > Duration::from_millis(LISTENER_SILENT_MS_MAX) {
                        return End::Gone;
                    }
                    self.messages = 0;
                    within(patience, self.write_beat()).await
                }
                () = self.listener.woken() => {
                    state.room.breathe().await;
                    self.write_all(patience).await
                }
            };
            if let Err(end) = written {
                return end;
            }
        }
    }

    async fn write_beat(&mut self) -> Result<(), axum::Error> {
        self.socket.feed(Message::Ping(Bytes::new())).await?;
        self.write_position().await
    }

    /// Where it is, if it does not know: one that hears little, or nothing yet, can then come back to here.
    async fn write_position(&mut self) -> Result<(), axum::Error> {
        if let Some(place) = self.listener.place().filter(|place| *place != self.said) {
            self.said = place;
            let message = Utf8Bytes::try_from(text::position(place)).map_err(axum::Error::new)?;
            self.socket.feed(Message::Text(message)).await?;
        }
        self.socket.flush().await
    }

    /// What there is, in so many pieces at most that the others come to their turn.
    async fn write_all(&mut self, patience: Duration) -> Result<(), End> {
        for _ in 0..PIECES_MAX {
            let Some(heard) = self.listener.more() else { break };
            within(patience, self.write(heard)).await?;
        }
        Ok(())
    }

    /// What there is, up to a size.
    async fn write(&mut self, first: Heard) -> Result<(), axum::Error> {
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(heard) = next {
            let (id, message) = text::heard(&heard);
            self.said = id;
            bytes += message.len();
            let message = Utf8Bytes::try_from(message).map_err(axum::Error::new)?;
            // Twice: as text, and as the frames that are written.
            let _held = self.account.as_ref().map(|account| account.hold(2 * bytes));
            self.socket.feed(Message::Text(message)).await?;
            next = if bytes < LISTENER_WRITE_BYTES_MAX { self.listener.more() } else { None };
        }
        let _held = self.account.as_ref().map(|account| account.hold(2 * bytes));
        self.socket.flush().await
    }
}

async fn within(
    patience: Duration,
    writing: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), End> {
    match timeout(patience, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::TooSlow),
    }
}
