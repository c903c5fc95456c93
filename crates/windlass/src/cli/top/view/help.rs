//! The keys, above everything else.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Wrap};

use super::theme::Theme;

const KEYS: [(&str, &str); 10] = [
    ("tab, shift-tab", "next pane, previous pane"),
    ("↑ ↓  j k", "select; page up and down, home, end"),
    ("/", "show only what contains a text; esc ends it"),
    ("p", "pause or resume the selected queue or worker"),
    ("r", "retry the selected failure (✗ dead letters)"),
    ("s", "queues by name, or the deepest first"),
    ("?", "this"),
    ("q, ctrl-c", "quit"),
    ("", ""),
    ("✗ ↻", "a dead letter; a task that will be tried again"),
];

/// Wide enough for every line.
const WIDTH: u16 = 68;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let narrow = area.width < WIDTH;
    let rows = if narrow { u16::MAX } else { KEYS.len() as u16 + 2 };
    let (width, height) = (WIDTH.min(area.width), rows.min(area.height));
    let [_, row, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let [_, popup, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width), Constraint::Fill(1)]).areas(row);
    let line = |(key, does): (&'static str, &'static str)| {
        let key = if narrow { format!("{key} ") } else { format!(" {key:<16}") };
        Line::from(vec![Span::styled(key, theme.strong()), Span::raw(does)])
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(" Keys ", theme.strong()))
        .title_bottom(Line::styled(" any key closes this ", theme.dim()).right_aligned());
    frame.render_widget(Clear, popup);
    let keys = Paragraph::new(KEYS.map(line).to_vec()).wrap(Wrap { trim: false });
    frame.render_widget(keys.block(block), popup);
}
