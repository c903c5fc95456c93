//! Why a request was refused before it reached the broker.

use std::borrow::Cow;

/// What kind of mistake it is; each has its HTTP status and its stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not understood: not JSON, an unknown field, a wrong type, a forbidden character.
    Malformed,
    /// Understood, but no value that is possible.
    OutOfRange,
    /// Understood, and not offered by this version.
    NotSupported,
    TooLarge,
}

impl Fault {
    pub fn status(self) -> u16 {
        match self {
            Fault::Malformed => 400,
            Fault::OutOfRange | Fault::NotSupported => 422,
            Fault::TooLarge => 413,
        }
    }

    pub fn code(self) -> &'static str {
        match self {
            Fault::Malformed => "malformed",
            Fault::OutOfRange => "out_of_range",
            Fault::NotSupported => "not_supported",
            Fault::TooLarge => "too_large",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", .field.as_deref().unwrap_or_default(), if .field.is_some() { ": " } else { "" })]
pub struct Invalid {
    pub fault: Fault,
    /// The path of the field with dots, as `retry.factor`; `None` when the whole body is at fault.
    pub field: Option<Cow<'static, str>>,
    pub message: String,
}

impl Invalid {
    pub fn new(fault: Fault, field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { fault, field: Some(field.into()), message: message.into() }
    }

    pub fn malformed(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Fault::Malformed, field, message)
    }

    pub fn out_of_range(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Fault::OutOfRange, field, message)
    }

    pub fn body(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, field: None, message: message.into() }
    }

    /// The same complaint about a field inside `outer`.
    pub fn within(mut self, outer: &str) -> Self {
        self.field = Some(match self.field {
            Some(field) => Cow::Owned(format!("{outer}.{field}")),
            None => Cow::Owned(outer.to_owned()),
        });
        self
    }
}
