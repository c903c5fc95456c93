//! Tasks to add, some of them in the way of each other.

use bytes::Bytes;
use windlass_core::{
    Body, Counted, NewTask, OnConflict, Payload, Priority, Stamp, Task, TaskId, Unique, UniqueKey, retry,
};
use windlass_store::{Clock, Insert, Inserted};

use super::both::same;
use super::commands::{KEYS, Pair, TYPES};

impl Pair {
    pub(super) async fn insert(&mut self) {
        let tasks: Vec<NewTask> = (0..=self.draw(6)).map(|_| self.new_task()).collect();
        let atomic = self.one_in(3);
        let max_depth = self.one_in(4).then(|| 5 + self.draw(20));
        let insert = || Insert { tasks: tasks.clone().into(), atomic, max_depth };
        self.forget_expired().await;
        let Some(told) = self.insert_far(insert()).await else { return };
        let answers = self.a.insert(insert()).await.expect("insert");
        if self.is_refused_whole(atomic, &answers, &told) {
            return;
        }
        same("insert", &answers, &told);
        for (answer, new) in answers.into_iter().zip(tasks) {
            match answer {
                Inserted::New(record) => self.remember(Task { record, body: new.body }),
                Inserted::Replaced { new: record, .. } => {
                    self.replaced += 1;
                    self.remember(Task { record: *record, body: new.body });
                }
                Inserted::Same(task) => self.remember(*task),
                Inserted::Live(task) => {
                    self.met += 1;
                    self.remember(*task);
                }
                Inserted::KeyHeld(_) => self.met += 1,
                _ => {}
            }
        }
    }

    /// The present moment on both time lines.
    pub(super) fn now(&self) -> Stamp {
        self.clock.now().stamp()
    }

    /// The moment at which a task that is added now was made.
    pub(super) fn birth(&mut self) -> Stamp {
        let now = self.now();
        self.born = self.born.max(now.wall);
        Stamp { wall: self.born, ahead: now.elapsed() as i64 - self.born as i64 }
    }

    /// A new task, or now and then one whose id is taken, with the same content or other.
    pub(super) fn new_task(&mut self) -> NewTask {
        let number = if self.one_in(6) { self.draw(self.tasks + 1) } else { self.tasks };
        let fresh = number == self.tasks;
        self.tasks += u64::from(fresh);
        let content = if self.one_in(20) { 0 } else { number as u8 };
        let Stamp { wall: now, ahead } = self.birth();
        NewTask {
            id: TaskId::new(&format!("task-{number}")).expect("a valid id"),
            queue: self.any(self.queues_for(number)),
            kind: self.any(&TYPES),
            priority: Priority(self.draw(4) as u8 * 80),
            created_at: now,
            scheduled_at: self.one_in(4).then(|| now + self.draw(2000)),
            expires_at: self.one_in(5).then(|| now + self.draw(3000)),
            retention_ms: self.draw(4000),
            counted: Counted { ahead, delayed: self.one_in(2) },
            unique: self.one_in(3).then(|| self.unique()),
            key: (self.flow && self.one_in(2)).then(|| self.any(&KEYS)),
            body: Body {
                payload: Payload::Binary(Bytes::from(vec![content; number as usize % 64])),
                metadata: vec![("number".into(), number.to_string())],
                timeout_ms: 1000,
                max_retries: self.draw(4) as u32,
                max_crashes: self.draw(4) as u32,
                retry: retry::Policy::default(),
                // An id that the server made was never submitted before.
                fingerprint: (!fresh || !self.one_in(8)).then_some([content; 16]),
                links: self.links(number),
            },
        }
    }

    /// One of a few keys, so that they meet.
    fn unique(&mut self) -> Box<Unique> {
        Box::new(Unique {
            key: UniqueKey::new(&format!("key {}", self.draw(5))).expect("a valid key"),
            for_ms: self.one_in(3).then(|| self.draw(1500)),
            on_conflict: OnConflict::ALL[self.draw(3) as usize],
        })
    }
}
