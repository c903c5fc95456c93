//! Workers, and how busy they are.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row};
use windlass_proto::rest::WorkerBody;

use super::theme::Theme;
use super::{Grid, block, empty, grid, right, title};
use crate::cli::output::escape;
use crate::cli::top::model::{Model, Pane};

/// From here on the host and a task have room.
const ROOMY: u16 = 60;
const GAUGE: usize = 6;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let workers = model.workers();
    let busy: usize = workers.iter().map(|worker| worker.tasks.len()).sum();
    let slots: u64 = workers.iter().filter_map(|worker| worker.slots).map(u64::from).sum();
    let of = if slots > 0 { format!("/{slots}") } else { String::new() };
    let about = format!("{}, {busy}{of} busy", workers.len());
    let block = block(title("Workers", &about, Pane::Workers, model, theme), Pane::Workers, model, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if workers.is_empty() {
        return empty(frame, inner, "no worker is connected", theme);
    }
    let roomy = inner.width >= ROOMY;
    let mut header = vec![Cell::from("WORKER"), right("BUSY"), Cell::from("")];
    let mut widths = vec![Constraint::Fill(2), Constraint::Length(7), Constraint::Length(GAUGE as u16)];
    if roomy {
        header.extend([Cell::from("HOST"), Cell::from("TASK")]);
        widths.extend([Constraint::Fill(1), Constraint::Fill(2)]);
    }
    let rows = workers.into_iter().map(|worker| row(worker, roomy, theme)).collect();
    let table = Grid { header: Row::new(header), rows, widths, pane: Pane::Workers };
    grid(frame, inner, table, model, theme);
}

fn row(worker: &WorkerBody, roomy: bool, theme: Theme) -> Row<'_> {
    let busy = worker.tasks.len();
    let slots = worker.slots.map(|slots| format!("/{slots}")).unwrap_or_default();
    let mut name = vec![Span::raw(worker.id.as_str())];
    if worker.paused {
        name.push(Span::styled(" paused", theme.warn()));
    }
    let style = if busy > 0 { theme.strong() } else { theme.dim() };
    let mut cells = vec![
        Cell::from(Line::from(name)),
        right(Span::styled(format!("{busy}{slots}"), style)),
        Cell::from(gauge(busy, worker.slots, theme)),
    ];
    if roomy {
        let task = worker.tasks.first().map(ToString::to_string).unwrap_or_default();
        cells.push(Cell::from(Span::styled(escape(worker.host.as_deref().unwrap_or_default()), theme.dim())));
        cells.push(Cell::from(Span::styled(task, theme.dim())));
    }
    Row::new(cells)
}

/// The share of the slots that is taken. A worker that holds anything shows at least one mark.
fn gauge(busy: usize, slots: Option<u32>, theme: Theme) -> Line<'static> {
    let Some(slots) = slots.filter(|slots| *slots > 0) else { return Line::default() };
    let full = (busy * GAUGE).div_ceil(slots as usize).min(GAUGE);
    let style = if full == GAUGE { theme.warn() } else { theme.good() };
    Line::from(vec![
        Span::styled("■".repeat(full), style),
        Span::styled("·".repeat(GAUGE - full), theme.dim()),
    ])
}
