//! Waiting that counts as priority.

use windlass_core::flow::{Ageing, Limit, Scope};
use windlass_core::{NewTask, Priority, Task};

use super::Harness;
use super::flow::many;
use super::steps::{claim, ids, name, queue};
use crate::store::Claim;

/// A step of priority is worth a second.
fn ageing() -> Limit {
    Limit { ageing: Some(Ageing { every_ms: 1000 }), ..Limit::default() }
}

fn at(h: &Harness, text: &str, priority: u8) -> NewTask {
    NewTask { priority: Priority(priority), ..h.task(text) }
}

fn keyed(h: &Harness, text: &str, priority: u8, key: &str) -> NewTask {
    NewTask { key: Some(name(key)), ..at(h, text, priority) }
}

pub async fn who_has_waited_long_enough_goes_first(h: &mut Harness) {
    h.set(Scope::Queue, "q", ageing()).await;
    h.add(vec![at(h, "low", 50), keyed(h, "low-k", 50, "k")]).await;
    h.clock.advance_ms(49_999);
    h.add(vec![at(h, "high-0", 100), keyed(h, "high-k", 100, "k")]).await;
    h.clock.advance_ms(2);
    h.add(vec![at(h, "high-1", 100)]).await;
    assert_eq!(ids(&h.take(many(2)).await), ["high-0", "high-k"], "they came just in time");
    assert_eq!(ids(&h.take(many(3)).await), ["low", "low-k", "high-1"]);
    h.check().await;
}

/// With every second one of high priority comes and one is served, so one is always there.
pub async fn nobody_starves_in_a_queue_that_ages(h: &mut Harness) {
    h.set(Scope::Queue, "q", ageing()).await;
    let other = |text: &str| NewTask { queue: name("strict"), ..at(h, text, 0) };
    h.add(vec![at(h, "low", 0), other("starving")]).await;
    let mut served = None;
    for tick in 0..60u8 {
        for (of, text) in [("q", "flood"), ("strict", "strict-flood")] {
            h.add(vec![NewTask { queue: name(of), ..at(h, &format!("{text}-{tick}"), 40) }]).await;
            let task = h.take(Claim { queues: vec![queue(of, 1)], ..claim() }).await.remove(0);
            assert_ne!(task.record.id.as_str(), "starving", "without ageing priority is strict");
            if task.record.id.as_str() == "low" {
                served = Some(tick);
            }
            h.complete(&task.record).await;
        }
        if tick == 20 {
            h.reopen().await;
        }
        h.clock.advance_ms(1000);
    }
    assert_eq!(served, Some(41), "after the forty steps that it lacks");
    h.check().await;
}

pub async fn ageing_is_set_and_removed_with_tasks_in_line(h: &mut Harness) {
    let fill = async |h: &Harness, run: usize| {
        for (i, priority) in [10, 60, 110].into_iter().enumerate() {
            let text = |kind: &str| format!("{kind}-{run}-{i}");
            let typed = NewTask { kind: name("u"), ..at(h, &text("typed"), priority) };
            h.add(vec![at(h, &text("plain"), priority), keyed(h, &text("keyed"), priority, "k"), typed])
                .await;
            h.clock.advance_ms(1);
        }
    };
    let order = |tasks: &[Task]| tasks.iter().map(|task| task.record.priority.0).collect::<Vec<_>>();
    fill(h, 0).await;
    h.set(Scope::Queue, "q", Limit { ageing: Some(Ageing { every_ms: 1 }), ..Limit::default() }).await;
    let typed = Claim { types: Some(vec![name("u")]), ..many(9) };
    assert_eq!(order(&h.take(typed.clone()).await), [110, 60, 10], "a step is worth one millisecond");
    // The highest of all comes too late.
    h.clock.advance_ms(1000);
    h.add(vec![at(h, "late", 255)]).await;
    let first = h.take(many(4)).await;
    assert_eq!(order(&first), [110, 110, 60, 60]);
    // What is given back has its place again, and what it had waited.
    h.release(&first[3].record).await;
    assert_eq!(ids(&h.take(many(1)).await), [first[3].record.id.as_str()]);
    assert_eq!(order(&h.take(many(9)).await), [10, 10, 255]);
    fill(h, 1).await;
    h.reopen().await;
    h.check().await;
    h.set(Scope::Queue, "q", ageing()).await;
    h.set(Scope::Queue, "q", None).await;
    assert_eq!(order(&h.take(many(9)).await), [110, 110, 110, 60, 60, 60, 10, 10, 10]);
    h.check().await;
}

/// Long lines at several priorities, so that most of each is beyond the memory of a store that has little.
pub async fn long_lines_of_a_queue_that_ages(h: &mut Harness) {
    for key in [None, Some("k")] {
        long_lines(h, key).await;
        h.set(Scope::Queue, "q", None).await;
    }
    h.check().await;
}

async fn long_lines(h: &mut Harness, key: Option<&str>) {
    const EACH: usize = 40;
    for i in 0..2 * EACH {
        let of = |priority: u8| {
            let text = format!("{}-{priority}-{i}", key.unwrap_or("plain"));
            NewTask { key: key.map(name), ..at(h, &text, priority) }
        };
        h.add([5, 10, 15].map(of).into()).await;
        h.clock.advance_ms(1000);
        if i == EACH {
            h.set(Scope::Queue, "q", ageing()).await;
        }
    }
    let mut served: Vec<u64> = Vec::new();
    for round in 0..6 * EACH {
        let task = h.take_one().await;
        let record = &task.record;
        served.push(record.ready_at + u64::from(u8::MAX - record.priority.0) * 1000);
        if round % 3 == 0 {
            h.complete(record).await;
        }
        if round % 100 == 99 {
            h.reopen().await;
        }
    }
    assert!(h.take(many(1)).await.is_empty());
    assert!(served.is_sorted(), "{served:?}");
}
