//! Queues: how deep, how fast, and how deep a while ago.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row};
use windlass_proto::rest::QueueBody;

use super::theme::Theme;
use super::{Grid, WIDE, block, empty, grid, right, title};
use crate::cli::top::figures::{age, bars, count, rate};
use crate::cli::top::model::{Model, Pane};

/// The figures of one queue: their names, and how wide they are.
const FIGURES: [(&str, u16); 6] =
    [("PENDING", 8), ("RUNNING", 7), ("RETRY", 6), ("DEAD", 6), ("OLDEST", 7), ("DONE/S", 7)];
/// What a name has at least, before figures are left out.
const NAME_MIN: u16 = 9;
const MORE: [(&str, u16); 3] = [("SCHEDULED", 9), ("IN/S", 7), ("FAILED/S", 8)];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let queues = model.queues();
    let order = if model.deepest_first { ", deepest first" } else { "" };
    let heading = title("Queues", &format!("{}{order}", queues.len()), Pane::Queues, model, theme);
    let block = block(heading, Pane::Queues, model, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if queues.is_empty() {
        return empty(frame, inner, "no queue to show", theme);
    }
    let wide = area.width >= WIDE;
    let mut figures: Vec<(&str, u16)> =
        FIGURES.into_iter().chain(MORE.into_iter().filter(|_| wide)).collect();
    let taken = |figures: &[(&str, u16)]| figures.iter().map(|(_, width)| width + 1).sum::<u16>();
    while taken(&figures) + NAME_MIN > inner.width && figures.pop().is_some() {}
    let taken = taken(&figures);
    let left = inner.width.saturating_sub(taken + 1);
    let longest = queues.iter().map(|queue| queue.name.as_str().len()).max().unwrap_or(0) as u16;
    // A paused queue says so behind its name.
    let most = if figures.len() < FIGURES.len() { left } else { left / 2 };
    let name = (longest.max(5) + 7).min(most).max(8);
    let room = left.saturating_sub(name);
    let mut header = vec![Cell::from("QUEUE")];
    header.extend(figures.iter().map(|(label, _)| right(*label)));
    header.push(Cell::from(if room >= 8 { "DEPTH" } else { "" }));
    let mut widths = vec![Constraint::Length(name)];
    widths.extend(figures.iter().map(|(_, width)| Constraint::Length(*width)));
    widths.push(Constraint::Length(room));
    let rows = queues.iter().map(|queue| row(queue, model, figures.len(), usize::from(room), theme));
    let table = Grid { header: Row::new(header), rows: rows.collect(), widths, pane: Pane::Queues };
    grid(frame, inner, table, model, theme);
}

fn row<'a>(queue: &'a QueueBody, model: &Model, figures: usize, room: usize, theme: Theme) -> Row<'a> {
    let tasks = &queue.tasks;
    let of = |number: u64, style: Style| if number > 0 { style } else { theme.dim() };
    let number = |number: u64, style: Style| right(Span::styled(count(number), of(number, style)));
    let per_second = |value: f64| {
        let style = if value > 0.0 { theme.plain() } else { theme.dim() };
        right(Span::styled(rate(value), style))
    };
    let mut name = vec![Span::raw(queue.name.as_str())];
    if queue.paused {
        name.push(Span::styled(" paused", theme.warn()));
    }
    let oldest = queue.oldest_pending_age_seconds.map(|oldest| age(oldest.0)).unwrap_or_default();
    let mut cells = vec![
        Cell::from(Line::from(name)),
        number(tasks.pending, theme.strong()),
        number(tasks.running, theme.good()),
        number(tasks.retrying, theme.warn()),
        number(tasks.dead_letter, theme.bad()),
        right(oldest),
        per_second(queue.rates.completed_per_second),
        number(tasks.scheduled, theme.plain()),
        per_second(queue.rates.submitted_per_second),
        per_second(queue.rates.failed_per_second),
    ];
    cells.truncate(1 + figures);
    let depth = model.history.depth(&queue.name).map(|track| bars(track.values(), room));
    cells.push(Cell::from(Span::styled(depth.unwrap_or_default(), theme.bars())));
    Row::new(cells)
}
