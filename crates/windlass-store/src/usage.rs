//! Which names have tasks, and which ones can be released.
//!
//! A name is a queue, or a pair of a queue and a type. A store counts the tasks of each, finished ones too. A name without
//! any is idle: it holds nothing that an answer depends on but its place in the list of queues, and does not count towards the limit of
//! names. It is released at the second [`Store::release_names`](crate::Store::release_names) that finds it idle, so that a
//! queue that was in use a moment ago stays in sight; all are released at once if they are many.

use windlass_core::Sparse;
use windlass_core::limits::{NAMES_IDLE_MAX, NAMES_RELEASED_MAX};

/// How often a name is used.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    count: u64,
    /// It is in the list of idle names, and was idle at some time since.
    listed: bool,
    /// It was idle at the last look, and all the time since.
    seen: bool,
}

impl Usage {
    pub(crate) fn restore(count: u64) -> Self {
        Self { count, ..Self::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0
    }

    /// Returns whether it was idle before.
    pub(crate) fn add(&mut self) -> bool {
        self.count += 1;
        self.seen = false;
        self.count == 1
    }

    /// Has the next look release it if it is still idle then.
    pub(crate) fn release_soon(&mut self) {
        self.seen = true;
    }

    /// Returns whether it is idle now.
    pub(crate) fn remove(&mut self) -> bool {
        self.count -= 1;
        self.count == 0
    }
}

/// Names that are idle, and some that were.
#[derive(Debug, Default)]
pub(crate) struct Idle(Vec<u32>);

impl Idle {
    /// Notes an idle name. Returns whether there are too many of them since this one.
    pub(crate) fn note(&mut self, number: u32, usage: &mut Usage) -> bool {
        if std::mem::replace(&mut usage.listed, true) {
            return false;
        }
        self.0.push(number);
        self.0.len() == NAMES_IDLE_MAX + 1
    }

    /// Takes the names to release now, a bounded number of them. Those that are in use again or gone leave the list too.
    pub(crate) fn sweep<T: AsMut<Usage>>(&mut self, names: &mut Sparse<T>) -> Vec<u32> {
        let crowded = self.0.len() > NAMES_IDLE_MAX;
        let mut released = Vec::new();
        self.0.retain(|number| {
            if released.len() == NAMES_RELEASED_MAX {
                return true;
            }
            let Some(name) = names.get_mut(*number) else { return false };
            let usage = name.as_mut();
            usage.listed = usage.is_idle();
            if usage.listed && (std::mem::replace(&mut usage.seen, true) || crowded) {
                released.push(*number);
                usage.listed = false;
            }
            usage.listed
        });
        self.0.shrink_to(2 * self.0.len());
        released
    }
}

impl AsMut<Usage> for Usage {
    fn as_mut(&mut self) -> &mut Usage {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_released_at_the_second_look_that_finds_it_idle() {
        let (mut names, mut idle) = (Sparse::default(), Idle::default());
        let number = names.add(Usage::default());
        let note = |names: &mut Sparse<Usage>, idle: &mut Idle| idle.note(number, &mut names[0]);
        assert!(names[0].add());
        assert!(names[0].remove());
        note(&mut names, &mut idle);
        assert!(idle.sweep(&mut names).is_empty());
        // It is used in between, so the next look counts as the first.
        names[0].add();
        names[0].remove();
        note(&mut names, &mut idle);
        assert!(idle.sweep(&mut names).is_empty());
        assert_eq!(idle.sweep(&mut names), [number]);
        note(&mut names, &mut idle);
        names[0].add();
        assert!(idle.sweep(&mut names).is_empty(), "it is in use");
        assert!(idle.0.is_empty());
    }

    #[test]
    fn many_idle_names_are_released_at_once_and_in_portions() {
        let (mut names, mut idle) = (Sparse::default(), Idle::default());
        let many = NAMES_RELEASED_MAX + NAMES_IDLE_MAX + 1;
        let mut told = 0;
        for _ in 0..many {
            let number = names.add(Usage::default());
            told += usize::from(idle.note(number, &mut names[number as usize]));
        }
        assert_eq!(told, 1, "one call is enough to wake the loop");
        assert_eq!(idle.sweep(&mut names).len(), NAMES_RELEASED_MAX);
        assert_eq!(idle.sweep(&mut names).len(), NAMES_IDLE_MAX + 1);
        assert!(idle.sweep(&mut names).is_empty());
    }
}
