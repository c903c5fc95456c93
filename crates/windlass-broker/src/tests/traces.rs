use windlass_core::trace::{Origin, attempt_span};

use super::*;
use crate::{Ended, Failed, Tracer, What};

fn traced(capacity: usize) -> (Broker, Arc<Tracer>, tokio::sync::mpsc::Receiver<crate::Fact>) {
    let (tracer, facts) = Tracer::new(capacity);
    (start_with(Settings { tracer: Some(tracer.clone()), ..Settings::default() }), tracer, facts)
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_who_makes_spans() {
    let (broker, tracer, mut facts) = traced(2);
    for _ in 0..5 {
        broker.submit(echo()).await.unwrap();
    }
    assert_eq!(tracer.dropped(), 3, "what does not fit is counted");
    for _ in 0..2 {
        assert!(matches!(facts.recv().await.unwrap().what, What::Submitted));
    }
    drop(facts);
    broker.submit(echo()).await.unwrap();
    assert_eq!(tracer.dropped(), 4);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn facts_name_each_attempt_and_the_one_before() {
    let (broker, _tracer, mut facts) = traced(100);
    let first = running(&broker, named("t"), one("w")).await;
    let report = Failed { error: "no".to_owned(), retryable: true, retry_after_ms: Some(5) };
    broker.fail(&first.record.id, token(&first), report).await.unwrap();
    // sleep: the simulated clock moves on to the retry.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = broker.claim(one("w")).await.unwrap().pop().unwrap();
    broker.complete(&second.record.id, token(&second), None).await.unwrap();
    let mut next = async || facts.recv().await.unwrap().what;
    assert!(matches!(next().await, What::Submitted));
    let What::Started { run: run_1, before: None, .. } = next().await else { panic!("no start") };
    let What::Ended { attempt, before: None } = next().await else { panic!("no end") };
    assert_eq!((run_1.number, run_1.started_at), (1, attempt.started_at));
    assert!(matches!(next().await, What::Ready));
    let ended = Some(Ended { run: run_1, at: attempt.ended_at });
    let What::Started { run: run_2, before, .. } = next().await else { panic!("no start") };
    assert_eq!((run_2.number, before), (2, ended));
    let What::Ended { before, .. } = next().await else { panic!("no end") };
    assert_eq!(before, ended);
    // The worker is told of the span that its attempt will have.
    let id = &second.record.id;
    let told = Origin::of(id, &second.body.metadata);
    assert_eq!(told.parent, Some(attempt_span(id, run_2)));
    assert_eq!(told.trace, Origin::of(id, &[]).trace);
    assert!(broker.get(id).await.unwrap().body.metadata.is_empty(), "what is stored stays as it was");
    broker.stop().await;
}
