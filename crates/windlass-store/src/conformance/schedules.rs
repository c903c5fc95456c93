//! Schedules: written under their revision, fired together with their tasks.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::TaskId;
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::schedule::{CatchUp, Definition, Overlap, Schedule, Template, Tick, Timing};

use super::Harness;
use super::steps::{claim, id, ids, name};
use crate::store::{Claim, Inserted, ListSchedules, ScheduleChange, ScheduleWritten, Store, WriteSchedule};

const MINUTE: u64 = 60_000;

impl Harness {
    /// A schedule with a slot every minute, counted from now.
    fn every_minute(&self, text: &str) -> Schedule {
        let task = self.task(text);
        let definition = Definition {
            timing: Timing::parse("@every 1m", "Europe/Berlin").expect("a valid pattern"),
            template: Template {
                queue: task.queue,
                kind: task.kind,
                priority: task.priority,
                retention_ms: task.retention_ms,
                key: task.key,
                body: task.body,
            },
            overlap: Overlap::QueueOne,
            catch_up: CatchUp::All,
            window_ms: 10 * MINUTE,
            jitter_ms: 0,
            starts_at: Some(self.wall()),
            ends_at: None,
            paused: false,
        };
        Schedule::new(name(text), definition, self.now())
    }

    async fn write(&self, text: &str, change: ScheduleChange) -> ScheduleWritten {
        self.store.write_schedule(WriteSchedule { id: name(text), change }).await.expect("write_schedule")
    }

    async fn put(&self, schedule: &Schedule, seen: Option<u64>) -> ScheduleWritten {
        let change = ScheduleChange::Put { schedule: Box::new(schedule.clone()), seen };
        self.write(schedule.id.as_str(), change).await
    }

    async fn put_new(&self, text: &str) -> Schedule {
        let schedule = self.every_minute(text);
        assert_eq!(self.put(&schedule, None).await, done());
        schedule
    }

    async fn schedule(&self, text: &str) -> Option<Schedule> {
        self.store.schedule(&name(text)).await.expect("schedule")
    }

    /// What the schedule has to do now.
    async fn tick(&self, text: &str, live: bool) -> Tick {
        let schedule = self.schedule(text).await.expect("it is there");
        schedule.tick(self.now(), live).expect("there is something to do")
    }

    async fn fire(&self, text: &str, tick: Tick) -> ScheduleWritten {
        self.write(text, fire(tick)).await
    }

    /// Ids of the schedules that are due, and when the next one is.
    async fn due_now(&self, limit: usize) -> (Vec<String>, Option<u64>) {
        let due = self.store.due_schedules(limit).await.expect("due_schedules");
        (due.schedules.iter().map(|it| it.id.to_string()).collect(), due.next)
    }
}

fn fire(tick: Tick) -> ScheduleChange {
    ScheduleChange::Fire { advance: tick.advance, tasks: tick.tasks }
}

fn done() -> ScheduleWritten {
    ScheduleWritten::Done(Vec::new())
}

fn added(written: &ScheduleWritten) -> Vec<TaskId> {
    let ScheduleWritten::Done(inserted) = written else { panic!("not done: {written:?}") };
    let new = |answer: &Inserted| match answer {
        Inserted::New(record) => Some(record.id.clone()),
        _ => None,
    };
    inserted.iter().filter_map(new).collect()
}

pub async fn a_schedule_is_written_under_its_revision(h: &mut Harness) {
    assert_eq!(h.schedule("a").await, None);
    let first = h.put_new("a").await;
    assert_eq!(h.schedule("a").await.as_ref(), Some(&first));
    assert_eq!(h.put(&first, None).await, ScheduleWritten::Conflict, "it is there already");
    let second = first.redefined(Definition { jitter_ms: 5, ..first.definition.clone() }, h.wall() + 1);
    assert_eq!(h.put(&second, Some(first.revision)).await, done());
    assert_eq!(h.put(&second, Some(first.revision)).await, ScheduleWritten::Conflict);
    assert_eq!(h.schedule("a").await.as_ref(), Some(&second));
    let remove = |seen| h.write("a", ScheduleChange::Remove { seen });
    assert_eq!(remove(first.revision).await, ScheduleWritten::Conflict);
    assert_eq!(remove(second.revision).await, done());
    assert_eq!(remove(second.revision).await, ScheduleWritten::Missing);
    assert_eq!(h.put(&second, Some(first.revision)).await, ScheduleWritten::Missing);
    assert_eq!(h.schedule("a").await, None);
    assert_eq!(h.due_now(9).await, (vec![], None), "nothing of it is left");
}

pub async fn a_fire_adds_its_tasks_and_advances(h: &mut Harness) {
    let before = h.put_new("nightly").await;
    h.clock.advance_ms(MINUTE);
    let tick = h.tick("nightly", false).await;
    let mut expected = before.clone();
    expected.advance(&tick.advance);
    let written = h.fire("nightly", tick.clone()).await;
    assert_eq!(added(&written), [tick.tasks[0].id.clone()]);
    assert_eq!(h.schedule("nightly").await, Some(expected));
    let task = h.store.get(&tick.tasks[0].id).await.expect("get").expect("it was added");
    assert_eq!(task.body, tick.tasks[0].body);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
    // Another slot while the first is live waits its turn, and adds nothing.
    h.clock.advance_ms(MINUTE);
    let waiting = h.tick("nightly", true).await;
    assert_eq!(h.fire("nightly", waiting).await, done());
    assert!(h.schedule("nightly").await.expect("it is there").progress.queued.is_some());
}

pub async fn a_slot_is_stored_once(h: &mut Harness) {
    h.put_new("a").await;
    h.clock.advance_ms(MINUTE);
    let tick = h.tick("a", false).await;
    assert_eq!(added(&h.fire("a", tick.clone()).await).len(), 1);
    assert_eq!(h.fire("a", tick.clone()).await, ScheduleWritten::Conflict, "by the revision");
    // Even a wrong decision about the slot cannot make a second task of it.
    let mut forged = tick;
    forged.advance.revision += 1;
    let written = h.fire("a", forged).await;
    assert!(
        matches!(&written, ScheduleWritten::Done(inserted) if matches!(inserted[..], [Inserted::Same(_)]))
    );
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
    let missing = h.every_minute("b");
    h.clock.advance_ms(MINUTE);
    let tick = missing.tick(h.wall(), false).expect("it is due");
    assert_eq!(h.fire("b", tick).await, ScheduleWritten::Missing);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1, "refused whole");
}

pub async fn one_of_many_racing_fires_wins(h: &mut Harness) {
    h.put_new("a").await;
    h.clock.advance_ms(3 * MINUTE);
    let tick = h.tick("a", false).await;
    let racers: Vec<_> = (0..32)
        .map(|_| {
            let store: Arc<dyn Store> = Arc::clone(&h.store);
            let write = WriteSchedule { id: name("a"), change: fire(tick.clone()) };
            tokio::spawn(async move { store.write_schedule(write).await })
        })
        .collect();
    let mut won = 0;
    for racer in racers {
        match racer.await.expect("no panic").expect("write_schedule") {
            ScheduleWritten::Done(_) => won += 1,
            answer => assert_eq!(answer, ScheduleWritten::Conflict),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, tick.tasks.len() as u64);
}

pub async fn a_fire_serves_who_waits(h: &mut Harness) {
    h.put_new("a").await;
    h.clock.advance_ms(MINUTE);
    let tick = h.tick("a", false).await;
    let store = Arc::clone(&h.store);
    let waiting = tokio::spawn(async move { store.claim(Claim { wait_ms: 30_000, ..claim() }).await });
    let expected = tick.tasks[0].id.to_string();
    h.fire("a", tick).await;
    let served = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(ids(&served.expect("in time").expect("no panic").expect("claim")), [expected]);
}

pub async fn due_schedules_come_earliest_first(h: &mut Harness) {
    let start = h.wall();
    h.put_new("b").await;
    h.clock.advance_ms(1000);
    h.put_new("a").await;
    let paused = h.every_minute("paused");
    let paused = paused.redefined(Definition { paused: true, ..paused.definition.clone() }, h.wall());
    h.put(&paused, None).await;
    // The first slot of "a" is its start.
    assert_eq!(h.due_now(9).await, (vec![], Some(start + MINUTE)));
    h.clock.advance_ms(MINUTE);
    assert_eq!(h.due_now(9).await, (vec!["b".into(), "a".into()], None));
    assert_eq!(h.due_now(1).await, (vec!["b".into()], Some(start + 1000 + MINUTE)));
    let tick = h.tick("b", false).await;
    h.fire("b", tick).await;
    assert_eq!(h.due_now(9).await, (vec!["a".into()], Some(start + 2 * MINUTE)));
}

pub async fn a_nearer_slot_is_signalled(h: &mut Harness) {
    let signals = h.store.signals();
    let heard = async || {
        let signal = tokio::time::timeout(Duration::from_secs(30), signals.schedules.notified());
        signal.await.expect("a nearer slot was not signalled");
    };
    h.clock.advance_ms(MINUTE);
    h.put_new("far").await;
    heard().await;
    let mut near = h.every_minute("near");
    near.progress.wake_at = Some(h.wall() + 1);
    h.put(&near, None).await;
    heard().await;
}

pub async fn schedules_are_listed_in_order_of_id(h: &mut Harness) {
    let texts: Vec<String> = (0..7).map(|i| format!("s{i}")).collect();
    for text in texts.iter().rev() {
        h.put_new(text).await;
    }
    let page = async |after: Option<&str>, limit| {
        let list = ListSchedules { after: after.map(name), limit };
        let schedules = h.store.schedules(list).await.expect("schedules");
        schedules.iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, PAGE_ROWS_MAX).await, texts);
    assert_eq!(page(None, 3).await, texts[..3]);
    assert_eq!(page(Some("s2"), 3).await, texts[3..6]);
    assert_eq!(page(Some("s2zz"), 3).await, texts[3..6], "the one named need not be there");
    assert_eq!(page(Some("s6"), 3).await, Vec::<String>::new());
}

pub async fn schedules_outlive_a_reopen(h: &mut Harness) {
    for text in ["fires", "stays", "goes"] {
        h.put_new(text).await;
    }
    h.clock.advance_ms(5 * MINUTE);
    for round in 0..3 {
        let tick = h.tick("fires", false).await;
        h.fire("fires", tick).await;
        let before = h.store.schedules(ListSchedules { after: None, limit: 10 }).await.expect("schedules");
        let due = h.due_now(9).await;
        if !h.reopen().await {
            return;
        }
        let after = h.store.schedules(ListSchedules { after: None, limit: 10 }).await.expect("schedules");
        assert_eq!(after, before, "round {round}");
        assert_eq!(h.due_now(9).await, due);
        h.clock.advance_ms(MINUTE);
        if round == 1 {
            let seen = h.schedule("goes").await.expect("it is there").revision;
            assert_eq!(h.write("goes", ScheduleChange::Remove { seen }).await, done());
        }
    }
    assert_eq!(h.schedule("goes").await, None);
    let fired = h.schedule("fires").await.expect("it is there");
    for fire in &fired.fires {
        assert!(h.store.peek(&id(fire.task.as_str())).await.expect("peek").is_some());
    }
    assert!(fired.fires.len() >= 3);
}

pub async fn slots_come_up_on_the_clock_of_their_pattern(h: &mut Harness) {
    const HOUR: i64 = 3_600_000;
    let cron = |text: &str| {
        let mut definition = h.every_minute(text).definition;
        definition.timing = Timing::parse("* * * * *", "UTC").expect("a valid pattern");
        definition.starts_at = None;
        Schedule::new(name(text), definition, h.now())
    };
    let (steady, named) = (h.every_minute("steady"), cron("named"));
    for schedule in [&steady, &named] {
        assert_eq!(h.put(schedule, None).await, done());
    }
    let due = async || -> Vec<String> {
        let due = h.store.due_schedules(9).await.expect("due schedules").schedules;
        due.into_iter().map(|schedule| schedule.id.to_string()).collect()
    };
    h.clock.jump_wall_ms(-HOUR);
    h.clock.advance_ms(MINUTE);
    assert_eq!(due().await, ["steady"], "a beat counts, a time of day is an hour away");
    let tick = h.tick("steady", false).await;
    assert!(matches!(h.fire("steady", tick).await, ScheduleWritten::Done(_)));
    assert!(due().await.is_empty());
    h.clock.jump_wall_ms(2 * HOUR);
    assert_eq!(due().await, ["named"]);
    h.clock.advance_ms(MINUTE);
    assert_eq!(due().await.len(), 2);
    let seen = h.schedule("steady").await.expect("it is there");
    let changed = seen.redefined(cron("other").definition, h.now());
    assert_eq!(h.put(&changed, Some(seen.revision)).await, done());
    assert_eq!(due().await, ["named"], "it left the line of the beats");
}
