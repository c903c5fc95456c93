//! The thread that serves listeners.
//!
//! A thousand listeners who hear everything want more of a processor than all the tasks that they hear of. So they share one
//! thread with what the broker does for them, and the system gives that thread less than the others when there is not enough for all.
//! Less is not enough where there are few cores: a thread that is at it keeps its core for some milliseconds, and a submit waits for
//! its turn more than once. So listeners are served in short bursts with pauses between them ([`Room::breathe`]), each in its turn. Those who
//! come late in a round get what happened since then too: more listeners make fewer and larger pieces.
//!
//! What is written to a listener is written here: a WebSocket is taken away from its server by the upgrade, and a connection whose answer is a
//! stream of events moves in as it is ([`Listens`]), for it carries nothing else from then on. A gRPC connection carries other calls, which
//! should not have to stand back, and stays where it is; what it does for a watch is guessed and counted as if it were done here ([`Room::owe`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How the thread stands back: it gets about a quarter of a core where everybody wants one. With less, listeners of a busy machine
/// would hear of things long after they happened.
const NICENESS: i32 = 5;
/// A burst of work for listeners, in time of the processor, and the pause after it in parts of what it took.
const BURST: Duration = Duration::from_millis(1);
const PAUSE: u32 = 2;
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// What sending a message takes elsewhere, whatever its size; what lies in its size takes about as long as making it did.
const SENDING: Duration = Duration::from_micros(20);
/// How long the last words to listeners may take.
const FAREWELL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Room {
    thread: OnceLock<Handle>,
    listeners: TaskTracker,
    over: CancellationToken,
    /// The time that the thread had taken when the last pause ended. Those who wait for it are served in the order in which they came.
    paused_at: Mutex<Duration>,
    /// Nanoseconds that others took for listeners.
    elsewhere: AtomicU64,
}

/// Stands in an answer that goes on until its listener leaves: its connection belongs into the room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listens;

impl Room {
    pub(crate) fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        self.handle().spawn(self.listeners.track_future(serving));
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.thread.get_or_init(|| open(self.over.clone()).unwrap_or_else(Handle::current))
    }

    /// To be called by a listener in this room before it is served: it may be time for a pause.
    pub(crate) async fn breathe(&self) {
        let mut paused_at = self.paused_at.lock().await;
        if self.listeners.is_closed() {
            return; // Everybody is to leave, so nothing is gained by waiting.
        }
        let taken = self.taken().saturating_sub(*paused_at);
        if taken >= BURST {
            // sleep: that others have the core meanwhile is the purpose.
            tokio::time::sleep((taken * PAUSE).min(PAUSE_MAX)).await;
            *paused_at = self.taken();
        }
    }

    /// Makes something here that somebody else will send, who takes about as long for it. Says whether there was anything to make.
    pub(crate) fn owe(&self, make: impl FnOnce() -> bool) -> bool {
        let began = taken_by_thread();
        let made = make();
        if made {
            let sending = SENDING + taken_by_thread().saturating_sub(began);
            self.elsewhere.fetch_add(u64::try_from(sending.as_nanos()).unwrap_or(0), Ordering::Relaxed);
        }
        made
    }

    fn taken(&self) -> Duration {
        taken_by_thread() + Duration::from_nanos(self.elsewhere.load(Ordering::Relaxed))
    }

    /// Who is here: listeners, and connections that moved in.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Ready when everybody who was asked to leave has left, or took too long.
    pub(crate) async fn emptied(&self) {
        self.listeners.close();
        if tokio::time::timeout(FAREWELL, self.listeners.wait()).await.is_err() {
            tracing::debug!(listeners = self.listeners.len(), "listeners did not take their leave");
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

fn taken_by_thread() -> Duration {
    let taken = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(taken).unwrap_or_default()
}

/// `None` if there can be no such thread; then listeners are served like everybody else.
fn open(over: CancellationToken) -> Option<Handle> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let serve = move || {
        // Of this thread alone, as Linux has it. Where it does not work they are only less modest.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        let _ = send.send(runtime.handle().clone());
        runtime.block_on(over.cancelled());
    };
    std::thread::Builder::new().name("windlass-events".to_owned()).spawn(serve).ok()?;
    receive.recv().ok()
}
