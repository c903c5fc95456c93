//! The thread that serves listeners.
//!
//! A thousand listeners who hear everything want more of a processor than all the tasks that they hear of. So they share one
//! thread, and the system gives that thread less than the others when there is not enough for all. It is started by the first listener.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How the thread stands back: it gets about a quarter of a core where everybody wants one. With less, listeners of a busy machine
/// would hear of things long after they happened.
const NICENESS: i32 = 5;
/// How long the last words to listeners may take.
const FAREWELL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Room {
    thread: OnceLock<Handle>,
    listeners: TaskTracker,
    over: CancellationToken,
}

impl Room {
    pub(crate) fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        let handle = self.thread.get_or_init(|| open(self.over.clone()).unwrap_or_else(Handle::current));
        handle.spawn(self.listeners.track_future(serving));
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
