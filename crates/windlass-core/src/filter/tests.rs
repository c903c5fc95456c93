use proptest::prelude::*;

use super::*;
use crate::ids::Token;
use crate::priority::Priority;
use crate::retry;
use crate::state::{CancelReason, Lease};
use crate::task::{Attempt, Body, NewTask, Outcome, Payload};
use crate::unique::{Hold, OnConflict, Unique, UniqueKey};

/// 2026-11-16T12:00:00Z.
const NOW: u64 = 1_794_830_400_000;
const HOUR: u64 = 3_600_000;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn parse(text: &str) -> Filter {
    Filter::parse(text, NOW).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    Filter::parse(text, NOW).expect_err(text).to_string()
}

fn record() -> Record {
    let body = Body {
        payload: Payload::Json(bytes::Bytes::new()),
        metadata: Vec::new(),
        timeout_ms: 1,
        max_retries: 0,
        max_crashes: 1,
        retry: retry::Policy::default(),
        fingerprint: None,
        links: None,
    };
    let new = NewTask {
        id: TaskId::new("order:17").unwrap(),
        queue: name("mail"),
        kind: name("email.send"),
        priority: Priority(200),
        created_at: NOW - 3 * HOUR,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 0,
        counted: crate::task::Counted::default(),
        key: Some(Name::new("tenant-7").unwrap()),
        unique: None,
        body,
    };
    let mut record = Record::submitted(&new, 1);
    record.updated_at = NOW - HOUR;
    let unique =
        Unique { key: UniqueKey::new("invoice 7").unwrap(), for_ms: None, on_conflict: OnConflict::Return };
    record.unique = Some(Box::new(Hold::new(&unique, 0)));
    record.error = Some("Connection Timeout, code=7".into());
    record.state = State::DeadLetter { at: NOW - HOUR };
    record.history.push(Attempt {
        number: 1,
        worker: name("w1"),
        started_at: NOW - 2 * HOUR,
        ended_at: NOW - HOUR,
        outcome: Outcome::Failed,
        error: None,
    });
    record
}

#[test]
fn every_field_is_looked_at() {
    let task = record();
    for text in [
        "",
        "state:dead_letter",
        "STATE:Dead",
        "status:archived",
        "state:pending,dead",
        "state:failed",
        "-state:pending,running",
        "type:email.send",
        "type:email.*",
        "task_type:email.send,other",
        "queue:mail",
        "topic:m*",
        "-queue:other",
        "worker:w1",
        "worker:*",
        "worker_id:w2,w1",
        "id:order:17",
        "id:order:*",
        "key:tenant-7",
        "key:ten*",
        "unique_key:\"invoice 7\"",
        "unique_key:inv*,other",
        "priority:200",
        "priority:high",
        "priority:>=200",
        "priority:>199",
        "priority:<=200",
        "priority:<201",
        "priority:100..200",
        "priority:low,200",
        "-priority:critical",
        "error:timeout",
        "error:\"connection timeout\"",
        "error:nothing,code=7",
        "error:\"Timeout, code\"",
        "-error:refused",
        "fingerprint:5c3898514c8b5267",
        "fingerprint:0000000000000000,5c3898514c8b5267",
        "-fingerprint:0000000000000000",
        "timeout",
        "\"order:17\"",
        "EMAIL 17 -refused",
        "since:2h",
        "since:61m",
        "since:2026-11-16",
        "since:2026-11-16T11:00:00Z",
        "until:30m",
        "until:2026-11-16",
        "created:4h",
        "created:>=2026-11-16T09:00:00Z",
        "created:<2h",
        "created:2026-11-16",
        "created:2026-11-01..2026-11-16",
        "-created:2h",
        "state:dead_letter type:email.send error:timeout since:2h",
    ] {
        assert!(parse(text).matches(&task), "{text}");
    }
    for text in [
        "state:pending",
        "-state:dead",
        "type:email",
        "type:email.s",
        "-type:email.*",
        "queue:mai",
        "worker:w2",
        "-worker:*",
        "key:tenant",
        "-key:tenant-7",
        "unique_key:invoice",
        "-unique_key:*",
        "id:order",
        "priority:low,normal",
        "priority:>200",
        "priority:<200",
        "error:refused",
        "fingerprint:0000000000000000",
        "nothing",
        "-timeout",
        "since:59m",
        "since:2026-11-17",
        "until:90m",
        "until:2026-11-15",
        "created:2h",
        "created:>2026-11-16",
        "created:<2026-11-16",
        "created:2026-11-17",
        "state:dead timeout queue:other",
    ] {
        assert!(!parse(text).matches(&task), "{text}");
    }
}

#[test]
fn a_task_without_worker_or_error_has_neither() {
    let mut task = record();
    task.error = None;
    task.history.clear();
    task.state = State::Pending;
    for text in ["worker:*", "error:a", "worker:w1"] {
        assert!(!parse(text).matches(&task), "{text}");
        assert!(parse(&format!("-{text}")).matches(&task), "-{text}");
    }
    task.state = State::Running(Lease {
        token: Token { number: 1, secret: 1 },
        worker: name("w9"),
        lease_ms: 1,
        started_at: 0,
        expires_at: 0,
    });
    assert!(parse("worker:w9").matches(&task));
}

#[test]
fn mistakes_name_the_word_and_what_may_be_meant() {
    for (text, parts) in [
        ("stat:dead", &["stat:dead", "no field stat", "did you mean state?"][..]),
        ("type:a queu:b", &["queu:b", "did you mean queue?"]),
        ("colour:red", &["colour:red", "the fields are state, type, queue, error", "quotes"]),
        ("http://example", &["http://example", "no field http", "quotes"]),
        ("state:ded_letter", &["did you mean dead_letter?"]),
        ("state:nonsense", &["the states are scheduled, blocked"]),
        ("state:", &["state:", "needs a value"]),
        ("state:pending,", &["needs a value"]),
        ("state:\"\"", &["needs a value"]),
        ("-", &["-:", "no text"]),
        ("error:\"open", &["error:\"open", "not closed"]),
        ("error:\"a\"b", &["closing quote"]),
        ("queue:ä", &["may contain only"]),
        ("queue:a*b", &["a star at the end"]),
        ("priority:256", &["priority:256", "0-255"]),
        ("priority:>255", &["no priority"]),
        ("priority:<0", &["no priority"]),
        ("priority:9..3", &["no priority"]),
        ("priority:urgent", &["critical, high"]),
        ("fingerprint:timeout", &["fingerprint:timeout", "16 hexadecimal digits"]),
        ("since:soon", &["since:soon", "2h, 90m or 7d"]),
        ("since:2h,3h", &["takes one time"]),
        ("since:9999999999999999999999d", &["ten years"]),
        ("since:1960-01-01", &["before 1970"]),
        ("created:2026-11-16T09:00:00Z", &["one moment"]),
        ("created:1h..2h", &["before its beginning"]),
    ] {
        let message = refused(text);
        for part in parts {
            assert!(message.contains(part), "{text} → {message}");
        }
    }
}

#[test]
fn everything_has_a_limit() {
    assert!(refused(&"x".repeat(9000)).contains("8192 bytes"));
    assert!(refused(&"x ".repeat(33)).contains("32 words"));
    assert!(refused(&format!("queue:{}", ["a"; 201].join(","))).contains("200 values"));
    assert!(refused(&format!("zz:{}", "ä".repeat(200))).len() < 400);
}

#[test]
fn a_filter_tells_where_to_look() {
    let states = |text: &str| parse(text).states();
    assert_eq!(states("type:a"), None);
    assert_eq!(states("state:dead,pending"), Some(vec![StateName::Pending, StateName::DeadLetter]));
    assert_eq!(states("state:failed -state:dead"), Some(vec![StateName::Retrying]));
    assert_eq!(states("state:pending state:dead"), Some(vec![]));
    assert_eq!(parse("queue:a state:dead").queue(), Some(name("a")));
    for text in ["queue:a,b", "queue:a*", "-queue:a", "type:a"] {
        assert_eq!(parse(text).queue(), None, "{text}");
    }
    assert_eq!(parse("id:a,b").ids().map(|ids| ids.len()), Some(2));
    assert_eq!(parse("id:a,b*").ids(), None);
    assert_eq!(parse("-id:a").ids(), None);
    let all = |text: &str| parse(text).passes_all(&name("a"), StateName::Pending);
    assert_eq!(all(""), Some(true));
    assert_eq!(all("queue:a state:pending"), Some(true));
    assert_eq!(all("-queue:a"), Some(false));
    assert_eq!(all("state:dead"), Some(false));
    assert_eq!(all("state:pending type:t"), None);
}

fn words() -> impl Strategy<Value = String> {
    let value = || prop_oneof!["[a-z0-9._-]{1,4}\\*?", "\"[ -~]{0,6}\"", "[ -~]{1,6}"];
    let field = prop::sample::select(vec![
        "state:",
        "type:",
        "queue:",
        "error:",
        "fingerprint:",
        "worker:",
        "id:",
        "priority:",
        "since:",
        "until:",
        "created:",
        "",
        "-",
        "-state:",
        "-error:",
        "none:",
    ]);
    let known = prop::sample::select(vec![
        "pending",
        "dead,done",
        "failed",
        "2h",
        "90s",
        "2026-01-31",
        "2026-01-31..2026-02-01",
        ">=3d",
        "<1w",
        "7",
        "high",
        ">=200",
        "1..9",
        "a,b",
        "a*",
        "\"a, b\",c",
        "cbf29ce484222325,0000000000000000",
    ])
    .prop_map(str::to_owned);
    (field, prop_oneof![value(), known]).prop_map(|(field, value)| format!("{field}{value}"))
}

fn records() -> impl Strategy<Value = Record> {
    let state = prop::sample::select(vec![
        State::Pending,
        State::DeadLetter { at: 1 },
        State::Completed { at: 1 },
        State::Retrying { at: 1 },
        State::Cancelled { at: 1, reason: CancelReason::Asked },
    ]);
    let text = "[a-c. ]{0,5}";
    (state, "[a-c]{1,2}", "[a-c]{1,2}", any::<u8>(), prop::option::of(text), 0u64..2 * NOW).prop_map(
        |(state, queue, kind, priority, error, at)| Record {
            state,
            queue: name(&queue),
            kind: name(&kind),
            priority: Priority(priority),
            error: error.map(String::into_boxed_str),
            created_at: at,
            updated_at: at / 2 + NOW / 2,
            ..record()
        },
    )
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = Filter::parse(&text, NOW);
    }

    #[test]
    fn what_is_shown_reads_the_same_at_any_time(
        words in prop::collection::vec(words(), 0..6), later in any::<u32>(), task in records(),
    ) {
        let text = words.join(" ");
        if let Ok(filter) = Filter::parse(&text, NOW) {
            let shown = filter.to_string();
            let again = Filter::parse(&shown, NOW + u64::from(later)).expect("it reads what it shows");
            prop_assert_eq!(again.to_string(), shown);
            prop_assert_eq!(again.matches(&task), filter.matches(&task), "{}", text);
        }
    }

    /// Where to look never leaves out a task that matches.
    #[test]
    fn narrowing_loses_nothing(words in prop::collection::vec(words(), 0..4), task in records()) {
        if let Ok(filter) = Filter::parse(&words.join(" "), NOW) {
            if filter.matches(&task) {
                prop_assert!(filter.states().is_none_or(|states| states.contains(&task.state_name())));
                prop_assert!(filter.queue().is_none_or(|queue| queue == task.queue));
                prop_assert!(filter.ids().is_none_or(|ids| ids.contains(&task.id)));
            }
            if let Some(all) = filter.passes_all(&task.queue, task.state_name()) {
                prop_assert_eq!(all, filter.matches(&task));
            }
        }
    }

    #[test]
    fn a_word_and_its_opposite_share_nothing(word in words(), task in records()) {
        let opposite = format!("-{word}");
        if let (false, Ok(one), Ok(other)) =
            (word.starts_with('-'), Filter::parse(&word, NOW), Filter::parse(&opposite, NOW))
            && !word.contains(' ')
        {
            prop_assert_ne!(one.matches(&task), other.matches(&task), "{}", word);
        }
    }
}

#[test]
fn a_long_text_is_found_in_any_case_and_without_trying_every_place() {
    let error = format!("{}TheEnd", "a".repeat(100_000));
    let part = format!("{}theend", "A".repeat(50_000));
    assert!(super::contains(&error, &part));
    assert!(!super::contains(&error, &format!("{}b", "a".repeat(50_000))));
    for length in [1, 31, 32, 33, 34] {
        let part = "x".repeat(length);
        assert!(super::contains(&format!("a{}b", "X".repeat(length)), &part), "{length}");
        assert!(!super::contains(&"x".repeat(length - 1), &part), "{length}");
    }
}
