//! The whole broker in three lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::theme::Theme;
use crate::cli::output::escape;
use crate::cli::top::figures::{age, bars, count, rate};
use crate::cli::top::model::{Link, Model};
use crate::cli::top::snapshot::Snapshot;

/// Bars of one rate.
const BARS_MAX: u16 = 40;
/// What stands around the bars of the three rates, and behind them if there is room.
const LABELS: u16 = 46;
const MEAN: u16 = 16;
/// From here on there is.
const MEAN_WIDTH_MIN: u16 = 100;
/// From here on the time has room beside the address.
const CLOCK_WIDTH_MIN: u16 = 52;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let row = |n: u16| Rect { y: area.y + n, height: 1, ..area }.intersection(area);
    first(frame, row(0), model, theme);
    if let Some(snapshot) = &model.snapshot {
        frame.render_widget(Paragraph::new(tasks(snapshot, theme)), row(1));
        frame.render_widget(Paragraph::new(throughput(snapshot, model, area.width, theme)), row(2));
    }
}

fn first(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let mut left = vec![Span::styled(" windlass top ", theme.accent()), Span::raw(model.server.clone())];
    if let Some(snapshot) = &model.snapshot {
        let stats = &snapshot.stats;
        let about = format!("  up {}  workers {}", age(stats.uptime_seconds.0), stats.active_workers);
        left.push(Span::styled(about, theme.dim()));
    }
    let clock = model.snapshot.as_ref().map(|snapshot| time(&snapshot.at.to_string()));
    let right = match &model.link {
        Link::Connecting => Line::styled("connecting ", theme.dim()),
        Link::Up if area.width < CLOCK_WIDTH_MIN => Line::styled(" ● ", theme.good()),
        Link::Up => Line::from(vec![
            Span::styled("● ", theme.good()),
            Span::styled(format!("{} UTC ", clock.unwrap_or_default()), theme.dim()),
        ]),
        Link::Lost(reason) if model.snapshot.is_none() => {
            Line::styled(format!("○ connecting: {} ", escape(reason)), theme.warn())
        }
        Link::Lost(_) => Line::styled("○ reconnecting ", theme.warn()),
    };
    let width = right.width().min(usize::from(area.width)) as u16;
    let [begin, end] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(left)), begin);
    frame.render_widget(Paragraph::new(right), end);
}

/// `12:30:45` of a time as in RFC 3339.
pub(super) fn time(text: &str) -> String {
    text.get(11..19).unwrap_or_default().to_owned()
}

fn tasks(snapshot: &Snapshot, theme: Theme) -> Line<'static> {
    let tasks = &snapshot.stats.tasks;
    let of = |number: u64, style: Style| if number > 0 { style } else { theme.strong() };
    let mut spans = Vec::new();
    for (label, number, style) in [
        ("pending", tasks.pending, theme.strong()),
        ("running", tasks.running, of(tasks.running, theme.good())),
        ("scheduled", tasks.scheduled, theme.strong()),
        ("blocked", tasks.blocked, theme.strong()),
        ("retrying", tasks.retrying, of(tasks.retrying, theme.warn())),
        ("dead", tasks.dead_letter, of(tasks.dead_letter, theme.bad())),
        ("done", tasks.completed, theme.strong()),
    ] {
        // Most brokers have nothing blocked or scheduled, and a narrow screen has no room to say so.
        if number == 0 && matches!(label, "blocked" | "scheduled") {
            continue;
        }
        spans.push(Span::styled(format!(" {label} "), theme.dim()));
        spans.push(Span::styled(count(number), style));
        spans.push(Span::raw(" "));
    }
    if let Some(oldest) = snapshot.stats.oldest_pending_age_seconds {
        spans.push(Span::styled(" oldest ", theme.dim()));
        spans.push(Span::raw(age(oldest.0)));
    }
    Line::from(spans)
}

fn throughput(snapshot: &Snapshot, model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let history = &model.history;
    let mean = snapshot.stats.mean_duration_ms.filter(|_| width >= MEAN_WIDTH_MIN);
    let around = LABELS + if mean.is_some() { MEAN } else { 0 };
    let room = usize::from((width.saturating_sub(around) / 3).clamp(5, BARS_MAX));
    let minute = &snapshot.stats.rates;
    let mut spans = Vec::new();
    for (label, track, minute, style) in [
        ("in", &history.submitted, minute.submitted_per_second, theme.bars()),
        ("done", &history.completed, minute.completed_per_second, theme.good()),
        ("failed", &history.failed, minute.failed_per_second, theme.bad()),
    ] {
        // The first look has nothing to compare with.
        let now = track.last().map_or_else(|| rate(minute), count);
        spans.push(Span::styled(format!(" {label} "), theme.dim()));
        spans.push(Span::styled(format!("{now:>6}/s "), theme.strong()));
        spans.push(Span::styled(bars(track.values(), room), style));
    }
    if let Some(mean) = mean {
        spans.push(Span::styled(" mean ", theme.dim()));
        spans.push(Span::raw(format!("{mean:.0} ms")));
    }
    Line::from(spans)
}
