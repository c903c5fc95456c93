//! What a claim got, as `lua/claim.lua` tells it: most tasks under terms that they share, column by column, and others as rows.

use redis::Value;
use windlass_core::Now;

use super::reply::{self, wrong};
use super::row::{Row, Terms, rows};
use crate::store::Error;

/// It is read when there is time: what Redis can do next is not kept waiting by that.
#[derive(Debug, Default)]
pub(super) struct Taken {
    columns: Vec<Value>,
    others: Value,
    pub(super) at: Now,
}

impl Taken {
    pub(super) fn new(answer: Value, at: Now) -> Result<Taken, Error> {
        let mut columns = reply::list(answer)?;
        let others = columns.pop().ok_or_else(|| wrong("a claim without an answer"))?;
        Ok(Taken { columns, others, at })
    }

    pub(super) fn is_empty(&self) -> bool {
        let nothing = |value: &Value| match value {
            Value::Array(values) => values.is_empty(),
            _ => true,
        };
        self.columns.iter().all(nothing) && nothing(&self.others)
    }

    pub(super) fn rows(self) -> Result<Vec<Row>, Error> {
        let mut columns = self.columns.into_iter();
        let mut runs = Runs::read(columns.next().unwrap_or_default())?;
        let mut taken = Vec::with_capacity(runs.left());
        while let (Some(names), Some(values), Some(bodies)) = (columns.next(), columns.next(), columns.next())
        {
            let tasks = reply::list(names)?.into_iter().zip(reply::list(values)?).zip(reply::list(bodies)?);
            for ((name, value), body) in tasks {
                let (seq, body) = (reply::number(name)?, reply::bytes(body)?);
                taken.push(Row::of(seq, reply::bytes(value)?, Some(runs.terms()?), Some(body))?);
                runs.pass();
            }
        }
        taken.extend(rows(self.others)?);
        Ok(taken)
    }
}

/// The terms of those that are next, and of how many; the first of these at the end.
struct Runs(Vec<(Terms, usize)>);

impl Runs {
    fn read(value: Value) -> Result<Runs, Error> {
        let words = reply::list(value)?;
        let mut runs = Vec::with_capacity(words.len() / 2);
        let mut words = words.into_iter();
        while let (Some(terms), Some(many)) = (words.next(), words.next()) {
            runs.push((Terms::read(&reply::text(terms)?)?, reply::number(many)? as usize));
        }
        runs.reverse();
        Ok(Runs(runs))
    }

    fn left(&self) -> usize {
        self.0.iter().map(|(_, many)| many).sum()
    }

    fn terms(&self) -> Result<&Terms, Error> {
        self.0.last().map(|(terms, _)| terms).ok_or_else(|| wrong("a claimed task that nobody holds"))
    }

    /// The tokens of a run follow each other.
    fn pass(&mut self) {
        let Some((terms, many)) = self.0.last_mut() else { return };
        terms.token.number += 1;
        *many = many.saturating_sub(1);
        if *many == 0 {
            self.0.pop();
        }
    }
}
