//! The answer to a request that was refused (RFC 9457).

use serde::{Deserialize, Serialize};

use super::invalid::Invalid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A URI for the kind of problem, made of the code.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// Stable, for programs: `lease_lost`, `not_found`, …
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The task that stands in the way, with `unique_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// The path with dots, as `retry.factor`, or the name of a query parameter.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(status: u16, code: &str, title: &str) -> Self {
        Self {
            kind: format!("urn:windlass:problem:{code}"),
            title: title.to_owned(),
            status,
            code: code.to_owned(),
            detail: None,
            request_id: None,
            task_id: None,
            errors: Vec::new(),
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let title = match invalid.fault.status() {
            400 => "The request is malformed",
            413 => "The request is too large",
            _ => "The request cannot be carried out",
        };
        let mut problem =
            Problem::new(invalid.fault.status(), invalid.fault.code(), title).detail(invalid.to_string());
        if let Some(field) = invalid.field {
            problem.errors.push(FieldError { field: field.into_owned(), message: invalid.message });
        }
        problem
    }
}
