//! What the TCP frames must bear: every request here is refused with a clear answer, changes nothing, and hurts nobody else.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::broker_process::BrokerProcess;
use crate::frames::{CANCEL, CLAIM, Frames, HEARTBEAT, LIST, RESULT, STATS, STATUS, SUBMIT, frame};

/// Type, body, status, code, field.
type Row = (u8, &'static [u8], u16, &'static str, &'static str);

const ROWS: &[Row] = &[
    (0, b"{}", 400, "unknown_type", ""),
    (5, b"{}", 400, "unknown_type", ""),
    (6, b"{}", 400, "unknown_type", ""),
    (11, b"{}", 400, "unknown_type", ""),
    (255, b"", 400, "unknown_type", ""),
    (SUBMIT, b"", 400, "malformed", ""),
    (SUBMIT, b"{", 400, "malformed", ""),
    (SUBMIT, b"null", 400, "malformed", ""),
    (SUBMIT, b"\xff\xfe\x00", 400, "malformed", ""),
    (SUBMIT, b"{\"type\":\"\xff\"}", 400, "malformed", ""),
    (SUBMIT, b"{\"type\":\"a\"} {\"type\":\"a\"}", 400, "malformed", ""),
    (SUBMIT, b"{}", 400, "malformed", "type"),
    (SUBMIT, b"{\"type\":\"a\",\"colour\":1}", 400, "malformed", "colour"),
    (SUBMIT, b"{\"type\":\"a\",\"priority\":256}", 422, "out_of_range", "priority"),
    (SUBMIT, b"{\"id\":\"live\",\"type\":\"other\"}", 409, "task_exists", ""),
    (SUBMIT, b"{\"tasks\":1}", 400, "malformed", "tasks"),
    (SUBMIT, b"{\"tasks\":[]}", 400, "malformed", "tasks"),
    (CLAIM, b"{}", 400, "malformed", "worker_id"),
    (CLAIM, b"{\"worker_id\":\"w\",\"max\":0}", 422, "out_of_range", "max"),
    (CLAIM, b"{\"worker_id\":\"w\",\"queues\":[]}", 422, "out_of_range", "queues"),
    (RESULT, b"{}", 400, "malformed", "id"),
    (RESULT, b"{\"id\":\"live\",\"lease\":\"x\",\"status\":\"done\"}", 400, "malformed", "status"),
    (RESULT, b"{\"id\":\"live\",\"lease\":\"x\",\"status\":\"failed\"}", 400, "malformed", "error"),
    (RESULT, b"{\"id\":\"live\",\"lease\":\"x\",\"status\":\"completed\"}", 409, "lease_lost", ""),
    (
        RESULT,
        b"{\"id\":\"live\",\"lease\":\"1-00000000000000ff\",\"status\":\"released\"}",
        409,
        "lease_lost",
        "",
    ),
    (HEARTBEAT, b"{\"leases\":[]}", 400, "malformed", "worker_id"),
    (HEARTBEAT, b"{\"worker_id\":\"w\",\"leases\":[{\"id\":\"live\"}]}", 400, "malformed", "leases[0].lease"),
    (STATUS, b"{\"id\":\"none\"}", 404, "not_found", ""),
    (STATUS, b"{\"id\":\"a b\"}", 400, "malformed", "id"),
    (CANCEL, b"{\"id\":\"none\"}", 404, "not_found", ""),
    (CANCEL, b"{}", 400, "malformed", "id"),
    (LIST, b"{\"state\":\"lost\"}", 400, "malformed", "state"),
    (LIST, b"{\"limit\":0}", 422, "out_of_range", "limit"),
    (LIST, b"{\"limit\":-1}", 400, "malformed", "limit"),
    (LIST, b"{\"cursor\":\"made up\"}", 400, "malformed", "cursor"),
    (STATS, b"", 400, "malformed", ""),
    (STATS, b"{\"all\":true}", 400, "malformed", "all"),
];

fn counts(frames: &mut Frames) -> (Value, Value) {
    let stats = frames.call(STATS, "{}").ok();
    (stats["tasks"].clone(), stats["ledger"].clone())
}

fn started() -> (BrokerProcess, Frames) {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__MAX_PAYLOAD_BYTES", "1000000")]);
    let mut frames = broker.frames();
    frames.call(SUBMIT, r#"{"id":"live","type":"a"}"#).ok();
    (broker, frames)
}

#[test]
fn each_mistake_has_its_answer_and_the_connection_goes_on() {
    let (_broker, mut frames) = started();
    let before = counts(&mut frames);
    let check = |answer: crate::frames::Answer, row: &Row| {
        let (kind, body, status, code, field) = row;
        let problem = answer.refused(*status, code);
        let named = problem["errors"][0]["field"].as_str().unwrap_or_default();
        assert_eq!(named, *field, "{kind} {}: {problem}", String::from_utf8_lossy(body));
    };
    for row in ROWS {
        check(frames.call(row.0, row.1), row);
    }
    // All at once they get the same answers.
    frames.send(&ROWS.iter().flat_map(|row| frame(row.0, row.1)).collect::<Vec<u8>>());
    for row in ROWS {
        check(frames.read(), row);
    }
    assert_eq!(counts(&mut frames), before);
}

#[test]
fn a_frame_of_nothing_is_refused_and_skipped() {
    let (_broker, mut frames) = started();
    frames.send(&[[0, 0, 0, 0].as_slice(), &frame(STATUS, r#"{"id":"live"}"#)].concat());
    frames.read().refused(400, "malformed");
    assert_eq!(frames.read().ok()["task"]["id"], "live");
}

#[test]
fn a_length_that_no_frame_may_have_ends_the_connection() {
    let (broker, mut frames) = started();
    let before = counts(&mut frames);
    for noise in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        &[0xff; 64],
        &[0, 0x20, 0, 0, SUBMIT],
        // What came before is answered.
        &[frame(STATUS, r#"{"id":"live"}"#), vec![0xff; 8], frame(CANCEL, r#"{"id":"live"}"#)].concat(),
    ] {
        let mut frames = broker.frames();
        frames.send(noise);
        if noise.starts_with(&[0, 0, 0, 14]) {
            frames.read().ok();
        }
        frames.read().refused(413, "too_large");
        assert!(frames.is_closed());
    }
    let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(1_000_001));
    frames.call(SUBMIT, large).refused(413, "too_large");
    assert_eq!(counts(&mut frames), before);
}

#[test]
fn a_frame_may_come_in_pieces_and_half_of_one_does_nothing() {
    let (broker, mut frames) = started();
    let before = counts(&mut frames);
    let cancel = frame(CANCEL, r#"{"id":"live"}"#);
    for length in [1, 4, 5, cancel.len() - 1] {
        let mut half = broker.frames();
        half.send(&cancel[..length]);
        half.close_sending();
        half.read().refused(400, "malformed");
        assert!(half.is_closed());
    }
    assert_eq!(counts(&mut frames), before);
    let payload = "x".repeat(900_000);
    let large = frame(SUBMIT, format!(r#"{{"id":"large","type":"a","payload":"{payload}"}}"#));
    for piece in cancel.chunks(1).chain(large.chunks(7919)) {
        frames.send(piece);
    }
    assert_eq!(frames.read().ok()["task"]["state"], "cancelled");
    assert_eq!(frames.read().ok()["task"]["payload"], payload);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__CONNECTIONS_MAX", "2")]);
    let mut kept = [broker.frames(), broker.frames()];
    for frames in &mut kept {
        frames.call(STATS, "{}").ok();
    }
    let mut third = broker.frames();
    third.read().refused(503, "overloaded");
    assert!(third.is_closed());
    kept[0].call(STATS, "{}").ok();
}

#[test]
fn a_client_that_does_not_read_is_held_back_and_costs_little() {
    let (broker, mut frames) = started();
    let large = format!(r#"{{"id":"large","type":"a","payload":"{}"}}"#, "x".repeat(500_000));
    frames.call(SUBMIT, large).ok();
    let before = resident(broker.pid());
    let mut greedy = TcpStream::connect(broker.tcp_address).unwrap();
    greedy.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // 20,000 answers of half a megabyte: more than any machine here has.
    let request = frame(STATUS, r#"{"id":"large"}"#).repeat(100);
    let mut blocked = false;
    for _ in 0..20_000 {
        match greedy.write_all(&request) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
                blocked = true;
                break;
            }
        }
    }
    assert!(blocked, "the broker read everything");
    let grown = resident(broker.pid()).saturating_sub(before);
    // A handful of answers, not what was asked for.
    assert!(grown < 50_000_000, "{grown} bytes");
    assert_eq!(frames.call(STATUS, r#"{"id":"live"}"#).ok()["task"]["state"], "pending");
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
