//! A filter as text.

use std::fmt::{self, Write};

use super::{Filter, Pattern, Span, Term, Test, moment};

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Term { negated, test }) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            if *negated {
                f.write_char('-')?;
            }
            f.write_str(&word(test))?;
        }
        Ok(())
    }
}

fn word(test: &Test) -> String {
    let text = |pattern: &Pattern| format!("{}{}", pattern.text, if pattern.begins { "*" } else { "" });
    let patterns = |field: &str, patterns: &[Pattern]| list(field, patterns.iter().map(text));
    match test {
        Test::State(states) => list("state", states.iter().map(|state| state.as_str().to_owned())),
        Test::Queue(all) => patterns("queue", all),
        Test::Kind(all) => patterns("type", all),
        Test::Worker(all) => patterns("worker", all),
        Test::Id(all) => patterns("id", all),
        Test::Key(all) => patterns("key", all),
        // A unique key may be any text.
        Test::Unique(all) => list("unique_key", all.iter().map(|pattern| quoted(&text(pattern)))),
        Test::Error(parts) => list("error", parts.iter().map(|part| quoted(part))),
        Test::Fingerprint(all) => list("fingerprint", all.iter().map(ToString::to_string)),
        Test::Priority(ranges) => list("priority", ranges.iter().map(|(a, b)| format!("{a}..{b}"))),
        Test::Created(span) => format!("created:{}", created(span)),
        Test::Changed(Span { from: Some(from), .. }) => format!("since:{}", moment::show(*from)),
        // An end stands one behind the last moment that counts.
        Test::Changed(Span { to, .. }) => {
            format!("until:{}", moment::show(to.unwrap_or_default().saturating_sub(1)))
        }
        Test::Text(part) => quoted(part),
    }
}

fn created(span: &Span) -> String {
    match (span.from, span.to) {
        (Some(from), Some(to)) => format!("{}..{}", moment::show(from), moment::show(to.saturating_sub(1))),
        (Some(from), None) => format!(">={}", moment::show(from)),
        (None, to) => format!("<{}", moment::show(to.unwrap_or_default())),
    }
}

fn list(field: &str, values: impl Iterator<Item = String>) -> String {
    format!("{field}:{}", values.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
