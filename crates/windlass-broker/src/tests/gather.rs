//! Submits of several callers in one turn of the runtime.

use std::task::{Context, Waker};

use tokio::task::JoinSet;
use windlass_core::Links;
use windlass_store::faults::{Fault, Verb};

use super::faults::{code, start_faulty};
use super::*;

/// Every caller's own task; all submit in one turn.
async fn together(broker: &Broker, submits: Vec<Submit>) -> Vec<Result<Task, Error>> {
    let mut callers = JoinSet::new();
    for (i, submit) in submits.into_iter().enumerate() {
        let broker = broker.clone();
        callers.spawn(async move { (i, broker.submit(submit).await.map(|submitted| submitted.task)) });
    }
    let mut answers = callers.join_all().await;
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn numbered(i: usize) -> Submit {
    Submit { id: Some(id(&format!("task-{i}"))), payload: json(&i.to_string()), ..echo() }
}

/// How often the store was asked to write.
fn commits(broker: &Broker) -> u64 {
    broker.metrics().commit_us.count()
}

#[tokio::test(start_paused = true)]
async fn they_are_one_call_of_the_store_and_everybody_gets_their_own_answer() {
    let broker = start();
    let answers = together(&broker, (0..100).map(numbered).collect()).await;
    for (i, answer) in answers.into_iter().enumerate() {
        let task = answer.unwrap();
        assert_eq!((task.record.id, task.body.payload), (id(&format!("task-{i}")), json(&i.to_string())));
    }
    assert_eq!(commits(&broker), 1);
    broker.submit(numbered(100)).await.unwrap();
    assert_eq!(commits(&broker), 2, "nobody waits for somebody who does not come");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_stands_for_itself() {
    let broker = start();
    let taken = |i: usize| Submit { payload: json("\"another\""), fingerprint: Some([7; 16]), ..numbered(i) };
    broker.submit(taken(3)).await.unwrap();
    let codes: Vec<&str> =
        together(&broker, (0..6).map(numbered).collect()).await.into_iter().map(code).collect();
    assert_eq!(codes, ["ok", "ok", "ok", "task_exists", "ok", "ok"]);
    assert_eq!(commits(&broker), 2);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_one_task_may_be_the_reason_for_is_tried_with_each_alone() {
    let (broker, faulty) = start_faulty();
    faulty.once(Verb::Insert, Fault::TooLarge);
    assert!(together(&broker, (0..5).map(numbered).collect()).await.iter().all(Result::is_ok));
    // One after the other, and the second of them is at fault.
    for fault in [Fault::TooLarge, Fault::Delay(Duration::ZERO), Fault::TooLarge] {
        faulty.once(Verb::Insert, fault);
    }
    let codes: Vec<&str> =
        together(&broker, (5..9).map(numbered).collect()).await.into_iter().map(code).collect();
    assert_eq!(codes, ["ok", "store_failed", "ok", "ok"]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_store_refuses_all_of_them_all_are_told() {
    let (broker, faulty) = start_faulty();
    faulty.once(Verb::Insert, Fault::Refuse);
    let codes: Vec<&str> =
        together(&broker, (0..3).map(numbered).collect()).await.into_iter().map(code).collect();
    assert_eq!(codes, ["overloaded"; 3]);
    assert!(broker.get(&id("task-0")).await.is_err());
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_takes_nobody_along() {
    let broker = start();
    let mut callers: Vec<_> = (0..3)
        .map(|i| {
            let broker = broker.clone();
            Box::pin(async move { broker.submit(numbered(i)).await })
        })
        .collect();
    for caller in &mut callers {
        assert!(caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // The first of them, who called the others together.
    drop(callers.remove(0));
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(commits(&broker), 1);
    assert!(broker.get(&id("task-0")).await.is_ok(), "what was handed in is done");
    broker.stop().await;
}

/// Begins them in this order, before any of them gets anywhere.
async fn in_order(broker: &Broker, callers: Vec<Vec<Submit>>) -> Vec<Vec<Result<Record, Error>>> {
    let mut begun = Vec::new();
    for submits in callers {
        let mut caller = Box::pin(broker.submit_batch(submits, false));
        assert!(caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        begun.push(caller);
    }
    let mut answers = Vec::new();
    for caller in begun {
        let outcomes = caller.await.unwrap();
        answers.push(outcomes.map(|outcome| outcome.map(|it| it.task.record)).collect());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn whoever_came_first_stands_first_however_much_the_others_bring() {
    let broker = start();
    let large = json(&format!("\"{}\"", "x".repeat(200_000)));
    let metadata = vec![("note".to_owned(), "x".repeat(100_000))];
    let after = Links { dependencies: vec![id("task-0")], ..Links::default() };
    let callers = vec![
        vec![numbered(0)],
        (1..300).map(numbered).collect(),
        vec![Submit { payload: large.clone(), ..numbered(300) }],
        vec![Submit { payload: large, ..numbered(301) }, numbered(302)],
        // It depends on one that is handed in with it.
        vec![Submit { links: Some(Box::new(after)), ..numbered(303) }],
        vec![numbered(304)],
        vec![numbered(305)],
        vec![Submit { payload: json(&format!("\"{}\"", "y".repeat(200_000))), metadata, ..numbered(306) }],
    ];
    let answers = in_order(&broker, callers).await.concat();
    let seqs: Vec<u64> = answers.iter().map(|answer| answer.as_ref().unwrap().seq).collect();
    assert!(seqs.is_sorted() && seqs.len() == 307, "{seqs:?}");
    assert!(
        answers.iter().zip(0..).all(|(answer, i)| answer.as_ref().unwrap().id == numbered(i).id.unwrap())
    );
    assert_eq!(commits(&broker), 7, "only the two small ones before the last go together");
    broker.stop().await;
}

#[tokio::test]
async fn whoever_waits_when_a_runtime_ends_is_told_and_others_go_on() {
    let broker = start();
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waiting = {
        let broker = broker.clone();
        let mut waiting = Box::pin(async move { broker.submit(numbered(0)).await });
        let _there = other.enter();
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        waiting
    };
    other.shutdown_background();
    refused(waiting.await, "store_failed");
    broker.submit(numbered(1)).await.unwrap();
    broker.stop().await;
}

/// Keeps what it is told: of each submit the number and the payload, or the code of the refusal.
#[derive(Debug, Default)]
struct Heard(parking_lot::Mutex<Vec<Vec<String>>>);

impl crate::Told for Heard {
    fn told(&self, outcomes: Result<&mut dyn ExactSizeIterator<Item = crate::Look<'_>>, Error>) {
        let text = |look: crate::Look<'_>| match look {
            Ok((record, body)) => {
                format!("{}: {}", record.seq, String::from_utf8_lossy(body.payload.bytes()))
            }
            Err(error) => error.code().to_owned(),
        };
        let heard = match outcomes {
            Ok(outcomes) => outcomes.map(text).collect(),
            Err(error) => vec![error.code().to_owned()],
        };
        self.0.lock().push(heard);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_in_order_with_those_who_do() {
    let broker = start();
    let heard = std::sync::Arc::new(Heard::default());
    broker.submit_told(vec![numbered(0), numbered(1)], heard.clone()).unwrap();
    let waits = tokio::spawn({
        let broker = broker.clone();
        async move { broker.submit(numbered(2)).await.unwrap().task.record.seq }
    });
    tokio::task::yield_now().await;
    let taken = Submit { payload: json("\"another\""), fingerprint: Some([7; 16]), ..numbered(1) };
    broker.submit_told(vec![taken, numbered(3)], heard.clone()).unwrap();
    assert_eq!(waits.await.unwrap(), 3, "it came third");
    while heard.0.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*heard.0.lock(), [["1: 0", "2: 1"], ["task_exists", "4: 3"]]);
    let many = (0..1001).map(numbered).collect();
    assert_eq!(broker.submit_told(many, heard.clone()).unwrap_err().code(), "invalid");
    assert_eq!(heard.0.lock().len(), 2, "whoever is refused at once is told by that");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_of_failures_too() {
    let (broker, faulty) = start_faulty();
    let heard = std::sync::Arc::new(Heard::default());
    faulty.once(Verb::Insert, Fault::Refuse);
    broker.submit_told(vec![numbered(0), numbered(1)], heard.clone()).unwrap();
    while heard.0.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    // Each alone, because one of them may be the reason.
    for fault in [Fault::TooLarge, Fault::TooLarge] {
        faulty.once(Verb::Insert, fault);
    }
    broker.submit_told(vec![numbered(2)], heard.clone()).unwrap();
    broker.submit_told(vec![numbered(3)], heard.clone()).unwrap();
    while heard.0.lock().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*heard.0.lock(), [["overloaded"], ["store_failed"], ["1: 3"]]);
    broker.stop().await;
}

#[tokio::test]
async fn who_does_not_wait_is_told_when_a_runtime_ends() {
    let broker = start();
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let heard = std::sync::Arc::new(Heard::default());
    {
        let _there = other.enter();
        broker.submit_told(vec![numbered(0)], heard.clone()).unwrap();
    }
    other.shutdown_background();
    assert_eq!(*heard.0.lock(), [["store_failed"]]);
    broker.stop().await;
}
