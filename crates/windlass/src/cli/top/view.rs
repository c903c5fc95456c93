//! A model as a screen.

mod failures;
mod header;
mod help;
mod queues;
mod theme;
mod workers;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Cell, Paragraph, Row, Table, TableState, Wrap};

use super::model::{Link, Mode, Model, Pane};
use crate::cli::output::escape;
use theme::Theme;

/// From here on there is room for what is nice to know.
const WIDE: u16 = 120;
/// Below this there is room for one pane only: the one that keys go to.
const PANES: (u16, u16) = (60, 12);
/// Below this height the figures of the whole broker give way to the panes.
const HEADER_MIN: u16 = 10;
/// All keys in one line.
const KEYS: u16 = 62;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let theme = Theme { colour: model.colour };
    let header = if frame.area().height < HEADER_MIN { 1 } else { 3 };
    let rows = [Constraint::Length(header), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
    header::draw(frame, top, model, theme);
    if model.snapshot.is_some() {
        panes(frame, middle, model, theme);
    } else {
        let text = match &model.link {
            Link::Lost(reason) => format!("{}: {}", model.server, escape(reason)),
            _ => format!("connecting to {}", model.server),
        };
        let [_, line, _] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(4), Constraint::Fill(1)]).areas(middle);
        let text = Paragraph::new(text).wrap(Wrap { trim: true });
        frame.render_widget(text.style(theme.dim()).centered(), line);
    }
    footer(frame, bottom, model, theme);
    if model.mode == Mode::Help {
        help::draw(frame, middle, theme);
    }
}

/// Queues get the room that they need, up to a half; the others share the rest.
fn panes(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    if area.width < PANES.0 || area.height < PANES.1 {
        return match model.pane {
            Pane::Queues => queues::draw(frame, area, model, theme),
            Pane::Workers => workers::draw(frame, area, model, theme),
            Pane::Failures => failures::draw(frame, area, model, theme),
        };
    }
    let needed = model.queues().len().min(usize::from(u16::MAX) - 3) as u16 + 3;
    let most = (area.height / 2).max(4);
    let split = [Constraint::Length(needed.clamp(4, most)), Constraint::Fill(1)];
    let [upper, lower] = Layout::vertical(split).areas(area);
    let [left, right] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).areas(lower);
    queues::draw(frame, upper, model, theme);
    workers::draw(frame, left, model, theme);
    failures::draw(frame, right, model, theme);
}

/// The keys, or whatever is more important right now.
fn footer(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let line = match (&model.mode, &model.notice) {
        (Mode::Filter { .. }, _) => Line::from(vec![
            Span::styled(" filter ", theme.strong()),
            Span::raw(format!("{}▏", escape(&model.filter))),
            Span::styled("  enter keeps it, esc gives it up", theme.dim()),
        ]),
        (Mode::Ask(act), _) => Line::from(vec![
            Span::styled(format!(" {act}? "), theme.warn()),
            Span::styled("y", theme.strong()),
            Span::raw(" yes  "),
            Span::styled("any other key", theme.strong()),
            Span::raw(" no"),
        ]),
        (_, Some(notice)) => {
            let style = if notice.bad { theme.bad() } else { theme.good() };
            Line::styled(format!(" {}", escape(&notice.text)), style)
        }
        _ => keys(area.width, model, theme),
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn keys(width: u16, model: &Model, theme: Theme) -> Line<'static> {
    let pause = if model.pane == Pane::Failures { "" } else { "pause" };
    let mut known = [
        ("tab", "pane"),
        ("/", "filter"),
        ("p", pause),
        ("r", "retry"),
        ("s", "sort"),
        ("?", "help"),
        ("q", "quit"),
    ];
    if width < KEYS {
        // Where not all have room, the way to the others comes first, and the way out.
        known.rotate_right(2);
    }
    let mut spans = Vec::new();
    for (key, does) in known.into_iter().filter(|(_, does)| !does.is_empty()) {
        spans.push(Span::styled(format!(" {key}"), theme.strong()));
        spans.push(Span::styled(format!(" {does} "), theme.dim()));
    }
    if !model.filter.is_empty() {
        spans.push(Span::styled(format!("  only “{}”", escape(&model.filter)), theme.warn()));
    }
    Line::from(spans)
}

/// A frame with a title; the one that keys go to stands out.
fn block<'a>(title: Line<'a>, pane: Pane, model: &Model, theme: Theme) -> Block<'a> {
    let style = if model.pane == pane { theme.accent() } else { theme.dim() };
    Block::bordered().border_type(BorderType::Rounded).border_style(style).title(title)
}

fn title(name: &str, rest: &str, pane: Pane, model: &Model, theme: Theme) -> Line<'static> {
    let style = if model.pane == pane { theme.strong() } else { theme.plain() };
    Line::from(vec![Span::styled(format!(" {name} "), style), Span::styled(format!("{rest} "), theme.dim())])
}

/// Rows under a header, with the selected one in sight.
struct Grid<'a> {
    header: Row<'a>,
    rows: Vec<Row<'a>>,
    widths: Vec<Constraint>,
    pane: Pane,
}

fn grid(frame: &mut Frame<'_>, area: Rect, grid: Grid<'_>, model: &Model, theme: Theme) {
    let selected = if model.pane == grid.pane { theme.selected() } else { theme.plain() };
    let table = Table::new(grid.rows, grid.widths)
        .header(grid.header.style(theme.dim()))
        .column_spacing(1)
        .row_highlight_style(selected);
    let mut state = TableState::default().with_selected(model.row(grid.pane));
    frame.render_stateful_widget(table, area, &mut state);
}

fn right<'a>(text: impl Into<Span<'a>>) -> Cell<'a> {
    Cell::from(Line::from(text.into()).right_aligned())
}

/// Said in the middle of a pane without rows.
fn empty(frame: &mut Frame<'_>, area: Rect, text: &str, theme: Theme) {
    frame.render_widget(Paragraph::new(text.to_owned()).style(theme.dim()).centered(), area);
}
