//! The stream of a worker.

use tonic::Code;
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::work_response::Message as Told;
use windlass_proto::grpc::v1::{
    CancelTaskRequest, Extension, Extensions, Failed, GetTaskRequest, Hello, NewTask, Outcome, Outcomes,
    Progress, Stop, SubmitBatchRequest, TaskState, new_task, outcome,
};

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{Work, hello, ids, lease, submit, tasks};

async fn state(broker: &BrokerProcess, id: &str) -> TaskState {
    let request = GetTaskRequest { id: id.to_owned(), wait_seconds: 0.0 };
    tasks(broker.grpc_address).await.get_task(request).await.unwrap().into_inner().state()
}

#[tokio::test]
async fn tasks_come_against_credits_and_outcomes_are_acknowledged() {
    let broker = BrokerProcess::start();
    let (mut work, welcome) = Work::begin(broker.grpc_address, hello("w", 1)).await;
    assert_eq!((welcome.lease_seconds, welcome.batch_max), (600.0, 1000));
    submit(broker.grpc_address, &["a", "b", "c", "d"]).await;
    work.grant(2);
    let first = work.take(2).await;
    assert_eq!(ids(&first), ["a", "b"]);
    // No credit is left: what comes next is the ack, although tasks wait.
    let completed = outcome::Verdict::Completed(windlass_proto::grpc::v1::Completed {
        result: Some(windlass_proto::grpc::v1::completed::Result::ResultJson("{}".into())),
    });
    let failed = Failed { error: "no".into(), fatal: true, retry_after_seconds: None };
    let outcomes = vec![
        Outcome { id: "a".into(), lease: first[0].lease.clone(), verdict: Some(completed) },
        Outcome {
            id: "b".into(),
            lease: first[1].lease.clone(),
            verdict: Some(outcome::Verdict::Failed(failed)),
        },
        Outcome {
            id: "a".into(),
            lease: first[1].lease.clone(),
            verdict: Some(outcome::Verdict::Released(Default::default())),
        },
        Outcome { id: "c".into(), lease: "noise".into(), verdict: None },
    ];
    work.say(Said::Outcomes(Outcomes { sequence: 7, outcomes, credits: 0 }));
    let ack = work.ack().await;
    let refused: Vec<_> = ack.refusals.iter().map(|it| (it.index, it.error.clone().unwrap().code)).collect();
    assert_eq!(ack.sequence, 7);
    assert_eq!(refused, [(2, "lease_lost".to_owned()), (3, "malformed".to_owned())]);
    assert_eq!(state(&broker, "a").await, TaskState::Completed);
    assert_eq!(state(&broker, "b").await, TaskState::DeadLetter);
    // The same report again is a repetition, not a mistake.
    work.complete(8, &first[..1]);
    assert_eq!(work.ack().await.refusals, []);
    work.say(Said::Outcomes(Outcomes { sequence: 9, outcomes: Vec::new(), credits: 2 }));
    // Credits count from the moment that they are heard, so tasks may come before the ack.
    let (mut taken, mut acked) = (Vec::new(), None);
    while taken.len() < 2 || acked.is_none() {
        match work.next().await {
            Told::Tasks(tasks) => taken.extend(tasks.tasks),
            Told::Ack(ack) => acked = Some(ack.sequence),
            other => panic!("neither tasks nor an ack but {other:?}"),
        }
    }
    assert_eq!((ids(&taken), acked), (vec!["c", "d"], Some(9)));
}

#[tokio::test]
async fn a_worker_is_told_of_cancels_and_lost_leases_and_can_stop() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut work, _) = Work::begin(address, hello("w", 1)).await;
    submit(address, &["a", "b"]).await;
    work.grant(5);
    let taken = work.take(2).await;
    tasks(address).await.cancel_task(CancelTaskRequest { id: "a".into() }).await.unwrap();
    match work.next().await {
        Told::Cancels(cancels) => assert_eq!(cancels.tasks, [lease(&taken[0])]),
        other => panic!("no cancel but {other:?}"),
    }
    let progress = |fraction| Some(Progress { fraction, note: Some("half".into()) });
    let extension = |task: usize, fraction| Extension {
        id: taken[task].id.clone(),
        lease: taken[task].lease.clone(),
        progress: progress(fraction),
        checkpoint: None,
    };
    let forged = Extension { lease: "1-00000000000000ff".into(), ..extension(1, 0.5) };
    let extensions = vec![extension(0, 0.5), extension(1, 0.5), forged, extension(1, 7.0)];
    work.say(Said::Extensions(Extensions { sequence: 3, extensions, cpu: Some(0.5), memory_bytes: None }));
    let Told::Extended(extended) = work.next().await else { panic!("no answer to the extensions") };
    assert_eq!((extended.sequence, extended.cancel, extended.lost), (3, vec!["a".into()], vec!["b".into()]));
    let refused = extended.refusals[0].clone();
    assert_eq!((refused.index, refused.error.unwrap().field.as_deref()), (3, Some("progress.fraction")));
    let seen = broker.client().get("/api/v1/tasks/b").expect(200);
    assert_eq!(seen["progress"]["note"], "half");

    work.say(Said::Stop(Stop {}));
    assert!(matches!(work.next().await, Told::Stopped(_)));
    submit(address, &["c"]).await;
    work.complete(4, &taken[1..]);
    assert_eq!(work.ack().await.refusals, []);
    work.grant(1);
    assert_eq!(ids(&work.take(1).await), ["c"]);
}

#[tokio::test]
async fn a_worker_that_leaves_gives_back_what_it_holds() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut leaving, _) = Work::begin(address, hello("leaving", 1)).await;
    let (mut other, _) = Work::begin(address, hello("other", 2)).await;
    submit(address, &["a", "b"]).await;
    leaving.grant(2);
    let taken = leaving.take(2).await;
    other.grant(2);
    leaving.complete(1, &taken[..1]);
    leaving.leave();
    assert_eq!(leaving.ack().await.refusals, []);
    assert!(leaving.read().await.unwrap().is_none());
    assert_eq!(ids(&other.take(1).await), ["b"]);
    assert_eq!(state(&broker, "a").await, TaskState::Completed);
}

#[tokio::test]
async fn a_worker_that_comes_back_keeps_its_leases() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut work, _) = Work::begin(address, hello("w", 77)).await;
    submit(address, &["a", "b"]).await;
    work.grant(2);
    let taken = work.take(2).await;
    // The connection is gone, the process is not; its next one is there already, so that it is back at once.
    let mut again = Work::open(address).await;
    drop(work);
    again.say(Said::Hello(Hello { leases: vec![lease(&taken[0])], ..hello("w", 77) }));
    let Told::Welcome(welcome) = again.next().await else { panic!("no welcome") };
    let mut work = again;
    assert_eq!((welcome.kept, welcome.lost), (vec!["a".to_owned()], vec![]));
    // What it does not name never reached it, and comes to whoever asks.
    work.grant(1);
    let back = work.take(1).await;
    assert_eq!((back[0].id.as_str(), back[0].crashes), ("b", 1));
    work.complete(1, &[taken[0].clone(), back[0].clone()]);
    assert_eq!(work.ack().await.refusals, []);
    // A second stream takes the place of the first.
    let (_second, _) = Work::begin(address, hello("w", 77)).await;
    let ended = work.read().await.expect_err("it is over");
    assert_eq!(Refusal::of(&ended).unwrap().code, "replaced");
}

#[tokio::test]
async fn nonsense_ends_the_stream_with_a_code() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let table = [
        (Said::Stop(Stop {}), "malformed", "hello"),
        (Said::Hello(hello("", 1)), "malformed", "worker_id"),
        (Said::Hello(hello("w", 0)), "out_of_range", "incarnation"),
        (Said::Hello(Hello { lease_seconds: Some(0.0), ..hello("w", 1) }), "out_of_range", "lease_seconds"),
    ];
    for (first, code, field) in table {
        let mut work = Work::open(address).await;
        work.say(first);
        let status = work.read().await.expect_err(field);
        let refused = Refusal::of(&status).unwrap();
        assert_eq!((refused.code.as_str(), refused.field.as_deref()), (code, Some(field)));
    }
    let (mut work, _) = Work::begin(address, hello("w", 1)).await;
    work.grant(10_001);
    let refused = Refusal::of(&work.read().await.expect_err("too much")).unwrap();
    assert_eq!((refused.code.as_str(), refused.field.as_deref()), ("out_of_range", Some("credits")));
}

#[tokio::test]
async fn a_stopping_broker_takes_the_last_outcomes() {
    let mut broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut work, _) = Work::begin(address, hello("w", 1)).await;
    let (mut idle, _) = Work::begin(address, hello("idle", 2)).await;
    submit(address, &["a"]).await;
    work.grant(5);
    let taken = work.take(1).await;
    broker.terminate();
    for work in [&mut work, &mut idle] {
        assert!(matches!(work.next().await, Told::Draining(_)));
    }
    let ended = idle.read().await.expect_err("it has nothing to wait for");
    assert_eq!((ended.code(), Refusal::of(&ended).unwrap().code.as_str()), (Code::Unavailable, "stopping"));
    work.complete(1, &taken);
    assert_eq!(work.ack().await.refusals, []);
    assert_eq!(Refusal::of(&work.read().await.expect_err("all is done")).unwrap().code, "stopping");
    assert_eq!(broker.wait(), Some(0));
}

#[tokio::test]
async fn a_worker_that_does_not_read_takes_no_more_than_it_was_sent() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut slow, _) = Work::begin(address, hello("slow", 1)).await;
    slow.grant(10_000);
    submit(address, &["first"]).await;
    assert_eq!(ids(&slow.take(1).await), ["first"]);
    // 20 MB, half of it too much for all the buffers on the way.
    let text = format!("\"{}\"", "x".repeat(512 * 1024));
    let payload = Some(new_task::Payload::PayloadJson(text.into()));
    let large = NewTask { r#type: "t".to_owned(), payload, ..NewTask::default() };
    for _ in 0..2 {
        let batch = SubmitBatchRequest { tasks: vec![large.clone(); 20], atomic: true };
        tasks(address).await.submit_batch(batch).await.unwrap();
    }
    // It reads no more; what it was not given is there for others.
    let (mut other, _) = Work::begin(address, hello("other", 2)).await;
    other.grant(10_000);
    let taken = other.take(15).await;
    other.complete(1, &taken);
    let ack = loop {
        match other.next().await {
            Told::Ack(ack) => break ack,
            Told::Tasks(_) => {}
            other => panic!("neither tasks nor an ack but {other:?}"),
        }
    };
    assert_eq!(ack.refusals, []);
    // And what it was given goes to others when it is gone.
    drop(slow);
    while other.take(1).await[0].crashes == 0 {}
}

#[tokio::test]
async fn of_checkpoints_sent_without_waiting_the_last_one_stays() {
    let broker = BrokerProcess::start();
    let (mut work, _) = Work::begin(broker.grpc_address, hello("w", 1)).await;
    submit(broker.grpc_address, &["a", "b"]).await;
    work.grant(2);
    let held = work.take(2).await;
    let page = |n: u64, task: usize| Extension {
        id: held[task].id.clone(),
        lease: held[task].lease.clone(),
        checkpoint: Some(n.to_string().into()),
        ..Extension::default()
    };
    let last = 200;
    for n in 1..=last {
        // Within a message too, the last one counts.
        let extensions = vec![page(0, 0), page(n, n as usize % 2), page(n, 0)];
        work.say(Said::Extensions(Extensions { sequence: n, extensions, ..Extensions::default() }));
    }
    for _ in 1..=last {
        let Told::Extended(extended) = work.next().await else { panic!("no answer to the extensions") };
        assert_eq!((extended.lost.len(), extended.refusals.len()), (0, 0));
    }
    for (id, kept) in [("a", last), ("b", last - 1)] {
        let request = GetTaskRequest { id: id.to_owned(), wait_seconds: 0.0 };
        let task = tasks(broker.grpc_address).await.get_task(request).await.unwrap().into_inner();
        assert_eq!(task.checkpoint, Some(kept.to_string().into()), "{id}");
    }
}
