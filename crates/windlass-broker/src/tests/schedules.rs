use windlass_core::schedule::{CatchUp, Definition, Overlap, Template, Timing};
use windlass_core::{Body, StateName};
use windlass_store::faults::{Fault, Faulty, Verb};
use windlass_store::{List, ListSchedules};

use super::*;

const MINUTE: u64 = 60_000;

/// A slot at every full minute; the simulated time begins 20 seconds after one.
fn minutely(adjust: impl FnOnce(&mut Definition)) -> Definition {
    let Submit { queue, kind, payload, priority, retry, .. } = echo();
    let mut definition = Definition {
        timing: Timing::parse("* * * * *", "UTC").unwrap(),
        template: Template {
            queue,
            kind,
            priority,
            retention_ms: 100 * MINUTE,
            key: None,
            body: Body {
                payload,
                metadata: Vec::new(),
                timeout_ms: 5000,
                max_retries: 0,
                max_crashes: 3,
                retry,
                fingerprint: None,
                links: None,
            },
        },
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        window_ms: 60 * MINUTE,
        jitter_ms: 0,
        starts_at: None,
        ends_at: None,
        paused: false,
    };
    adjust(&mut definition);
    definition
}

async fn fires(broker: &Broker, schedule: &str) -> Vec<(String, Option<StateName>)> {
    let fires = broker.schedule_fires(&name(schedule), 100).await.unwrap();
    let row = |fire: &crate::FireView| {
        (fire.fire.task.to_string(), fire.task.as_ref().map(|record| record.state_name()))
    };
    fires.iter().rev().map(row).collect()
}

async fn submitted(broker: &Broker) -> usize {
    let all = List { limit: 1000, ..List::default() };
    broker.list(all).await.unwrap().tasks.len()
}

async fn standing(broker: &Broker, schedule: &str) -> (&'static str, String) {
    let standing = broker.schedule(&name(schedule)).await.unwrap().standing;
    (standing.code, standing.text)
}

#[tokio::test(start_paused = true)]
async fn a_schedule_fires_at_its_slots_until_it_is_paused_or_removed() {
    let broker = start();
    pass(10).await;
    let mut events = broker.subscribe();
    broker.create_schedule(name("a"), minutely(|_| {})).await.unwrap();
    assert_eq!(standing(&broker, "a").await, ("scheduled", "Its next slot comes in 40 s.".to_owned()));
    pass(40_100).await;
    assert_eq!(fires(&broker, "a").await, [("a:2026-09-21T14:14:00Z".to_owned(), Some(StateName::Pending))]);
    assert_eq!(heard(&mut events), [EventKind::Submitted]);
    pass(2 * MINUTE + 1000).await;
    assert_eq!(submitted(&broker).await, 3);

    assert!(broker.pause_schedule(&name("a")).await.unwrap().schedule.definition.paused);
    assert_eq!(standing(&broker, "a").await.0, "paused");
    pass(5 * MINUTE).await;
    broker.resume_schedule(&name("a")).await.unwrap();
    pass(MINUTE).await;
    assert_eq!(submitted(&broker).await, 4, "a pause is not caught up with");

    let run = broker.run_schedule(&name("a")).await.unwrap();
    assert!(run.record.id.as_str().starts_with("a:run:"), "{}", run.record.id);
    assert_eq!(fires(&broker, "a").await.len(), 5);

    broker.remove_schedule(&name("a")).await.unwrap();
    pass(5 * MINUTE).await;
    assert_eq!(submitted(&broker).await, 5, "its tasks stay, and no new ones come");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn verbs_refuse_what_makes_no_sense() {
    let broker = start();
    let id = name("a");
    refused(broker.schedule(&id).await, "not_found");
    refused(broker.pause_schedule(&id).await, "not_found");
    refused(broker.run_schedule(&id).await, "not_found");
    refused(broker.remove_schedule(&id).await, "not_found");
    refused(broker.next_slots(&id, 5).await, "not_found");
    let never = minutely(|it| it.timing = Timing::parse("0 0 30 2 *", "UTC").unwrap());
    refused(broker.create_schedule(id.clone(), never).await, "invalid");
    let over = minutely(|it| it.ends_at = Some(YEAR_2026 + 1));
    refused(broker.create_schedule(id.clone(), over).await, "invalid");
    broker.create_schedule(id.clone(), minutely(|_| {})).await.unwrap();
    refused(broker.create_schedule(id.clone(), minutely(|_| {})).await, "schedule_exists");
    let (view, new) = broker.put_schedule(id.clone(), minutely(|it| it.jitter_ms = 7)).await.unwrap();
    assert!(!new && view.schedule.definition.jitter_ms == 7);
    let (_, new) = broker.put_schedule(name("b"), minutely(|_| {})).await.unwrap();
    assert!(new);
    assert_eq!(broker.schedules(ListSchedules { after: None, limit: 10 }).await.unwrap().len(), 2);
    assert_eq!(broker.next_slots(&id, 100_000).await.unwrap().len(), 100, "a preview is bounded");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queued_slot_fires_when_the_last_fire_ends() {
    let broker = start();
    broker.create_schedule(name("a"), minutely(|it| it.overlap = Overlap::QueueOne)).await.unwrap();
    pass(3 * MINUTE).await;
    assert_eq!(fires(&broker, "a").await.len(), 1);
    assert_eq!(standing(&broker, "a").await.0, "queued");
    let task = broker.claim(one("w")).await.unwrap().pop().unwrap();
    let began = Instant::now();
    broker.complete(&task.record.id, token(&task), None).await.unwrap();
    until(&broker, &id("a:2026-09-21T14:15:00Z"), |record| record.state == State::Pending).await;
    assert!(began.elapsed() < Duration::from_millis(100), "told, not found out: {:?}", began.elapsed());
    let view = broker.schedule(&name("a")).await.unwrap().schedule;
    assert_eq!((view.progress.skipped, view.progress.queued), (1, None));
    broker.stop().await;
}

/// The end comes while no broker is there, so nobody is told of it.
#[tokio::test(start_paused = true)]
async fn a_queued_slot_survives_a_restart() {
    let broker = start();
    broker.create_schedule(name("a"), minutely(|it| it.overlap = Overlap::QueueOne)).await.unwrap();
    pass(2 * MINUTE).await;
    assert_eq!(standing(&broker, "a").await.0, "queued");
    broker.stop().await;
    let first = fires(&broker, "a").await[0].0.clone();
    broker.cancel(&id(&first)).await.unwrap();
    let next = Broker::start(broker.store().clone(), broker.inner.clock.clone(), Settings::default());
    until(&next, &id("a:2026-09-21T14:15:00Z"), |record| record.state == State::Pending).await;
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_fire_is_skipped_or_cancelled_as_asked() {
    let broker = start();
    broker.create_schedule(name("skip"), minutely(|it| it.overlap = Overlap::Skip)).await.unwrap();
    let cancels = minutely(|it| it.overlap = Overlap::CancelRunning);
    broker.create_schedule(name("cancel"), cancels).await.unwrap();
    pass(3 * MINUTE).await;
    assert_eq!(fires(&broker, "skip").await.len(), 1);
    let states: Vec<_> =
        fires(&broker, "cancel").await.into_iter().map(|(_, state)| state.unwrap()).collect();
    use StateName::{Cancelled, Pending};
    assert_eq!(states, [Cancelled, Cancelled, Pending]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_came_while_nobody_was_there_is_caught_up_with() {
    let broker = start();
    broker.create_schedule(name("all"), minutely(|_| {})).await.unwrap();
    broker.create_schedule(name("one"), minutely(|it| it.catch_up = CatchUp::One)).await.unwrap();
    pass(MINUTE).await;
    broker.stop().await;
    tokio::time::advance(Duration::from_secs(200 * 60)).await;
    let next = Broker::start(broker.store().clone(), broker.inner.clock.clone(), Settings::default());
    pass(100).await;
    assert_eq!(next.schedule(&name("all")).await.unwrap().schedule.progress.fired, 1 + 60, "the last hour");
    assert_eq!(next.schedule(&name("one")).await.unwrap().schedule.progress.fired, 2);
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_schedules_fire_in_the_same_second() {
    let broker = start();
    for i in 0..200 {
        broker.create_schedule(name(&format!("s{i}")), minutely(|_| {})).await.unwrap();
    }
    pass(2 * MINUTE).await;
    assert_eq!(submitted(&broker).await, 400);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fire_whose_answer_was_lost_or_refused_is_not_made_twice() {
    let clock = SimulatedClock::shared();
    let store = Faulty::new(MemoryStore::new(clock.clone()));
    let broker = Broker::start(store.clone(), clock, Settings::default());
    broker.create_schedule(name("a"), minutely(|_| {})).await.unwrap();
    for fault in [Fault::LoseAnswer, Fault::Refuse, Fault::LoseAnswer] {
        store.once(Verb::WriteSchedule, fault);
        pass(MINUTE).await;
    }
    pass(MINUTE / 2).await;
    assert_eq!(store.fired(), 3);
    assert_eq!(fires(&broker, "a").await.len(), 3);
    assert_eq!(submitted(&broker).await, 3);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_cannot_fire_says_so_and_holds_up_nobody() {
    let clock = SimulatedClock::shared();
    let store = Faulty::new(MemoryStore::new(clock.clone()));
    let broker = Broker::start(store.clone(), clock, Settings::default());
    let well = broker.health().await.problem;
    broker.create_schedule(name("stuck"), minutely(|_| {})).await.unwrap();
    let refuse = windlass_store::faults::Schedule {
        seed: 1,
        one_in: 1,
        verbs: vec![Verb::WriteSchedule],
        faults: vec![Fault::TooManyLanes],
    };
    store.begin(refuse);
    pass(MINUTE).await;
    let (code, text) = standing(&broker, "stuck").await;
    assert_eq!(code, "cannot_fire");
    assert!(text.contains("too many different pairs"), "{text}");
    let health = broker.health().await;
    let problem = health.problem.unwrap_or_default();
    assert!(health.ok && problem.contains("cannot fire: 1 (stuck)"), "{problem}");
    assert!(health.loops.iter().all(|it| it.failures == 0), "the others fire");
    // It fires as soon as it can, and nothing is said any more.
    store.calm();
    pass(2000).await;
    assert_eq!(fires(&broker, "stuck").await.len(), 1);
    assert_eq!(standing(&broker, "stuck").await.0, "scheduled");
    assert_eq!(broker.health().await.problem, well);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_could_not_fire_is_forgotten_with_its_definition() {
    let clock = SimulatedClock::shared();
    let store = Faulty::new(MemoryStore::new(clock.clone()));
    let broker = Broker::start(store.clone(), clock, Settings::default());
    for id in ["paused", "removed"] {
        broker.create_schedule(name(id), minutely(|_| {})).await.unwrap();
    }
    for _ in 0..2 {
        store.once(Verb::WriteSchedule, Fault::TooLarge);
    }
    pass(MINUTE - 19_000).await;
    assert!(broker.health().await.problem.unwrap_or_default().contains("cannot fire: 2"));
    broker.pause_schedule(&name("paused")).await.unwrap();
    broker.remove_schedule(&name("removed")).await.unwrap();
    assert_eq!(standing(&broker, "paused").await.0, "paused");
    assert_eq!(broker.health().await.problem, None);
    broker.stop().await;
}
