//! What is counted and recorded.

use windlass_core::StateName;
use windlass_store::clock::ManualClock;

use super::*;
use crate::{RangeRequest, Recording, Series};

#[tokio::test(start_paused = true)]
async fn a_task_that_a_claim_finds_expired_is_counted_told_and_waited_for() {
    // The loops sleep by the clock of the runtime, which stands still: the claim is the first to see it.
    let clock = ManualClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock.clone(), Settings::default());
    let mut events = broker.subscribe();
    let expires_at = Some(clock.now().wall + 10);
    for text in ["a", "b"] {
        broker.submit(Submit { expires_at, ..named(text) }).await.unwrap();
    }
    let waiting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.wait(&id("b"), 60_000).await.unwrap().record.state_name() }
    });
    tokio::task::yield_now().await;
    clock.advance_ms(10);
    assert!(broker.claim(one("w")).await.unwrap().is_empty());
    assert_eq!(waiting.await.unwrap(), StateName::Cancelled);
    let metrics = broker.metrics();
    assert_eq!((metrics.types[0].1.submitted[2], metrics.types[0].1.cancelled), (2, 2));
    let told = heard(&mut events);
    assert_eq!(told.iter().filter(|kind| **kind == EventKind::Cancelled).count(), 2, "{told:?}");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn types_beyond_the_limit_are_counted_together() {
    let broker = start();
    for i in 0..limits::METRICS_NAMES_MAX + 5 {
        broker.submit(Submit { kind: name(&format!("type-{i}")), ..echo() }).await.unwrap();
    }
    let metrics = broker.metrics();
    assert_eq!(metrics.types.len(), limits::METRICS_NAMES_MAX + 1);
    let other = metrics.types.iter().find(|(kind, _)| kind.as_str() == crate::OTHER).unwrap();
    assert_eq!(other.1.submitted, [0, 0, 5, 0]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_records_itself_once_a_second() {
    let broker = start_with(Settings { recording: Recording::InMemory, ..Settings::default() });
    let request =
        RangeRequest { series: vec![Series::Submitted, Series::Pending], ..RangeRequest::default() };
    for _ in 0..30 {
        broker.submit(echo()).await.unwrap();
        broker.submit(echo()).await.unwrap();
        pass(1000).await;
    }
    let range = broker.range(&request).await.unwrap();
    let there: Vec<f32> = range.series[0].1.iter().copied().filter(|figure| !figure.is_nan()).collect();
    assert!((55.0..=60.5).contains(&there.iter().sum::<f32>()), "{there:?}");
    let last = range.series[1].1.last().copied();
    assert!(last.is_some_and(|pending| (56.0..=60.0).contains(&pending)), "{range:?}");
    let missing =
        RangeRequest { queue: Some(name("nowhere")), series: vec![Series::Pending], ..request.clone() };
    refused(broker.range(&missing).await, "not_found");
    let of_queue = RangeRequest { queue: Some(name("default")), ..request };
    let range = broker.range(&of_queue).await.unwrap();
    let there: Vec<f32> = range.series[0].1.iter().copied().filter(|figure| !figure.is_nan()).collect();
    assert!((55.0..=60.5).contains(&there.iter().sum::<f32>()), "{there:?}");
    broker.stop().await;
}
