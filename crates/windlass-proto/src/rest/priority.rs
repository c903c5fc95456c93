//! The priority of a task, as clients write it.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use windlass_core::{Class, Priority};

use super::invalid::Invalid;

/// A number or the name of a class, not yet checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PriorityInput {
    Number(i64),
    Class(String),
}

impl PriorityInput {
    pub(crate) fn check(self) -> Result<Priority, Invalid> {
        match self {
            PriorityInput::Number(number) => u8::try_from(number)
                .map(Priority)
                .map_err(|_| Invalid::out_of_range("priority", "must be between 0 and 255")),
            PriorityInput::Class(word) => Class::parse(&word).map(Class::priority).ok_or_else(|| {
                Invalid::out_of_range("priority", "must be 0–255, critical, high, normal or low")
            }),
        }
    }
}

impl From<Priority> for PriorityInput {
    fn from(priority: Priority) -> Self {
        PriorityInput::Number(priority.0.into())
    }
}

impl<'de> Deserialize<'de> for PriorityInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Input;
        impl Visitor<'_> for Input {
            type Value = PriorityInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or the name of a priority class")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<PriorityInput, E> {
                Ok(PriorityInput::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<PriorityInput, E> {
                Ok(PriorityInput::Number(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<PriorityInput, E> {
                Ok(PriorityInput::Class(word.to_owned()))
            }
        }
        deserializer.deserialize_any(Input)
    }
}
