//! Ids and names, which are plain text on the wire.

use std::fmt::Display;
use std::str::FromStr;

use windlass_core::limits::CLAIM_NAMES_MAX;

use crate::rest::Invalid;

/// The field is named if it is at fault.
pub fn parsed<T: FromStr<Err: Display>>(field: &'static str, text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|error: T::Err| Invalid::malformed(field, error.to_string()))
}

/// What is empty was not given.
pub fn given<T: FromStr<Err: Display>>(field: &'static str, text: &str) -> Result<Option<T>, Invalid> {
    if text.is_empty() { Ok(None) } else { parsed(field, text).map(Some) }
}

/// At most as many as a claim may name.
pub(super) fn all<T: FromStr<Err: Display>>(
    field: &'static str,
    texts: &[String],
) -> Result<Vec<T>, Invalid> {
    if texts.len() > CLAIM_NAMES_MAX {
        return Err(Invalid::out_of_range(field, format!("at most {CLAIM_NAMES_MAX} at once")));
    }
    texts.iter().map(|text| parsed(field, text)).collect()
}
