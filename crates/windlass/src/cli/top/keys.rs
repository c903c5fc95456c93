//! What keys do.

use std::fmt;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use windlass_core::{Name, TaskId};

use super::model::{Mode, Model, Pane};

/// The longest filter that can be typed.
const FILTER_CHARS_MAX: usize = 60;
/// Rows of a page.
const PAGE: isize = 10;

/// Something that others must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    PauseQueue(Name),
    ResumeQueue(Name),
    PauseWorker(Name),
    ResumeWorker(Name),
    Retry(TaskId),
    Quit,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::PauseQueue(queue) => write!(f, "pause queue {queue}"),
            Act::ResumeQueue(queue) => write!(f, "resume queue {queue}"),
            Act::PauseWorker(worker) => write!(f, "pause worker {worker}"),
            Act::ResumeWorker(worker) => write!(f, "resume worker {worker}"),
            Act::Retry(task) => write!(f, "retry {task}"),
            Act::Quit => f.write_str("quit"),
        }
    }
}

impl Model {
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Act> {
        // Some terminals tell when a key is let go, too.
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Act::Quit);
        }
        match self.mode.clone() {
            Mode::Watch => self.watch_key(key.code),
            Mode::Filter { before } => {
                self.filter_key(key.code, before);
                None
            }
            Mode::Ask(act) => {
                self.mode = Mode::Watch;
                matches!(key.code, KeyCode::Char('y' | 'Y')).then_some(act)
            }
            Mode::Help => {
                self.mode = Mode::Watch;
                None
            }
        }
    }

    fn watch_key(&mut self, code: KeyCode) -> Option<Act> {
        self.notice = None;
        match code {
            KeyCode::Char('q') => return Some(Act::Quit),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter { before: self.filter.clone() },
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab => self.pane = self.pane.next(),
            KeyCode::BackTab => self.pane = self.pane.next().next(),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(PAGE),
            KeyCode::PageUp => self.step(-PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Char('s') => self.deepest_first = !self.deepest_first,
            KeyCode::Char('p') => {
                if let Some(act) = self.pausing() {
                    self.mode = Mode::Ask(act);
                }
            }
            KeyCode::Char('r') if self.pane == Pane::Failures => return self.retrying(),
            KeyCode::Char('r') => self.pane = Pane::Failures,
            _ => {}
        }
        None
    }

    fn filter_key(&mut self, code: KeyCode, before: String) {
        match code {
            KeyCode::Enter => self.mode = Mode::Watch,
            KeyCode::Esc => {
                self.filter = before;
                self.mode = Mode::Watch;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            _ => {}
        }
    }
}

impl Pane {
    fn next(self) -> Self {
        match self {
            Pane::Queues => Pane::Workers,
            Pane::Workers => Pane::Failures,
            Pane::Failures => Pane::Queues,
        }
    }
}
