use windlass_core::choice::{Mode, Queue};

use super::*;

fn claim(queue: &str) -> Claim {
    let name = |text: &str| Name::new(text).unwrap();
    Claim {
        worker: name("w"),
        queues: vec![Queue { name: name(queue), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max: 1,
        lease_ms: 1000,
        wait_ms: 1000,
        seed: 1,
    }
}

fn enter(waits: &Waits, queue: &str) -> oneshot::Receiver<Result<Vec<Task>, Error>> {
    let (reply, answer) = oneshot::channel();
    waits.enter(claim(queue), reply).unwrap();
    answer
}

fn asked(round: &Round) -> Vec<String> {
    round.asked.iter().map(|asked| asked.claim.queues[0].name.to_string()).collect()
}

#[test]
fn who_is_new_has_a_look_however_many_lanes_got_something() {
    let waits = Waits::default();
    let _old: Vec<_> = (0..100).map(|i| enter(&waits, &format!("q{i:03}"))).collect();
    while !waits.gather().asked.is_empty() {}
    let _new = enter(&waits, "z");
    waits.wake(&BTreeSet::from([Lane::Everywhere]));
    let round = waits.gather();
    assert_eq!(round.asked.len(), CALL_CLAIMS_MAX);
    assert_eq!(asked(&round).last().map(String::as_str), Some("z"));
    assert_eq!(round.looked, Some(101));
}

/// The first lanes get something all the time.
#[test]
fn lanes_take_turns() {
    let waits = Waits::default();
    let _old: Vec<_> = (0..100).map(|i| enter(&waits, &format!("q{i:03}"))).collect();
    while !waits.gather().asked.is_empty() {}
    let mut had = BTreeSet::new();
    for _ in 0..5 {
        waits.wake(&BTreeSet::from([Lane::Everywhere]));
        had.extend(asked(&waits.gather()));
    }
    assert_eq!(had.len(), 100);
}

#[test]
fn a_call_stands_for_a_bounded_number_of_pairs() {
    let waits = Waits::default();
    let queues = (0..256).map(|i| Queue { name: Name::new(&format!("q{i}")).unwrap(), weight: 1 });
    let types = (0..15).map(|i| Name::new(&format!("t{i}")).unwrap()).collect();
    let wide = Claim { queues: queues.collect(), types: Some(types), ..claim("q") };
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (reply, answer) = oneshot::channel();
        waits.enter(wide.clone(), reply).unwrap();
        answers.push(answer);
    }
    for arrival in 1..=3 {
        let round = waits.gather();
        assert_eq!((round.asked.len(), round.looked), (1, Some(arrival)));
    }
    assert!(waits.gather().asked.is_empty());
}

fn enter_for(waits: &Waits, queue: &str, max: u32) -> oneshot::Receiver<Result<Vec<Task>, Error>> {
    let (reply, answer) = oneshot::channel();
    waits.enter(Claim { max, ..claim(queue) }, reply).unwrap();
    answer
}

#[test]
fn who_wants_much_has_a_look_beside_lanes_that_always_get_something() {
    let waits = Waits::default();
    let _old = enter_for(&waits, "a", 100);
    while !waits.gather().asked.is_empty() {}
    let _new = [enter_for(&waits, "b", 1000), enter_for(&waits, "c", 1000)];
    for (arrival, queue) in [(2, "b"), (3, "c")] {
        waits.wake(&BTreeSet::from([Lane::Queue(Name::new("a").unwrap())]));
        let round = waits.gather();
        assert_eq!((asked(&round), round.looked), (vec!["a".to_owned(), queue.to_owned()], Some(arrival)));
    }
}

#[test]
fn a_lane_that_wants_much_has_its_turn_between_small_ones() {
    let waits = Waits::default();
    let _old = [enter_for(&waits, "a", 100), enter_for(&waits, "b", 1000), enter_for(&waits, "c", 100)];
    while !waits.gather().asked.is_empty() {}
    let rounds: Vec<Vec<String>> = (0..3)
        .map(|_| {
            waits.wake(&BTreeSet::from([Lane::Everywhere]));
            asked(&waits.gather())
        })
        .collect();
    assert_eq!(rounds, [vec!["a"], vec!["b"], vec!["c", "a"]]);
}

fn ticket(round: &Round) -> Ticket {
    round.asked[0].ticket
}

#[test]
fn a_claim_whose_wait_ends_while_it_is_asked_for_gets_that_answer() {
    let waits = Waits::default();
    let mut answer = enter(&waits, "q");
    let round = waits.gather();
    assert!(waits.leave_or_await(ticket(&round)), "an answer is on its way");
    assert!(waits.end_round(&round, |_| true)[0].is_some(), "it is still there to be served");
    assert!(waits.leave_or_await(ticket(&round)), "what it was served is on its way");
    assert!(answer.try_recv().is_err());
    // Nothing is an answer too, but only to one that waits no more.
    for is_over in [true, false] {
        let mut answer = enter(&waits, "q");
        let round = waits.gather();
        assert!(!is_over || waits.leave_or_await(ticket(&round)));
        assert!(waits.end_round(&round, |_| false)[0].is_none());
        assert_eq!(matches!(answer.try_recv(), Ok(Ok(tasks)) if tasks.is_empty()), is_over);
        assert_eq!(waits.inner.lock().waiting.is_empty(), is_over);
    }
}

#[test]
fn a_claim_that_nobody_asks_for_leaves_when_its_wait_ends() {
    let waits = Waits::default();
    let _answer = enter(&waits, "q");
    let round = waits.gather();
    waits.end_round(&round, |_| false);
    assert!(!waits.leave_or_await(ticket(&round)));
    assert!(waits.inner.lock().waiting.is_empty());
}
