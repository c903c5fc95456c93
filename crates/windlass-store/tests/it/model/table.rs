//! The numbers of a store that is spread, beside those of the model.

use std::collections::HashMap;

use windlass_core::operation::Operation;
use windlass_core::{Name, Record, State, Task, Token, Transition};
use windlass_store::{Committed, Inserted};

/// What is known of both sides; it outlives the store.
#[derive(Debug, Default)]
pub(crate) struct Table {
    told: HashMap<u64, u64>,
    own: HashMap<u64, u64>,
    last: u64,
    tokens_told: HashMap<Token, Token>,
    tokens_own: HashMap<Token, Token>,
    claims: u64,
    /// Where operations began, by id and their own number.
    begun: HashMap<(Name, u64), u64>,
}

impl Table {
    pub(super) fn tell(&mut self, own: u64) -> u64 {
        if let Some(told) = self.told.get(&own) {
            return *told;
        }
        self.last += 1;
        self.told.insert(own, self.last);
        self.own.insert(self.last, own);
        self.last
    }

    pub(super) fn own(&self, told: u64) -> u64 {
        self.own.get(&told).copied().unwrap_or(u64::MAX >> 12)
    }

    fn tell_token(&mut self, own: Token) -> Token {
        if let Some(told) = self.tokens_told.get(&own) {
            return *told;
        }
        self.claims += 1;
        let told = Token { number: self.claims, secret: own.secret };
        self.same_token(own, told);
        told
    }

    pub(super) fn own_token(&self, told: Token) -> Token {
        self.tokens_own.get(&told).copied().unwrap_or(told)
    }

    /// The token that the model has for a lease that both gave.
    pub(super) fn agree(&mut self, told: Token, models: Token) {
        let own = self.tokens_own.remove(&told).expect("a lease of this store");
        self.same_token(own, models);
    }

    /// An operation begins behind all tasks that there are.
    pub(super) fn begin(&mut self, operation: &Operation) {
        self.begun.insert((operation.id.clone(), operation.first), self.last + 1);
    }

    fn same_token(&mut self, own: Token, told: Token) {
        self.tokens_told.insert(own, told);
        self.tokens_own.insert(told, own);
    }

    pub(super) fn record(&mut self, record: &mut Record) {
        record.seq = self.tell(record.seq);
        record.order = self.tell(record.order);
        if let State::Running(lease) = &mut record.state {
            lease.token = self.tell_token(lease.token);
        }
        record.ended = record.ended.map(|token| self.tell_token(token));
    }

    pub(super) fn task(&mut self, mut task: Task) -> Task {
        self.record(&mut task.record);
        task
    }

    pub(super) fn inserted(&mut self, mut answers: Vec<Inserted>) -> Vec<Inserted> {
        for answer in &mut answers {
            match answer {
                Inserted::New(record) => self.record(record),
                Inserted::Replaced { new, old } => {
                    self.record(new);
                    self.record(old);
                }
                Inserted::Same(task) | Inserted::Live(task) => self.record(&mut task.record),
                _ => {}
            }
        }
        answers
    }

    pub(super) fn committed(&mut self, mut answers: Vec<Committed>) -> Vec<Committed> {
        for answer in &mut answers {
            if let Committed::Done(record) = answer {
                self.record(record);
            }
        }
        answers
    }

    pub(super) fn transitions(&self, transitions: Vec<Transition>) -> Vec<Transition> {
        transitions.into_iter().map(|it| Transition { seq: self.own(it.seq), ..it }).collect()
    }

    pub(super) fn operation(&mut self, mut operation: Operation) -> Operation {
        let begun = self.begun.get(&(operation.id.clone(), operation.first)).copied();
        let told = begun.unwrap_or(operation.first);
        if operation.cursor == operation.first {
            operation.cursor = told;
        }
        operation.first = told;
        operation
    }
}
