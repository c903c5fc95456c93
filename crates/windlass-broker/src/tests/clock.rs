use windlass_core::schedule::{CatchUp, Definition, Overlap, Template, Timing};
use windlass_core::{Body, StateName};

use super::*;
use crate::Failed;

const HOUR: i64 = 3_600_000;

fn after(ms: u64) -> Submit {
    Submit { start: Start::AfterMs(ms), ..echo() }
}

fn pattern(cron: &str) -> Definition {
    let Submit { queue, kind, payload, priority, retry, .. } = echo();
    let links = None;
    let (timeout_ms, max_retries, max_crashes, fingerprint) = (5000, 0, 3, None);
    let metadata = Vec::new();
    let body = Body { payload, metadata, timeout_ms, max_retries, max_crashes, retry, fingerprint, links };
    Definition {
        timing: Timing::parse(cron, "UTC").unwrap(),
        template: Template { queue, kind, priority, retention_ms: 100_000_000, key: None, body },
        overlap: Overlap::Allow,
        catch_up: CatchUp::One,
        window_ms: 3_600_000,
        jitter_ms: 0,
        starts_at: None,
        ends_at: None,
        paused: false,
    }
}

async fn fired(broker: &Broker, schedule: &str) -> usize {
    broker.schedule_fires(&name(schedule), 1000).await.unwrap().len()
}

fn seconds(waited: Duration) -> u64 {
    (waited.as_millis() as u64 + 500) / 1000
}

#[tokio::test(start_paused = true)]
async fn durations_go_on_when_the_clock_is_set() {
    for set in [-HOUR, HOUR] {
        let clock = SimulatedClock::shared();
        let broker = start_on(clock.clone(), Settings::default());
        let fails = running(&broker, echo(), one("w")).await;
        let delayed = broker.submit(after(3000)).await.unwrap().task.record.id;
        let failure = Failed { error: "boom".to_owned(), retryable: true, retry_after_ms: Some(3000) };
        broker.fail(&fails.record.id, token(&fails), failure).await.unwrap();
        clock.set(set);
        let shown = broker.get(&delayed).await.unwrap().record;
        let wall = YEAR_2026.saturating_add_signed(set) + 3000;
        assert_eq!(shown.state, State::Scheduled { at: wall }, "shown on the clock as it is now");
        assert_eq!(shown.scheduled_at, Some(wall));
        let late = broker.submit(after(3000)).await.unwrap().task.record;
        assert_eq!(late.state, State::Scheduled { at: wall });
        let pending = |record: &Record| record.state == State::Pending;
        assert_eq!(seconds(until(&broker, &fails.record.id, pending).await), 3, "set by {set}");
        for id in [&delayed, &late.id] {
            assert_eq!(seconds(until(&broker, id, pending).await), 0);
        }
        broker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_is_noticed_within_half_a_minute() {
    let clock = SimulatedClock::shared();
    let broker = start_on(clock.clone(), Settings::default());
    let at = |ms: u64| Submit { start: Start::At(YEAR_2026 + ms), ..echo() };
    let soon = broker.submit(at(1_800_000)).await.unwrap().task.record.id;
    let expires = Submit { expires_at: Some(YEAR_2026 + 1_800_000), ..echo() };
    let expires = broker.submit(expires).await.unwrap().task.record.id;
    pass(1000).await;
    clock.set(HOUR);
    pass(30_100).await;
    let state = async |id: &TaskId| broker.get(id).await.unwrap().record.state_name();
    assert_eq!((state(&soon).await, state(&expires).await), (StateName::Pending, StateName::Cancelled));
    clock.set(-HOUR);
    let later = broker.submit(at(60_000)).await.unwrap().task.record.id;
    assert_eq!(seconds(until(&broker, &later, |record| record.state == State::Pending).await), 29);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn schedules_that_a_clock_set_back_holds_up_say_so() {
    let clock = SimulatedClock::shared();
    let broker = start_on(clock.clone(), Settings::default());
    broker.create_schedule(name("minutely"), pattern("* * * * *")).await.unwrap();
    broker.create_schedule(name("beat"), pattern("@every 10s")).await.unwrap();
    // Setting the clock back by an hour does not affect this one: none of its slots lies in that hour.
    broker.create_schedule(name("yearly"), pattern("@yearly")).await.unwrap();
    pass(205_000).await;
    assert_eq!((fired(&broker, "minutely").await, fired(&broker, "beat").await), (3, 20));
    let well = broker.health().await.problem;
    clock.set(-HOUR);
    pass(50_000).await;
    assert_eq!((fired(&broker, "minutely").await, fired(&broker, "beat").await), (3, 25));
    let standing = |id: &'static str| {
        let broker = broker.clone();
        async move { broker.schedule(&name(id)).await.unwrap().standing }
    };
    let waits = standing("minutely").await;
    assert_eq!(waits.code, "clock_set_back");
    assert!(waits.text.contains("set back"), "{}", waits.text);
    assert_eq!((standing("beat").await.code, standing("yearly").await.code), ("scheduled", "scheduled"));
    let health = broker.health().await;
    let problem = health.problem.unwrap_or_default();
    assert!(
        health.ok && problem.contains("set back by 1 h 0 m") && problem.contains("1 (minutely)"),
        "{problem}"
    );
    let next = broker.next_slots(&name("minutely"), 1).await.unwrap()[0].slot;
    assert_eq!(Some(next), waits.until, "the first slot that has not fired");
    // The slot fires once when the clock gets there, and so does the slot after it.
    clock.set(HOUR);
    pass(60_000).await;
    assert_eq!(fired(&broker, "minutely").await, 5);
    let mut slots: Vec<u64> = Vec::new();
    for schedule in ["minutely", "beat"] {
        let fires = broker.schedule_fires(&name(schedule), 1000).await.unwrap();
        let mut ids: Vec<String> = fires.iter().map(|fire| fire.fire.task.to_string()).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "no slot fired twice");
        slots.extend(fires.iter().map(|fire| fire.fire.slot));
    }
    assert!(slots.contains(&next));
    assert_eq!((standing("minutely").await.code, broker.health().await.problem), ("scheduled", well));
    broker.stop().await;
}
