//! Random sequences of inputs, old leases among them, from a fresh submit.

use proptest::prelude::*;

use super::rules::{Ledger, Machine, RULES, Step};
use super::*;

pub(super) const REAL: Machine = Machine { decide, evolve: Record::evolve };

/// Which of the leases met on the way an input carries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    /// One that was never given out before; for claims.
    Fresh,
    Newest,
    Older(prop::sample::Index),
    /// The newest number with a wrong secret.
    Forged,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Ms(u64),
    UntilDue,
    UntilJustBefore,
}

#[derive(Debug, Clone)]
pub(super) struct Walk {
    new: NewTask,
    moves: Vec<(Wait, Input<Which>)>,
}

/// The rules that a step broke, with enough to see how.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) rules: Vec<&'static str>,
    #[expect(dead_code, reason = "read through Debug when a walk fails")]
    how: String,
}

impl Walk {
    pub(super) fn run(&self, machine: Machine) -> Result<(), Broken> {
        let mut record = Record::submitted(&self.new, 1);
        let mut known = Ledger::new(&self.new);
        let mut now = 0;
        for (order, &(wait, input)) in (2..).zip(&self.moves) {
            now = later(now, wait, &record);
            let input = input.with_lease(|which| find(which, &known));
            let answer = (machine.decide)(&record, &self.new.body, input, now);
            let (mut after, mut knows) = (record.clone(), known.clone());
            if let Answer::Changed(change) = &answer {
                (machine.evolve)(&mut after, change, order);
                knows = known.after(input, &self.new.body, now);
            }
            let step = Step {
                machine,
                body: &self.new.body,
                now,
                input,
                answer,
                order,
                before: &record,
                after: &after,
                known: &known,
                knows: &knows,
            };
            let rules: Vec<_> =
                RULES.iter().filter(|(_, holds)| !holds(&step)).map(|(name, _)| *name).collect();
            if !rules.is_empty() {
                let how =
                    format!("at {now} {input:?} → {:?}\n{record:#?}\n{after:#?}\n{known:?}", step.answer);
                return Err(Broken { rules, how });
            }
            if matches!(step.answer, Answer::Changed(Change::Removed { .. })) {
                return Ok(());
            }
            (record, known) = (after, knows);
        }
        Ok(())
    }
}

fn later(now: u64, wait: Wait, record: &Record) -> u64 {
    match (wait, record.wakes().first(0.into())) {
        (Wait::Ms(ms), _) => now + ms,
        (Wait::UntilDue, Some(at)) => at.max(now),
        (Wait::UntilJustBefore, Some(at)) => at.saturating_sub(1).max(now),
        (_, None) => now,
    }
}

fn find(which: Which, known: &Ledger) -> Token {
    let newest = known.leases.last().copied().unwrap_or(token(0));
    match which {
        Which::Fresh => token(known.leases.len() as u64 + 1),
        Which::Newest => newest,
        Which::Older(_) if known.leases.is_empty() => newest,
        Which::Older(index) => *index.get(&known.leases),
        Which::Forged => Token { secret: !newest.secret, ..newest },
    }
}

pub(super) fn walks() -> impl Strategy<Value = Walk> {
    let soon = || prop::option::weighted(0.3, 0u64..20_000);
    let any = prop::collection::vec((wait(), input()), 1..100);
    // Nothing but a release can be repeated often enough to fill the history.
    let busy = prop_oneof![
        20 => Just(Input::Claim(Which::Fresh)),
        20 => Just(Input::Release(Which::Newest, None)),
        1 => input(),
    ];
    let busy = prop::collection::vec((wait(), busy), 100..250);
    let moves = prop_oneof![9 => any, 1 => busy];
    (soon(), soon(), 0u32..4, 0u32..4, moves).prop_map(
        |(scheduled_at, expires_at, max_retries, max_crashes, moves)| {
            let mut new = NewTask { scheduled_at, expires_at, ..new_task() };
            (new.body.max_retries, new.body.max_crashes) = (max_retries, max_crashes);
            Walk { new, moves }
        },
    )
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        4 => Just(Wait::Ms(0)),
        2 => (1u64..50).prop_map(Wait::Ms),
        1 => (50u64..5000).prop_map(Wait::Ms),
        2 => Just(Wait::UntilDue),
        1 => Just(Wait::UntilJustBefore),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        6 => Just(Which::Newest),
        3 => any::<prop::sample::Index>().prop_map(Which::Older),
        1 => Just(Which::Forged),
    ]
}

fn input() -> impl Strategy<Value = Input<Which>> {
    let delay = || prop::option::of(0u64..3000);
    let fault = (prop::bool::weighted(0.9), delay())
        .prop_map(|(retryable, retry_after_ms)| Fault { retryable, retry_after_ms });
    prop_oneof![
        40 => Just(Input::Claim(Which::Fresh)),
        5 => which().prop_map(Input::Complete),
        16 => (which(), fault).prop_map(|(lease, fault)| Input::Fail(lease, fault)),
        24 => (which(), delay()).prop_map(|(lease, delay)| Input::Release(lease, delay)),
        6 => which().prop_map(Input::Extend),
        6 => which().prop_map(Input::Save),
        4 => Just(Input::Cancel),
        40 => Just(Input::Tick),
        8 => Just(Input::LoseLease),
        10 => Just(Input::Retry),
        1 => Just(Input::Remove),
        4 => (0u8..3).prop_map(Input::SetPriority),
        4 => prop::sample::select(vec!["default", "other"]).prop_map(Input::MoveTo),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_inputs_breaks_a_rule(walk in walks()) {
        if let Err(broken) = walk.run(REAL) {
            prop_assert!(false, "{broken:#?}");
        }
    }
}
