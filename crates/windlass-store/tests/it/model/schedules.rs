//! Schedules among the commands.

use windlass_core::schedule::{CatchUp, Definition, Overlap, Schedule, Template, Timing};
use windlass_core::{Body, Name};
use windlass_store::{Inserted, ListSchedules, ScheduleChange, ScheduleWritten, WriteSchedule};

use super::both::both;
use super::commands::{Pair, QUEUES, name};

const SCHEDULES: [&str; 4] = ["s0", "s1", "s2", "s3"];
const PATTERNS: [&str; 4] = ["@every 1s", "*/3 * * * * *", "@every 1500ms", "0 3 * * *"];

impl Pair {
    pub(super) async fn schedule(&mut self) {
        let id = self.any(&SCHEDULES);
        self.move_schedule(&id).await;
        let stored = both!(self, schedule(&id));
        let change = match (self.draw(8), stored) {
            (0, Some(stored)) => ScheduleChange::Remove { seen: stored.revision - self.draw(2) },
            (1, Some(stored)) => {
                let next = stored.redefined(self.definition(&id), self.now());
                ScheduleChange::Put { schedule: Box::new(next), seen: Some(stored.revision) }
            }
            (_, Some(stored)) => match stored.tick(self.birth(), self.one_in(3)) {
                Some(mut tick) => {
                    tick.advance.revision -= u64::from(self.one_in(8));
                    for task in &mut tick.tasks {
                        self.born = self.born.max(task.created_at);
                        task.created_at = self.born;
                    }
                    ScheduleChange::Fire { advance: tick.advance, tasks: tick.tasks }
                }
                None => return,
            },
            (_, None) => {
                let schedule = Schedule::new(id.clone(), self.definition(&id), self.now());
                let seen = self.one_in(6).then_some(1);
                ScheduleChange::Put { schedule: Box::new(schedule), seen }
            }
        };
        let write = WriteSchedule { id, change };
        let written = both!(self, write_schedule(write.clone()));
        self.note_fired(&written);
        self.compare_schedules().await;
    }

    fn note_fired(&mut self, written: &ScheduleWritten) {
        if let ScheduleWritten::Done(inserted) = written {
            self.fired += inserted.iter().filter(|it| matches!(it, Inserted::New(_))).count() as u64;
        }
    }

    pub(super) fn definition(&mut self, id: &Name) -> Definition {
        let mut task = self.new_task();
        if self.table.is_some() {
            task.queue = self.any(if id.as_str() < "s2" { &QUEUES[..2] } else { &QUEUES[2..] });
        }
        let pattern: Name = self.any(&["0", "1", "2", "3"]);
        let pattern = PATTERNS[pattern.as_str().parse::<usize>().expect("a digit")];
        Definition {
            timing: Timing::parse(pattern, "Pacific/Chatham").expect("a valid pattern"),
            template: Template {
                queue: task.queue,
                kind: task.kind,
                priority: task.priority,
                retention_ms: task.retention_ms,
                key: task.key,
                body: Body { links: None, ..task.body },
            },
            overlap: Overlap::ALL[self.draw(4) as usize],
            catch_up: CatchUp::ALL[self.draw(3) as usize],
            window_ms: self.draw(20_000),
            jitter_ms: self.draw(3) * 500,
            starts_at: self.one_in(4).then(|| self.wall() + self.draw(3000)),
            ends_at: self.one_in(6).then(|| self.wall() + 20_000),
            paused: self.one_in(8),
        }
    }

    pub(super) async fn compare_schedules(&self) {
        both!(self, schedules(ListSchedules { after: None, limit: 100 }));
        both!(self, schedules(ListSchedules { after: Some(name("s1")), limit: 1 }));
        both!(self, due_schedules(3));
    }
}
