//! The answer to a claim, read without a parser: every other protocol here is read by hand too.

use anyhow::{Context, Result};

/// What a worker needs of a task. Ids and leases have nothing that JSON escapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leased<'a> {
    pub(super) id: &'a [u8],
    pub(super) lease: &'a [u8],
    pub(super) payload: &'a [u8],
}

/// The tasks of `{"tasks":[…]}`.
pub(super) fn tasks(body: &[u8]) -> Result<impl Iterator<Item = Result<Leased<'_>>>> {
    let inside = body.strip_prefix(br#"{"tasks":["#).and_then(|rest| rest.strip_suffix(b"]}"));
    let mut rest = inside.with_context(|| format!("no claim: {}", String::from_utf8_lossy(body)))?;
    Ok(std::iter::from_fn(move || {
        rest = rest.strip_prefix(b",").unwrap_or(rest);
        (!rest.is_empty()).then(|| Leased::take(&mut rest).context("a task of a claim cannot be read"))
    }))
}

impl<'a> Leased<'a> {
    /// Takes the first object.
    fn take(rest: &mut &'a [u8]) -> Option<Leased<'a>> {
        let mut found = Leased::default();
        let mut left = std::mem::take(rest).strip_prefix(b"{")?;
        loop {
            let key = take_value(&mut left)?;
            left = left.strip_prefix(b":")?;
            let value = take_value(&mut left)?;
            match key {
                br#""id""# => found.id = unquoted(value)?,
                br#""lease""# => found.lease = unquoted(value)?,
                br#""payload""# => found.payload = value,
                _ => {}
            }
            match left.split_first()? {
                (b',', after) => left = after,
                (b'}', after) => {
                    *rest = after;
                    return (!found.id.is_empty() && !found.lease.is_empty()).then_some(found);
                }
                _ => return None,
            }
        }
    }
}

fn unquoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Takes a value that has no spaces outside its strings.
fn take_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'"' => at = end_of_string(rest, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
        if depth == 0 && rest.get(at).is_none_or(|next| matches!(next, b',' | b':' | b'}' | b']')) {
            let (value, after) = rest.split_at(at);
            *rest = after;
            return Some(value);
        }
    }
}

/// Where the string that begins at `at` has its last quote.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1 + bytes.get(at + 1..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_whatever_stands_between() {
        let body = br#"{"tasks":[{"id":"a","n":-1.5,"payload":{"s":"}]\\\"{","l":[1,[]]},"x":null,"lease":"1-f"},{"lease":"2-e","id":"b","payload":7}]}"#;
        let found: Vec<_> = tasks(body).unwrap().collect::<Result<_>>().unwrap();
        let first = br#"{"s":"}]\\\"{","l":[1,[]]}"#;
        assert_eq!(
            found,
            [
                Leased { id: b"a", lease: b"1-f", payload: first },
                Leased { id: b"b", lease: b"2-e", payload: b"7" },
            ]
        );
        assert_eq!(tasks(br#"{"tasks":[]}"#).unwrap().count(), 0);
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let whole = r#"{"id":"a","payload":{"s":"x"},"lease":"l"}"#;
        for cut in 1..whole.len() {
            let body = format!(r#"{{"tasks":[{}]}}"#, &whole[..cut]);
            let read: Result<Vec<_>> = tasks(body.as_bytes()).unwrap().collect();
            assert!(read.is_err(), "{body}");
        }
        assert!(tasks(b"{}").is_err());
    }
}
