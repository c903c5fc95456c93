//! Everything that is printed. Data goes to standard output, everything said about it to standard error. Text that came from
//! elsewhere (names, errors, results) is escaped before it reaches a terminal.
#![expect(clippy::print_stderr, reason = "this is the one place that prints")]

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write as _};
use std::sync::OnceLock;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::error::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    colour: bool,
    /// `NO_COLOR` is set.
    plain: bool,
    /// Why data could not be written.
    lost: OnceLock<std::io::Error>,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { format, colour: std::io::stderr().is_terminal() && !plain, plain, lost: OnceLock::new() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether a screen may have colours, unlike standard error that is judged by itself.
    pub(crate) fn has_colour(&self) -> bool {
        !self.plain
    }

    /// One value: as JSON, or as `text` shows it.
    pub(crate) fn value(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        match self.format {
            Format::Json => self.data(&serde_json::to_string(value).expect("answers are always JSON")),
            Format::Table => self.data(&text()),
        }
    }

    /// A line of data, as it is.
    pub(crate) fn data(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        self.note_lost(writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()));
    }

    /// Bytes of data, with nothing added.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut stdout = std::io::stdout().lock();
        self.note_lost(stdout.write_all(bytes).and_then(|()| stdout.flush()));
    }

    fn note_lost(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            let _ = self.lost.set(error);
        }
    }

    /// Nobody reads the data any more: what would print for ever ends.
    pub(crate) fn is_unread(&self) -> bool {
        self.lost.get().is_some()
    }

    /// A reader that went away (`| head`) has all it wanted; a disk that is full is a failure.
    pub(crate) fn written(&self) -> Result<(), Failure> {
        match self.lost.get() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::error(format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Said to the person, not part of the data.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("{text}");
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        let (red, reset) = if self.colour { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
        eprintln!("{red}error:{reset} {}", escape_lines(&failure.message));
        if let Some(hint) = &failure.hint {
            eprintln!("  {}", escape_lines(hint));
        }
    }

    /// A bar for a person who watches; without one nothing is shown.
    pub(crate) fn progress(&self) -> Progress {
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        // It hides by itself when standard error is no terminal.
        let bar = ProgressBar::new(1000).with_style(style);
        Progress(bar)
    }

    /// Whether a person can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    pub(crate) fn ask(&self, question: &str) -> bool {
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
    }
}

#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `share` is 0–1.
    pub(crate) fn show(&self, share: f64, text: &str) {
        self.0.set_message(escape(text));
        self.0.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Columns without lines around them, as other tools can cut them.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| escape(cell)));
    }
    let text: Vec<String> = table
        .lines()
        .map(|line| {
            line.trim_end().strip_prefix(' ').map_or_else(|| line.trim_end().to_owned(), str::to_owned)
        })
        .collect();
    text.join("\n")
}

/// A list of names and values.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "{name:width$}  {}", escape(value));
    }
    text
}

/// Control characters as text, so that no name can move the cursor, change colours or forge a line; and so are those that
/// nobody sees, but for the joiners that scripts and emoji are written with.
pub(crate) fn escape(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// As [`escape`], but lines stay lines.
pub(crate) fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_text() {
        assert_eq!(escape("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(escape("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(escape("<script> ü"), "<script> ü");
        assert_eq!(escape("\u{202e}abc"), "\\u{202e}abc");
        assert_eq!(escape("ad\u{200b}min\u{2028}"), "ad\\u{200b}min\\u{2028}");
        assert_eq!(escape("日本語 👩\u{200d}👧"), "日本語 👩\u{200d}👧");
        assert_eq!(escape_lines("a\x07\nb"), "a\\u{7}\nb");
    }

    #[test]
    fn tables_have_columns_and_no_frame() {
        let text = table(
            &["NAME", "N"],
            vec![vec!["a\x1b".into(), "1".into()], vec!["long name".into(), "22".into()]],
        );
        assert_eq!(text, "NAME       N\na\\u{1b}    1\nlong name  22");
    }
}
