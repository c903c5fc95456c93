//! Colours, few and with a meaning; without them the same things stand out by weight.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    pub(super) colour: bool,
}

impl Theme {
    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Said once, and not needed to read the figures.
    pub(super) fn dim(self) -> Style {
        self.pick(Color::DarkGray, Modifier::DIM)
    }

    /// Where keys go.
    pub(super) fn accent(self) -> Style {
        self.pick(Color::Cyan, Modifier::BOLD)
    }

    pub(super) fn good(self) -> Style {
        self.pick(Color::Green, Modifier::empty())
    }

    pub(super) fn warn(self) -> Style {
        self.pick(Color::Yellow, Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.pick(Color::Red, Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Bars.
    pub(super) fn bars(self) -> Style {
        self.pick(Color::Cyan, Modifier::empty())
    }

    fn pick(self, colour: Color, modifier: Modifier) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new().add_modifier(modifier) }
    }
}
