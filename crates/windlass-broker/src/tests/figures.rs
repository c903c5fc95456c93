//! The numbers that listeners hear: of every second, and of attempts.

use super::events::{all, failed, of, task_events};
use super::*;
use crate::EventFilter;

#[tokio::test(start_paused = true)]
async fn figures_come_every_second_while_somebody_wants_them() {
    let broker = start();
    let task = running(&broker, named("a"), one("w")).await;
    broker.release(&id("a"), token(&task), None).await.unwrap();
    let task = broker.claim(one("w")).await.unwrap().remove(0);
    broker.fail(&id("a"), token(&task), failed(false)).await.unwrap();
    broker.retry(&id("a")).await.unwrap();
    let mut none = broker.listen(task_events(), None).unwrap();
    pass(3000).await;
    assert_eq!(heard(&mut none), [], "nobody wants them");
    let mut figures = broker.listen(EventFilter::default(), None).unwrap();
    use EventKind::{QueueDepth, SystemMetrics};
    let mut told = Vec::new();
    for wait_ms in [100, 1000, 1000, 1000] {
        pass(wait_ms).await;
        told = all(&mut figures);
        let kinds: Vec<EventKind> = told.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [QueueDepth, SystemMetrics], "at once, and every second");
    }
    let crate::EventData::Depths(depths) = &told[0].data else { panic!("{:?}", told[0]) };
    let pending = windlass_core::StateName::Pending.index();
    assert_eq!((depths[0].queue.as_str(), depths[0].by_state[pending]), ("default", 1));
    let crate::EventData::Figures(sums) = &told[1].data else { panic!("{:?}", told[1]) };
    assert_eq!((sums.submitted, sums.pending, sums.running), (1, 1, 0));
    assert_eq!((sums.started, sums.retried), (2, 1), "also of when nobody listened");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn figures_take_no_place_from_events_and_are_not_told_again() {
    let broker = start();
    let mut events = broker.listen(EventFilter::default(), None).unwrap();
    let begin = events.place().unwrap();
    pass(100).await;
    assert!(all(&mut events).iter().all(|event| event.id == begin), "there was no event before them");
    broker.submit(named("a")).await.unwrap();
    pass(5000).await;
    let told = all(&mut events);
    let ids: Vec<u64> = told.iter().map(|event| event.id - begin).collect();
    assert_eq!((of(&told, "a"), ids), (vec!["submitted"], vec![1, 1, 1]));
    let mut again = broker.listen(EventFilter::default(), Some(begin)).unwrap();
    assert_eq!(heard(&mut again), [EventKind::Submitted]);
    assert_eq!(again.place(), Some(begin + 1));
    pass(1000).await;
    assert_eq!(heard(&mut again), [EventKind::QueueDepth, EventKind::SystemMetrics]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_duration_is_of_the_attempt_that_just_ended() {
    let broker = start();
    let mut events = broker.listen(task_events(), None).unwrap();
    running(&broker, named("a"), one("w")).await;
    pass(50).await;
    broker.cancel(&id("a")).await.unwrap();
    broker.retry(&id("a")).await.unwrap();
    broker.cancel(&id("a")).await.unwrap();
    let told = all(&mut events);
    let told: Vec<_> = told.iter().map(|it| (it.kind, it.task().unwrap().duration_ms.is_some())).collect();
    use EventKind::{Cancelled, Retrying, Started, Submitted};
    let expected =
        [(Submitted, false), (Started, false), (Cancelled, true), (Retrying, false), (Cancelled, false)];
    assert_eq!(told, expected);
    broker.stop().await;
}
