//! Cutting a filter into words.

use super::Invalid;

/// One word as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// All of it, for complaints.
    pub(super) source: &'a str,
    pub(super) negated: bool,
    /// What stands before the colon.
    pub(super) field: Option<&'a str>,
    /// At least one; exactly one without a field.
    pub(super) values: Vec<String>,
}

pub(super) fn split(text: &str) -> Result<Vec<Word<'_>>, Invalid> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = next(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// The first word of a text that begins with one, and what follows it.
fn next(text: &str) -> Result<(Word<'_>, &str), Invalid> {
    let negated = text.starts_with('-');
    let begin = if negated { &text[1..] } else { text };
    let field = field(begin);
    let mut rest = field.map_or(begin, |field| &begin[field.len() + 1..]);
    let mut values = Vec::new();
    loop {
        let (value, after) = value(text, rest, field.is_some())?;
        values.push(value);
        rest = after;
        match rest.strip_prefix(',') {
            Some(after) if field.is_some() => rest = after,
            _ => break,
        }
    }
    let source = &text[..text.len() - rest.len()];
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return Err(Invalid::new(source, "something follows the closing quote; put a space between"));
    }
    Ok((Word { source, negated, field, values }, rest))
}

/// Letters and underscores before a colon.
fn field(text: &str) -> Option<&str> {
    let end = text.bytes().take_while(|b| b.is_ascii_alphabetic() || *b == b'_').count();
    (end > 0 && text[end..].starts_with(':')).then_some(&text[..end])
}

/// A value in quotes, or what goes up to the next space (or comma, in a list).
fn value<'a>(word: &str, text: &'a str, list: bool) -> Result<(String, &'a str), Invalid> {
    let Some(inside) = text.strip_prefix('"') else {
        let ends = |c: char| c.is_whitespace() || (list && c == ',');
        let (value, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        return Ok((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &inside[at + 1..])),
            // Only a quote and a backslash need one.
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    Err(Invalid::new(word, "the quote is not closed"))
}
