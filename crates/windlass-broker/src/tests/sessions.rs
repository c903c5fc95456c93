use windlass_core::StateName;

use super::*;
use crate::{Finish, ListWorkers, Notice, Session, Verdict};

fn pending(record: &Record) -> bool {
    record.state == State::Pending
}

/// Submits a task and has it pushed through a session, with a lease of ten minutes.
async fn pushed(broker: &Broker, session: &Session) -> Task {
    let id = broker.submit(echo()).await.unwrap().task.record.id;
    let task =
        session.claim(ClaimRequest { lease_ms: Some(600_000), ..one("w") }).await.unwrap().pop().unwrap();
    assert_eq!(task.record.id, id);
    task
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_gives_the_tasks_back_after_its_grace() {
    let broker = start();
    let mut events = broker.subscribe();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let task = pushed(&broker, &session).await;
    assert_eq!(
        (session.held(), broker.workers(ListWorkers::default()).await.workers[0].running.len()),
        (1, 1)
    );
    drop(session);
    let waited = until(&broker, &task.record.id, pending).await;
    assert!((500..520).contains(&waited.as_millis()), "{waited:?}");
    let error = broker.get(&task.record.id).await.unwrap().record.error;
    assert!(error.unwrap().contains("connection broke"));
    assert!(heard(&mut events).contains(&EventKind::WorkerLeft));
    refused(broker.complete(&task.record.id, token(&task), None).await, "lease_lost");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_returns_keeps_what_it_names_and_nothing_else() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let (kept, unseen) = (pushed(&broker, &session).await, pushed(&broker, &session).await);
    drop(session);
    pass(300).await;
    let (session, _notices, pulse) = broker.connect(beat("w", 1, &[&kept])).await.unwrap();
    assert_eq!(pulse.extended, std::slice::from_ref(&kept.record.id));
    until(&broker, &unseen.record.id, pending).await;
    pass(2000).await;
    let report = Finish {
        id: kept.record.id.clone(),
        token: token(&kept),
        verdict: Verdict::Completed { result: None },
    };
    assert!(session.finish(vec![report]).await.unwrap()[0].is_ok());
    assert_eq!(session.held(), 0);
    let again = session.claim(one("w")).await.unwrap();
    assert_eq!(again[0].record.id, unseen.record.id);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_returns_too_late_is_told_what_it_lost() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let task = pushed(&broker, &session).await;
    drop(session);
    until(&broker, &task.record.id, pending).await;
    let (session, _notices, pulse) = broker.connect(beat("w", 1, &[&task])).await.unwrap();
    assert_eq!((pulse.lost, session.held()), (vec![task.record.id], 0));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_is_not_held_any_more() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let id = broker.submit(echo()).await.unwrap().task.record.id;
    let short = ClaimRequest { lease_ms: Some(1000), ..one("w") };
    assert_eq!(session.claim(short).await.unwrap().len(), 1);
    assert_eq!(session.held(), 1);
    until(&broker, &id, |record| record.crashes == 1).await;
    pass(10).await;
    assert_eq!(session.held(), 0);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_leases_of_a_task_the_newer_counts() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let old = pushed(&broker, &session).await;
    session.give_back(std::slice::from_ref(&old)).await.unwrap();
    let new = session.claim(one("w")).await.unwrap().pop().unwrap();
    assert_eq!(new.record.id, old.record.id);
    for named in [[&old, &new], [&new, &old]] {
        let (session, _notices, _) = broker.connect(beat("w", 1, &named)).await.unwrap();
        assert_eq!(session.held(), 1);
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_process_of_the_name_does_not_inherit_the_tasks() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let task = pushed(&broker, &session).await;
    drop(session);
    pass(10).await;
    // Started again by its supervisor, within the grace.
    let (_session, _notices, _) = broker.connect(beat("w", 2, &[])).await.unwrap();
    let waited = until(&broker, &task.record.id, pending).await;
    assert!(waited.as_millis() < 520, "{waited:?}");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_gives_its_tasks_back_at_once() {
    let broker = start();
    let (session, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let task = pushed(&broker, &session).await;
    session.leave().await.unwrap();
    let waited = until(&broker, &task.record.id, pending).await;
    assert!(waited.as_millis() < 10, "{waited:?}");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_connected_worker_is_told_what_concerns_it() {
    let broker = start();
    let (session, mut notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let (mine, done) = (pushed(&broker, &session).await, pushed(&broker, &session).await);
    let other = running(&broker, echo(), one("other")).await;
    let verdict = Verdict::Completed { result: None };
    let report = Finish { id: done.record.id.clone(), token: token(&done), verdict };
    session.finish(vec![report]).await.unwrap();
    for task in [&other, &mine] {
        broker.cancel(&task.record.id).await.unwrap();
    }
    assert_eq!(notices.next().await, Notice::Cancelled(vec![(mine.record.id.clone(), token(&mine))]));
    assert_eq!(session.held(), 0);
    broker.pause_worker(&name("w")).await.unwrap();
    assert_eq!(notices.next().await, Notice::Paused(true));
    broker.resume_worker(&name("w")).await.unwrap();
    assert_eq!(notices.next().await, Notice::Paused(false));
    broker.drain();
    assert_eq!(notices.next().await, Notice::Draining);
    let (_second, _, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    assert_eq!(notices.next().await, Notice::Replaced);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_session_takes_no_tasks() {
    let broker = start();
    let (old, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    let old = std::sync::Arc::new(old);
    let waiting = tokio::spawn({
        let old = old.clone();
        async move { old.claim(one("w")).await }
    });
    pass(10).await;
    let (new, _notices, _) = broker.connect(beat("w", 1, &[])).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), []);
    let task = pushed(&broker, &new).await;
    // The end of the old session is not the end of the worker.
    drop(old);
    pass(2000).await;
    let state = broker.get(&task.record.id).await.unwrap().record.state_name();
    assert_eq!((state, new.held()), (StateName::Running, 1));
    broker.stop().await;
}
