//! The terminal as it is found, and as it is left behind: also after a panic and a signal.

use std::io::{Stdout, Write, stdout};
use std::sync::Once;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::Typed;

/// Keys that wait; a person who types more has fallen asleep on one.
const TYPED_MAX: usize = 64;
/// How soon the reader notices that nobody listens any more.
const LOOK: Duration = Duration::from_millis(200);

pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn open() -> std::io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // From here on the terminal is ours to give back.
        let opened = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        opened.map(Self).inspect_err(|_| restore())
    }

    /// A terminal of another size than before is drawn anew.
    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> std::io::Result<()> {
        self.0.draw(view).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // There is nobody to tell if this fails.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

/// The message of a panic must not be lost with the screen that it was printed on.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            report(panic);
        }));
    });
}

/// Keys and changes of size, read by a thread of its own: reading a terminal blocks.
pub(super) fn typed() -> Typed {
    let (sender, receiver) = mpsc::channel(TYPED_MAX);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(LOOK).and_then(|ready| ready.then(event::read).transpose()) {
                Ok(Some(event)) => {
                    if sender.blocking_send(event).is_err() {
                        return;
                    }
                }
                Ok(None) => {}
                // There is no terminal any more.
                Err(_) => return,
            }
        }
    });
    receiver
}

/// Resolves when the process is asked to end.
pub(super) async fn ended() {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let signals = kinds.into_iter().filter_map(|kind| signal(kind).ok());
    let waiting = signals.map(|mut signal| Box::pin(async move { signal.recv().await }));
    futures_util::future::select_all(waiting).await;
}
