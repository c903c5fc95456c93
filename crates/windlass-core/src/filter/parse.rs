//! From words to tests.

use super::words::{Word, split};
use super::{Filter, Pattern, Span, Term, Test, moment};
use crate::ids::Name;
use crate::limits::{FILTER_BYTES_MAX, FILTER_VALUES_MAX, FILTER_WORDS_MAX};
use crate::priority::{Class, Priority};
use crate::state::StateName;

/// Which word is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word}: {message}")]
pub struct Invalid {
    /// As it was written; a long one is cut.
    pub word: String,
    pub message: String,
}

impl Invalid {
    pub(super) fn new(word: &str, message: impl Into<String>) -> Self {
        const SHOWN_MAX: usize = 80;
        let word = match word.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}…", &word[..end]),
            None => word.to_owned(),
        };
        Self { word, message: message.into() }
    }
}

/// The fields, and behind the first thirteen the words that other queues use for them.
const FIELDS: [(&str, Field); 18] = [
    ("state", Field::State),
    ("type", Field::Kind),
    ("queue", Field::Queue),
    ("error", Field::Error),
    ("fingerprint", Field::Fingerprint),
    ("worker", Field::Worker),
    ("id", Field::Id),
    ("priority", Field::Priority),
    ("key", Field::Key),
    ("unique_key", Field::Unique),
    ("since", Field::Since),
    ("until", Field::Until),
    ("created", Field::Created),
    ("status", Field::State),
    ("task_type", Field::Kind),
    ("topic", Field::Queue),
    ("worker_id", Field::Worker),
    ("task_id", Field::Id),
];

const NAMES: usize = 13;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    State,
    Kind,
    Queue,
    Error,
    Fingerprint,
    Worker,
    Id,
    Key,
    Unique,
    Priority,
    Since,
    Until,
    Created,
}

impl Filter {
    /// Reads a filter; `now` is what `since:2h` counts back from.
    pub fn parse(text: &str, now: u64) -> Result<Filter, Invalid> {
        if text.len() > FILTER_BYTES_MAX {
            let message =
                format!("a filter has at most {FILTER_BYTES_MAX} bytes, this one has {}", text.len());
            return Err(Invalid::new(text, message));
        }
        let words = split(text)?;
        if let Some(word) = words.get(FILTER_WORDS_MAX) {
            let message = format!("a filter has at most {FILTER_WORDS_MAX} words");
            return Err(Invalid::new(word.source, message));
        }
        let terms = words.iter().map(|word| {
            let test = test(word, now).map_err(|message| Invalid::new(word.source, message))?;
            Ok(Term { negated: word.negated, test })
        });
        Ok(Filter { terms: terms.collect::<Result<_, Invalid>>()? })
    }
}

fn test(word: &Word<'_>, now: u64) -> Result<Test, String> {
    let Some(name) = word.field else {
        let text = &word.values[0];
        return match text.is_empty() {
            true => Err("there is no text to look for".to_owned()),
            false => Ok(Test::Text(text.as_str().into())),
        };
    };
    let lower = name.to_ascii_lowercase();
    let field = FIELDS.iter().find(|(known, _)| *known == lower).map(|(_, field)| *field);
    let field = field.ok_or_else(|| unknown_field(&lower))?;
    if word.values.iter().any(String::is_empty) {
        return Err(format!("{lower} needs a value"));
    }
    if word.values.len() > FILTER_VALUES_MAX {
        return Err(format!("a word has at most {FILTER_VALUES_MAX} values"));
    }
    let values = &word.values;
    Ok(match field {
        Field::State => Test::State(states(values)?),
        Field::Kind => Test::Kind(each(values, pattern)?),
        Field::Queue => Test::Queue(each(values, pattern)?),
        Field::Worker => Test::Worker(each(values, pattern)?),
        Field::Id => Test::Id(each(values, pattern)?),
        Field::Key => Test::Key(each(values, pattern)?),
        Field::Unique => Test::Unique(values.iter().map(|text| beginning(text)).collect()),
        Field::Error => Test::Error(values.iter().map(|value| value.as_str().into()).collect()),
        Field::Fingerprint => Test::Fingerprint(each(values, str::parse)?),
        Field::Priority => Test::Priority(each(values, priorities)?),
        Field::Since => {
            let from = moment::read(one(values)?, now)?.start;
            Test::Changed(Span { from: Some(from), to: None })
        }
        Field::Until => {
            let to = moment::read(one(values)?, now)?.end;
            Test::Changed(Span { from: None, to: Some(to) })
        }
        Field::Created => Test::Created(moment::span(one(values)?, now)?),
    })
}

fn each<T>(values: &[String], read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    values.iter().map(|value| read(value)).collect()
}

fn one(values: &[String]) -> Result<&str, String> {
    match values {
        [value] => Ok(value),
        _ => Err("takes one time; a range is written a..b".to_owned()),
    }
}

fn unknown_field(name: &str) -> String {
    let hint = match nearest(name, FIELDS.iter().map(|(known, _)| *known)) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            let names: Vec<_> = FIELDS.iter().take(NAMES).map(|(known, _)| *known).collect();
            format!("the fields are {}.", names.join(", "))
        }
    };
    format!("there is no field {name}; {hint} Text with a colon goes into quotes")
}

/// The known word that was meant, if one is near enough to be it.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|known| (strsim::damerau_levenshtein(known, word), known)).min()?;
    (near.0 <= 1 + word.len() / 4).then_some(near.1)
}

fn states(values: &[String]) -> Result<Vec<StateName>, String> {
    let mut states = Vec::new();
    for text in values {
        let word = text.to_ascii_lowercase();
        let known = StateName::parse_filter(&word).ok_or_else(|| {
            let names: Vec<_> = StateName::ALL.iter().map(|state| state.as_str()).collect();
            match nearest(&word, names.iter().copied()) {
                Some(near) => format!("there is no state {text}; did you mean {near}?"),
                None => format!("there is no state {text}; the states are {}", names.join(", ")),
            }
        })?;
        states.extend(known);
    }
    states.sort_unstable();
    states.dedup();
    Ok(states)
}

/// A name, or its beginning and a star.
fn pattern(text: &str) -> Result<Pattern, String> {
    let pattern = beginning(text);
    if !(pattern.begins && pattern.text.is_empty()) {
        Name::new(&pattern.text)
            .map_err(|error| format!("{error}; a star at the end stands for any ending"))?;
    }
    Ok(pattern)
}

fn beginning(text: &str) -> Pattern {
    match text.strip_suffix('*') {
        Some(begin) => Pattern { text: begin.into(), begins: true },
        None => Pattern { text: text.into(), begins: false },
    }
}

/// `200`, `>=200`, `<100`, `100..199` with its end, or a class like `high`.
fn priorities(text: &str) -> Result<(u8, u8), String> {
    let number = |text: &str| {
        text.parse::<u8>()
            .map_err(|_| "must be 0-255, >=200, 100..199, critical, high, normal or low".to_owned())
    };
    let nothing = || "no priority is like that".to_owned();
    if let Some(class) = Class::parse(&text.to_ascii_lowercase()) {
        let mut members = (0..=u8::MAX).filter(|number| Priority(*number).class() == class);
        let first = members.next().ok_or_else(nothing)?;
        return Ok((first, members.next_back().unwrap_or(first)));
    }
    if let Some(rest) = text.strip_prefix(">=") {
        return Ok((number(rest)?, u8::MAX));
    }
    if let Some(rest) = text.strip_prefix('>') {
        return Ok((number(rest)?.checked_add(1).ok_or_else(nothing)?, u8::MAX));
    }
    if let Some(rest) = text.strip_prefix("<=") {
        return Ok((0, number(rest)?));
    }
    if let Some(rest) = text.strip_prefix('<') {
        return Ok((0, number(rest)?.checked_sub(1).ok_or_else(nothing)?));
    }
    if let Some((least, most)) = text.split_once("..") {
        let (least, most) = (number(least)?, number(most)?);
        return if least <= most { Ok((least, most)) } else { Err(nothing()) };
    }
    let number = number(text)?;
    Ok((number, number))
}
