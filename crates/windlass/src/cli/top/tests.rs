use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::{Value, json};
use windlass_proto::rest::Time;

use super::feed::News;
use super::keys::Act;
use super::model::{Mode, Model, Pane};
use super::snapshot::{Failed, Snapshot};
use super::view;

const SECOND: u64 = 1000;
/// 2026-11-16T12:00:00Z.
const NOON: u64 = 1_794_830_400_000;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn states(pending: u64, running: u64, dead: u64) -> Value {
    json!({"scheduled": 0, "blocked": 0, "pending": pending, "running": running, "retrying": 1,
           "completed": 1_250_000, "dead_letter": dead, "cancelled": 0})
}

fn rates(done: f64) -> Value {
    json!({"submitted_per_second": done * 1.1, "completed_per_second": done, "failed_per_second": 0.4})
}

fn queue(name: &str, paused: bool, pending: u64) -> Value {
    json!({"name": name, "paused": paused, "tasks": states(pending, 3, pending / 1000),
           "pending_by_priority": {"critical": 0, "high": 0, "normal": pending, "low": 0},
           "oldest_pending_age_seconds": 75.0, "rates": rates(312.6)})
}

fn worker(id: &str, tasks: usize, slots: u32, active: bool) -> Value {
    let tasks: Vec<String> = (0..tasks).map(|n| format!("{id}-task-{n}")).collect();
    json!({"id": id, "paused": false, "active": active, "processes": 1, "host": "node-7", "queues": ["mail"],
           "slots": slots, "tasks": tasks, "first_seen_at": "2026-11-16T11:00:00.000Z",
           "last_heartbeat_at": "2026-11-16T11:59:59.000Z"})
}

fn failed(id: &str, state: &str, error: &str) -> Failed {
    Failed {
        task_id: id.to_owned(),
        kind: "email.send".to_owned(),
        queue: "mail".to_owned(),
        state: state.to_owned(),
        attempts: 3,
        error: error.to_owned(),
        at: Time::from_ms(NOON - 5 * SECOND),
    }
}

/// The n-th look: a second later each, with more done and a deeper queue.
fn look(n: u64) -> Snapshot {
    let ledger = json!({"submitted": 900 * n, "completed": 800 * n, "failed": n % 3, "crashed": 0,
                        "dead_lettered": 0, "cancelled": 0, "expired": 0, "removed": 0});
    Snapshot {
        at: Time::from_ms(NOON + n * SECOND),
        server: "http://127.0.0.1:8080".to_owned(),
        stats: read(json!({"tasks": states(12_345, 9, 12), "ledger": ledger, "rates": rates(795.0),
            "pending_by_priority": {"critical": 0, "high": 0, "normal": 0, "low": 0},
            "mean_duration_ms": 35.4, "queues": 3, "oldest_pending_age_seconds": 75.0,
            "active_workers": 2, "uptime_seconds": 18_720.0})),
        queues: read(json!([
            queue("default", false, 0),
            queue("mail", false, 345 + 100 * (n % 7)),
            queue("reports", true, 12_000)
        ])),
        workers: read(json!([
            worker("w1", 1, 8, true),
            worker("w2", 8, 8, true),
            worker("gone", 0, 8, false)
        ])),
        failures: vec![
            failed("0199-a", "dead_letter", "connection refused\nat line 7"),
            failed("0199-b", "retrying", "\u{1b}[2Jtimeout after 30s"),
        ],
    }
}

fn model() -> Model {
    let mut model = Model::new("http://127.0.0.1:8080", true);
    for n in 0..20 {
        model.hear(News::Look(Box::new(look(n))));
    }
    model
}

fn drawn(model: &Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model)).unwrap();
    terminal
}

fn screen(model: &Model) -> String {
    drawn(model, 80, 24).backend().to_string()
}

fn press(model: &mut Model, keys: &str) -> Option<Act> {
    let mut act = None;
    for c in keys.chars() {
        let code = match c {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        act = model.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    act
}

#[test]
fn a_small_screen_has_room_for_all() {
    insta::assert_snapshot!(screen(&model()));
}

#[test]
fn a_wide_screen_shows_more() {
    insta::assert_snapshot!(drawn(&model(), 160, 40).backend().to_string());
}

#[test]
fn help_lies_above_the_rest() {
    let mut model = model();
    press(&mut model, "?");
    insta::assert_snapshot!(screen(&model));
    press(&mut model, "x");
    assert_eq!(model.mode, Mode::Watch);
}

/// A corner of a screen, or a phone.
#[test]
fn where_little_fits_the_pane_that_keys_go_to_has_all_of_it() {
    let mut model = model();
    let shown = |model: &Model| drawn(model, 40, 8).backend().to_string();
    let queues = shown(&model);
    for word in ["QUEUE", "PENDING", "reports", "12,000", "? help", "q quit"] {
        assert!(queues.contains(word), "{word} is missing:\n{queues}");
    }
    assert!(!queues.contains("Workers"), "{queues}");
    press(&mut model, "\t");
    let workers = shown(&model);
    assert!(workers.contains("WORKER") && workers.contains("8/8") && !workers.contains("QUEUE"), "{workers}");
    press(&mut model, "\t");
    let failures = shown(&model);
    assert!(failures.contains("connection") && !failures.contains("WORKER"), "{failures}");
    press(&mut model, "?");
    let help = drawn(&model, 40, 30).backend().to_string();
    assert!(help.contains("letters)") && help.contains("tried again"), "{help}");
}

#[test]
fn no_size_is_too_small() {
    let mut model = model();
    for (width, height) in [(1, 1), (3, 2), (10, 4), (25, 7), (40, 10), (79, 23), (300, 5), (20, 100)] {
        for keys in ["", "?", "x/", "\n", "p"] {
            press(&mut model, keys);
            drawn(&model, width, height);
        }
        drawn(&Model::new("http://x", true), width, height);
    }
}

#[test]
fn a_broker_that_is_away_is_said_and_what_was_seen_stays() {
    let mut model = Model::new("http://127.0.0.1:8080", true);
    assert!(screen(&model).contains("connecting to http://127.0.0.1:8080"));
    model.hear(News::Lost("no route".to_owned()));
    assert!(screen(&model).contains("no route"));
    model.hear(News::Look(Box::new(look(1))));
    assert!(!screen(&model).contains("connecting"));
    model.hear(News::Lost("no route".to_owned()));
    let away = screen(&model);
    assert!(away.contains("reconnecting") && away.contains("reports") && away.contains("12,345"), "{away}");
    model.hear(News::Look(Box::new(look(2))));
    assert!(!screen(&model).contains("reconnecting"));
}

#[test]
fn without_colour_nothing_has_one() {
    let coloured = |model: &Model| {
        let terminal = drawn(model, 80, 24);
        let cells = &terminal.backend().buffer().content;
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    let mut model = model();
    assert!(coloured(&model) > 100);
    model.colour = false;
    assert_eq!(coloured(&model), 0);
}

#[test]
fn text_from_elsewhere_cannot_touch_the_terminal() {
    let text = screen(&model());
    assert!(text.contains("\\u{1b}[2Jtimeout") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn pausing_asks_first_and_knows_what_is_paused() {
    let mut model = model();
    assert_eq!(press(&mut model, "jp"), None);
    assert!(screen(&model).contains("pause queue mail?"));
    assert_eq!(press(&mut model, "n"), None, "anything but yes is no");
    assert_eq!(press(&mut model, "py").unwrap().to_string(), "pause queue mail");
    assert_eq!(press(&mut model, "jpy").unwrap().to_string(), "resume queue reports");
    assert_eq!(press(&mut model, "\tpy").unwrap().to_string(), "pause worker w2", "the busiest is first");
    model.hear(News::Refused("pause worker w2: not there".to_owned()));
    assert!(screen(&model).contains("w2: not there"));
    assert_eq!(press(&mut model, "q"), Some(Act::Quit));
}

#[test]
fn retry_is_for_the_selected_failure() {
    let mut model = model();
    assert_eq!(press(&mut model, "r"), None, "it goes to the pane first");
    assert_eq!(model.pane, Pane::Failures);
    assert_eq!(press(&mut model, "r").unwrap().to_string(), "retry 0199-a");
    assert_eq!(press(&mut model, "jr").unwrap().to_string(), "retry 0199-b");
    let mut next = look(30);
    next.failures.insert(0, failed("0199-c", "dead_letter", "new"));
    model.hear(News::Look(Box::new(next)));
    assert_eq!(press(&mut model, "r").unwrap().to_string(), "retry 0199-b", "new rows move no selection");
}

#[test]
fn a_filter_narrows_every_pane() {
    let mut model = model();
    press(&mut model, "/MaI");
    assert_eq!(model.queues().len(), 1);
    assert_eq!((model.workers().len(), model.failures().len()), (0, 2), "their queue is mail");
    press(&mut model, "\u{1b}");
    assert_eq!((model.filter.as_str(), model.queues().len()), ("", 3), "given up");
    press(&mut model, "/q\n");
    assert_eq!((model.filter.as_str(), model.queues().len()), ("q", 0), "a letter, not the end");
    assert!(screen(&model).contains("only “q”"));
    press(&mut model, "\u{1b}s");
    let names: Vec<&str> = model.queues().iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["reports", "mail", "default"], "the deepest first");
}
