//! What failed last.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row};

use super::header::time;
use super::theme::Theme;
use super::{Grid, block, empty, grid, title};
use crate::cli::output::escape;
use crate::cli::top::model::{Model, Pane};
use crate::cli::top::snapshot::Failed;

/// Below this many rows the list needs them all.
const DETAIL_MIN: u16 = 6;
const KIND_MAX: usize = 24;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let failures = model.failures();
    let about = format!("latest {}", failures.len());
    let block = block(title("Failures", &about, Pane::Failures, model, theme), Pane::Failures, model, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if failures.is_empty() {
        return empty(frame, inner, "nothing failed", theme);
    }
    let detail = u16::from(inner.height >= DETAIL_MIN);
    let [list, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(detail)]).areas(inner);
    let longest = failures.iter().map(|failed| failed.kind.len()).max().unwrap_or(0).clamp(4, KIND_MAX);
    let kind = longest.min(usize::from(inner.width / 3)) as u16;
    let widths =
        vec![Constraint::Length(1), Constraint::Length(8), Constraint::Length(kind), Constraint::Fill(1)];
    let header = Row::new(["", "WHEN", "TYPE", "ERROR"]);
    let rows = failures.iter().map(|failed| row(failed, theme)).collect();
    grid(frame, list, Grid { header, rows, widths, pane: Pane::Failures }, model, theme);
    if let Some(failed) = model.row(Pane::Failures).and_then(|row| failures.get(row)) {
        let text = format!("{} in {}, attempt {}", failed.task_id, failed.queue, failed.attempts);
        frame.render_widget(Paragraph::new(escape(&text)).style(theme.dim()), below);
    }
}

fn row(failed: &Failed, theme: Theme) -> Row<'static> {
    let mark = match failed.state.as_str() {
        "dead_letter" => Span::styled("✗", theme.bad()),
        _ => Span::styled("↻", theme.warn()),
    };
    let error = failed.error.lines().next().unwrap_or_default();
    Row::new([
        Cell::from(Line::from(mark)),
        Cell::from(Span::styled(time(&failed.at.to_string()), theme.dim())),
        Cell::from(escape(&failed.kind)),
        Cell::from(escape(error)),
    ])
}
