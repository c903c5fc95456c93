//! The arguments of `lua/commit.lua`. Ends of tasks that were claimed together mostly come together: what they share goes once.

use std::collections::{HashMap, HashSet};

use redis::Value;
use windlass_core::Token;

use super::link::Args;
use super::reply;
use super::row::{self, Fate, Step};
use crate::store::Error;

/// The places of the changes that a part of the call is of.
#[derive(Debug)]
pub(super) enum Part {
    Change(usize),
    /// They go together.
    Ends(Vec<usize>),
}

/// Changes as they come, and behind them the ends in order of their tasks.
pub(super) fn change_args(args: &mut Args, steps: &[Step]) -> Vec<Part> {
    let mut seen = HashSet::with_capacity(steps.len());
    // An end may have to be written after the others, so what follows on one in the same batch cannot rest on it.
    let once = steps.iter().all(|step| seen.insert(step.before.seq));
    let (mut shared, mut own) = (Args::default(), Args::default());
    let (mut parts, mut ends) = (Vec::new(), Vec::new());
    for (place, step) in steps.iter().enumerate() {
        if let Some((fate, token)) = step.fate().filter(|_| once) {
            ends.push(End { place, step, fate, token });
        } else {
            step.args(own.number(0), &row::name(step.before.seq));
            parts.push(Part::Change(place));
        }
    }
    ends.sort_unstable_by_key(|end| end.step.before.seq);
    let mut fates: HashMap<Fate<'_>, u64> = HashMap::new();
    let call = args.call().to_owned();
    for run in ends.chunk_by(End::goes_on) {
        let first = &run[0];
        let next = fates.len() as u64 + 1;
        let fate = *fates.entry(first.fate).or_insert_with(|| {
            first.fate.args(&mut shared);
            next
        });
        let Token { number, secret } = first.token;
        own.number(fate).number(first.step.before.revision).number(number);
        own.text(&format!("{secret:016x}")).number(run.len() as u64);
        run.iter().for_each(|end| end.step.end_args(&mut own, &call));
        parts.push(Part::Ends(run.iter().map(|end| end.place).collect()));
    }
    args.number(fates.len() as u64).append(shared).number(parts.len() as u64).append(own);
    parts
}

/// What the script answered to each of so many changes.
pub(super) fn by_step(parts: &[Part], steps: usize, answer: Value) -> Result<Vec<Value>, Error> {
    let mut by_step = vec![Value::Nil; steps];
    for (part, answer) in parts.iter().zip(reply::list(answer)?) {
        match (part, answer) {
            (Part::Change(place), answer) => by_step[*place] = answer,
            (Part::Ends(places), Value::Array(answers)) => {
                places.iter().zip(answers).for_each(|(place, answer)| by_step[*place] = answer);
            }
            (Part::Ends(places), answer) => {
                places.iter().for_each(|place| by_step[*place] = answer.clone());
            }
        }
    }
    Ok(by_step)
}

struct End<'a> {
    place: usize,
    step: &'a Step,
    fate: Fate<'a>,
    token: Token,
}

impl End<'_> {
    /// Whether the task and its lease come right behind those of another, and end alike.
    fn goes_on(&self, next: &Self) -> bool {
        let (before, behind) = (&self.step.before, &next.step.before);
        behind.seq == before.seq + 1
            && next.token.number == self.token.number + 1
            && next.token.secret == self.token.secret
            && behind.revision == before.revision
            && next.fate == self.fate
    }
}
