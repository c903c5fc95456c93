//! The keys, above everything else.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

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

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let (width, height) = (68.min(area.width), (KEYS.len() as u16 + 2).min(area.height));
    let [_, row, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let [_, popup, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width), Constraint::Fill(1)]).areas(row);
    let line = |(key, does): (&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!(" {key:<16}"), theme.strong()), Span::raw(does)])
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(" Keys ", theme.strong()))
        .title_bottom(Line::styled(" any key closes this ", theme.dim()).right_aligned());
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(KEYS.map(line).to_vec()).block(block), popup);
}
