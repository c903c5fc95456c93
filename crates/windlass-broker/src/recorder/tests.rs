use std::fs;

use windlass_core::Name;

use super::*;

const WALL: u64 = 1_790_000_000_000;

fn at(ms: u64) -> Now {
    Now { wall: WALL + ms, mono: ms, ahead: 0 }
}

fn sample(now: Now, submitted: u64) -> Sample {
    let meters = Meters { submitted, ..Meters::default() };
    Sample {
        now,
        meters,
        queues: Vec::new(),
        workers: 3,
        cpu_us: now.mono * 250,
        resident_bytes: Some(1 << 20),
    }
}

fn queue(name: &str, submitted: u64, busy: bool) -> QueueSample {
    QueueSample { name: Name::new(name).unwrap(), counts: [submitted, 0, 0], depth: Some([7, 2]), busy }
}

fn ask(recorder: &Recorder, series: Series, now: Now, request: RangeRequest) -> (Range, Vec<Option<f32>>) {
    let range = recorder.range(&RangeRequest { series: vec![series], ..request }, now);
    let figures = range.series[0].1.iter().map(|figure| Some(*figure).filter(|it| !it.is_nan())).collect();
    (range, figures)
}

/// Ten tasks a second for so many seconds.
fn run(recorder: &Recorder, seconds: std::ops::RangeInclusive<u64>, wall_ms: i64) {
    for second in seconds {
        let now = at(second * 1000);
        recorder.take(sample(Now { wall: now.wall.saturating_add_signed(wall_ms), ..now }, second * 10));
    }
}

#[test]
fn every_level_has_the_exact_rate_of_its_step() {
    let recorder = Recorder::open(true, None, at(0), 0);
    run(&recorder, 1..=1200, 0);
    let now = at(1_200_000);
    for (from, step_ms, points) in [(600_000, 1000, 600), (0, 10_000, 120)] {
        let request = RangeRequest { from: Some(WALL + from), ..RangeRequest::default() };
        let (range, figures) = ask(&recorder, Series::Submitted, now, request);
        assert_eq!((range.step_ms, range.from, range.to), (step_ms, WALL + from, WALL + 1_200_000));
        assert_eq!(figures, vec![Some(10.0); points]);
    }
    // Of the first minute only a part was recorded, and it counts as what it was in all of it.
    let first = RangeRequest {
        from: Some(WALL),
        to: Some(WALL + 40_000),
        step_ms: Some(60_000),
        ..RangeRequest::default()
    };
    assert_eq!(ask(&recorder, Series::Submitted, now, first).1, [Some(400.0 / 60.0)]);
    let minutes =
        RangeRequest { from: Some(WALL + 40_000), step_ms: Some(60_000), ..RangeRequest::default() };
    assert_eq!(ask(&recorder, Series::Submitted, now, minutes.clone()).1, vec![Some(10.0); 19]);
    assert_eq!(ask(&recorder, Series::CpuPercent, now, minutes.clone()).1, vec![Some(25.0); 19]);
    assert_eq!(ask(&recorder, Series::Workers, now, minutes.clone()).1, vec![Some(3.0); 19]);
    assert_eq!(ask(&recorder, Series::WaitP50, now, minutes).1, vec![None; 19], "nothing was started");
}

#[test]
fn a_broker_that_was_down_leaves_a_hole_and_one_that_was_killed_forgets_what_it_had_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.ring");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let recorder = Recorder::open(true, Some(&path), at(0), 0);
    for second in 1..=30 {
        let now = at(second * 1000);
        recorder.take(Sample { queues: vec![queue("mail", second * 5, true)], ..sample(now, second * 10) });
    }
    runtime.block_on(recorder.save(at(30_500)));
    run(&recorder, 31..=40, 0);
    drop(recorder);

    // The monotonic clock of the next process begins anew.
    let started = Now { wall: WALL + 50_200, mono: 77, ahead: 0 };
    let again = Recorder::open(true, Some(&path), started, 0);
    for second in 1..=5 {
        let now = Now { wall: started.wall + second * 1000, mono: 77 + second * 1000, ahead: 0 };
        again.take(Sample { queues: vec![queue("mail", second, true)], ..sample(now, second * 20) });
    }
    let now = Now { wall: started.wall + 5000, mono: 5077, ahead: 0 };
    let request = RangeRequest { from: Some(WALL + 20_000), ..RangeRequest::default() };
    let (_, figures) = ask(&again, Series::Submitted, now, request.clone());
    let expected = [vec![Some(10.0); 10], vec![None; 20], vec![Some(20.0); 5]].concat();
    assert_eq!(figures, expected);
    let of_queue = RangeRequest { queue: Some(Name::new("mail").unwrap()), ..request };
    let (_, figures) = ask(&again, Series::Submitted, now, of_queue.clone());
    assert_eq!(figures, [vec![Some(5.0); 10], vec![None; 20], vec![Some(1.0); 5]].concat());
    assert_eq!(ask(&again, Series::Running, now, of_queue).1[0], Some(2.0));
}

#[test]
fn a_damaged_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.ring");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let recorder = Recorder::open(true, Some(&path), at(0), 0);
    run(&recorder, 1..=5, 0);
    runtime.block_on(recorder.save(at(5000)));
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [&flipped[..], &good[..good.len() - 1], &good[..3], &[]] {
        fs::write(&path, bad).unwrap();
        let again = Recorder::open(true, Some(&path), at(6000), 0);
        let request = RangeRequest { from: Some(WALL), ..RangeRequest::default() };
        assert!(ask(&again, Series::Submitted, at(6000), request).1.iter().all(Option::is_none));
        assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), bad);
        assert!(!path.exists());
    }
    assert!(file::load(&path).is_none(), "no file is no damage");
}

#[test]
fn no_jump_of_the_wall_clock_writes_over_a_row() {
    let recorder = Recorder::open(true, None, at(0), 0);
    run(&recorder, 1..=20, 0);
    // An hour ahead, and after a while back again.
    run(&recorder, 21..=30, 3_600_000);
    run(&recorder, 31..=40, 0);
    let request = RangeRequest { to: Some(WALL + 40_000), step_ms: Some(10_000), ..RangeRequest::default() };
    let whole = RangeRequest { from: Some(WALL - 3_700_000), ..request };
    let (_, figures) = ask(&recorder, Series::Submitted, at(40_000), whole);
    let there: Vec<f32> = figures.iter().flatten().copied().collect();
    // Twenty seconds before, one row of what the jump fell into, twenty seconds after it.
    assert_eq!(there, [10.0, 10.0, 1.0, 9.0, 10.0], "every second is in one row");
    assert_eq!(figures.iter().rev().take(2).flatten().count(), 2, "the newest are shown as of now");
}

#[test]
fn an_idle_queue_makes_room_for_a_busy_one() {
    let recorder = Recorder::open(true, None, at(0), 0);
    let most = windlass_core::limits::RECORDED_QUEUES_MAX as u64;
    let names: Vec<String> = (0..=most).map(|number| format!("q{number}")).collect();
    let has = |name: &str| recorder.state.lock().queues.get(&Name::new(name).unwrap()).is_some();
    for second in 1..=700 {
        let now = at(second * 1000);
        // The first falls idle, and there is one more than fit.
        let queues =
            names.iter().enumerate().map(|(i, name)| queue(name, second, i > 0 || second == 1)).collect();
        recorder.take(Sample { queues, ..sample(now, 0) });
        assert_eq!((has("q0"), has(&names[most as usize])), (second < 601, second >= 601), "{second}");
    }
    let rows = recorder.state.lock().queues.iter().count() as u64;
    assert_eq!(rows, most);
}

#[test]
fn a_costly_look_is_taken_rarely() {
    let recorder = Recorder::open(true, None, at(0), 0);
    assert!(recorder.look_is_due(0));
    recorder.looked(Some(Vec::new()), at(1000), Duration::from_millis(5));
    assert!(!recorder.look_is_due(5999));
    assert!(recorder.look_is_due(6000));
    recorder.looked(None, at(6000), Duration::from_secs(1000));
    assert!(recorder.look_is_due(66_000));
}

#[test]
fn a_shared_store_in_which_nothing_changes_is_asked_less_often() {
    let recorder = Recorder::open(true, None, at(0), 0).of_shared_store(true);
    let look = |now: u64, counts: Vec<QueueCounts>| {
        recorder.looked(Some(counts), at(now), Duration::ZERO);
        (0..60).map(|second| now + 1000 * second).find(|mono| recorder.look_is_due(*mono)).map(|at| at - now)
    };
    let pending = |count| {
        let name = Name::new("a").unwrap();
        let by_state = [0, 0, count, 0, 0, 0, 0, 0];
        let pending_by_class = [0; 4];
        vec![QueueCounts { name, paused: false, by_state, pending_by_class, oldest_pending_at: None }]
    };
    assert_eq!(look(1000, pending(1)), Some(0));
    assert_eq!(look(2000, pending(1)), Some(CALM_EVERY_MS));
    assert_eq!(look(7000, pending(2)), Some(0), "something happens");
}
