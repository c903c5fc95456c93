//! Every situation a task can be in × every input, from the situation that real inputs led to.

use std::fmt::Write as _;

use super::*;
use crate::state::State;

const NOW: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Which {
    Current,
    LastEnded,
    Foreign,
}

type Report = fn(Which) -> Input<Which>;

/// A task at [`NOW`] and the lease that it had last.
struct Scene {
    title: &'static str,
    new: NewTask,
    record: Record,
    last: Option<Token>,
}

impl Scene {
    fn new(title: &'static str, change: impl FnOnce(&mut NewTask)) -> Scene {
        let mut new = new_task();
        change(&mut new);
        let record = Record::submitted(&new, 1);
        Scene { title, new, record, last: None }
    }

    fn plain(title: &'static str) -> Scene {
        Scene::new(title, |_| {})
    }

    fn claim(self, at: u64) -> Scene {
        let number = self.record.revision;
        self.then(at, |_| Input::Claim(token(number)))
    }

    fn fail(self, at: u64) -> Scene {
        self.then(at, |lease| Input::Fail(lease, FAULT))
    }

    /// Gives an input that must be accepted.
    fn then(mut self, at: u64, input: impl FnOnce(Token) -> Input<Token>) -> Scene {
        let current = match &self.record.state {
            State::Running(lease) => lease.token,
            _ => token(0),
        };
        let input = input(current);
        let Answer::Changed(change) = decide(&self.record, &self.new.body, input, at) else {
            panic!("{}: {input:?} is refused", self.title);
        };
        self.record.evolve(&change, 100);
        if !matches!(self.record.state, State::Running(_)) && current != token(0) {
            self.last = Some(current);
        }
        self
    }

    fn lease(&self, which: Which) -> Option<Token> {
        match (which, &self.record.state) {
            (Which::Current, State::Running(lease)) => Some(lease.token),
            (Which::Current, _) => None,
            (Which::LastEnded, _) => self.last,
            // It has the right number and the wrong secret.
            (Which::Foreign, State::Running(lease)) => Some(Token { secret: 1, ..lease.token }),
            (Which::Foreign, _) => Some(Token { secret: 1, ..self.last.unwrap_or(token(1)) }),
        }
    }

    fn cell(&self, input: Input<Token>) -> String {
        match decide(&self.record, &self.new.body, input, NOW) {
            Answer::Changed(Change::Removed { .. }) => "gone".to_owned(),
            Answer::Changed(Change::Checkpointed { .. }) => "saved".to_owned(),
            Answer::Changed(change) => {
                let mut after = self.record.clone();
                after.evolve(&change, 100);
                show(&after)
            }
            Answer::Repeat => "repeat".to_owned(),
            Answer::Extended(Extension::Granted) => "granted".to_owned(),
            Answer::Extended(Extension::CancelRequested) => "cancel requested".to_owned(),
            Answer::Refused(Refusal::LeaseLost) => "✗ lease lost".to_owned(),
            Answer::Refused(refusal) => format!("✗ {refusal}"),
        }
    }
}

const FAULT: Fault = Fault { retryable: true, retry_after_ms: None };

fn scenes() -> Vec<Scene> {
    let cancel = |_| Input::Cancel;
    let tick = |_| Input::Tick;
    let lose = |_| Input::LoseLease;
    let release = |lease| Input::Release(lease, None);
    let blocked = |title, expires_at| {
        let mut scene = Scene::new(title, |new| new.expires_at = expires_at);
        scene.record.state = State::Blocked { open: 2 };
        scene
    };
    vec![
        Scene::new("scheduled, not due", |new| new.scheduled_at = Some(NOW + 1)),
        Scene::new("scheduled, due", |new| new.scheduled_at = Some(NOW)),
        Scene::new("scheduled, due and expired", |new| {
            (new.scheduled_at, new.expires_at) = (Some(NOW - 5), Some(NOW));
        }),
        Scene::plain("scheduled by a release with a delay")
            .claim(NOW - 9)
            .then(NOW - 5, |lease| Input::Release(lease, Some(100))),
        blocked("blocked", None),
        blocked("blocked, expired", Some(NOW)),
        Scene::plain("pending"),
        Scene::new("pending, not yet expired", |new| new.expires_at = Some(NOW + 1)),
        Scene::new("pending, expired", |new| new.expires_at = Some(NOW)),
        Scene::plain("pending after a release").claim(NOW - 9).then(NOW - 5, release),
        Scene::plain("pending after a lost lease").claim(NOW - 9).then(NOW - 5, lose),
        Scene::plain("pending after a failure and its backoff").claim(0).fail(0).then(NOW - 5, tick),
        Scene::plain("running").claim(NOW - 9),
        Scene::plain("running, second attempt, retries left")
            .claim(0)
            .fail(0)
            .then(NOW - 9, tick)
            .claim(NOW - 9),
        last_retry("running, retries used up"),
        Scene::plain("running, one crash below the limit").claim(0).then(10, lose).claim(NOW - 9),
        Scene::plain("running, after a release").claim(0).then(10, release).claim(NOW - 9),
        Scene::new("running, past the time by which it had to start", |new| new.expires_at = Some(NOW - 5))
            .claim(0),
        Scene::plain("retrying, not due").claim(NOW - 9).fail(NOW - 5),
        Scene::plain("retrying, due").claim(0).fail(NOW - 1000),
        Scene::new("retrying, expired", |new| new.expires_at = Some(NOW)).claim(0).fail(NOW - 5),
        Scene::plain("completed").claim(NOW - 9).then(NOW - 5, Input::Complete),
        last_retry("dead letter, retries used up").fail(NOW - 5),
        Scene::plain("dead letter, too many crashes").claim(0).then(10, lose).claim(20).then(NOW - 5, lose),
        Scene::plain("cancelled while pending").then(NOW - 5, cancel),
        Scene::plain("cancelled while running").claim(NOW - 9).then(NOW - 5, cancel),
        Scene::plain("cancelled while retrying").claim(NOW - 9).fail(NOW - 8).then(NOW - 5, cancel),
        Scene::plain("cancelled after a release").claim(NOW - 9).then(NOW - 8, release).then(NOW - 5, cancel),
        Scene::new("cancelled because it expired", |new| new.expires_at = Some(NOW - 5)).then(NOW - 5, tick),
        Scene::new("cancelled before it expired", |new| new.expires_at = Some(NOW + 5)).then(NOW - 5, cancel),
        last_retry("pending after a manual retry").fail(NOW - 6).then(NOW - 5, |_| Input::Retry),
    ]
}

fn last_retry(title: &'static str) -> Scene {
    let tick = |_| Input::Tick;
    Scene::plain(title)
        .claim(0)
        .fail(0)
        .then(5000, tick)
        .claim(5000)
        .fail(6000)
        .then(NOW - 9, tick)
        .claim(NOW - 9)
}

#[test]
fn every_situation_meets_every_input() {
    let mut text = String::from(
        "Times are relative to now. a = attempts, c = crashes; at most 2 retries, 2 crashes.\n\
         ✗ = refused, nothing changes. – = there is no such lease.\n",
    );
    for scene in scenes() {
        write_scene(&mut text, &scene).unwrap();
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("transitions", text);
    });
}

fn write_scene(text: &mut String, scene: &Scene) -> std::fmt::Result {
    let reports: [(&str, Report); 8] = [
        ("complete", Input::Complete),
        ("fail", |lease| Input::Fail(lease, FAULT)),
        ("fail, not retryable", |lease| Input::Fail(lease, Fault { retryable: false, ..FAULT })),
        ("fail, retry after 7", |lease| Input::Fail(lease, Fault { retry_after_ms: Some(7), ..FAULT })),
        ("release", |lease| Input::Release(lease, None)),
        ("release for 7", |lease| Input::Release(lease, Some(7))),
        ("extend", Input::Extend),
        ("save", Input::Save),
    ];
    let others = [
        ("claim", Input::Claim(token(99))),
        ("cancel", Input::Cancel),
        ("tick", Input::Tick),
        ("lose_lease", Input::LoseLease),
        ("retry", Input::Retry),
        ("remove", Input::Remove),
        ("set priority to 7", Input::SetPriority(7)),
        ("move to other", Input::MoveTo("other")),
    ];
    writeln!(text, "\n## {}: {}", scene.title, show(&scene.record))?;
    for (word, input) in others {
        writeln!(text, "{word:21} {}", scene.cell(input))?;
    }
    let rows = reports.map(|(word, input)| {
        let cell = |which| {
            let lease = scene.lease(which);
            lease.map_or("–".to_owned(), |lease| scene.cell(input(which).with_lease(|_| lease)))
        };
        (word, [Which::Current, Which::LastEnded, Which::Foreign].map(cell))
    });
    let mut line = |word: &str, [current, last, foreign]: [&str; 3]| {
        writeln!(text, "{word:21} {current:40} {last:18} {foreign}")
    };
    line("", ["current lease", "last ended lease", "foreign lease"])?;
    if rows.iter().all(|(_, cells)| *cells == rows[0].1) {
        return line("every report", rows[0].1.each_ref().map(String::as_str));
    }
    for (word, cells) in &rows {
        line(word, cells.each_ref().map(String::as_str))?;
    }
    Ok(())
}

fn show(record: &Record) -> String {
    let relative = |at: u64| match at.cmp(&NOW) {
        std::cmp::Ordering::Less => format!("now-{}", NOW - at),
        std::cmp::Ordering::Equal => "now".to_owned(),
        std::cmp::Ordering::Greater => format!("now+{}", at - NOW),
    };
    let state = match &record.state {
        State::Scheduled { at }
        | State::Retrying { at }
        | State::Completed { at }
        | State::DeadLetter { at } => {
            format!("{}({})", record.state_name().as_str(), relative(*at))
        }
        State::Cancelled { at, reason } => format!("cancelled({}, {reason:?})", relative(*at)).to_lowercase(),
        State::Running(_) | State::Pending | State::Blocked { .. } => record.state_name().as_str().to_owned(),
    };
    let expires = record.expires_at.map_or(String::new(), |at| format!(" expires {}", relative(at)));
    let priority = match record.priority == Priority::default() {
        true => String::new(),
        false => format!(" p{}", record.priority.0),
    };
    let queue =
        if record.queue.as_str() == "default" { String::new() } else { format!(" in {}", record.queue) };
    format!("{state} a{} c{}{expires}{priority}{queue}", record.attempts, record.crashes)
}
