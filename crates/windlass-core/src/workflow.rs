//! Graphs of tasks that are submitted as one.
//!
//! A workflow owns no state beyond its tasks: it starts, waits and ends by their dependencies. What is kept of it are its id and
//! how many of its tasks are in which state. Its tasks have consecutive numbers, in an order in which no task stands before
//! one that it depends on, and the id of a task is made of the workflow's id and its own name there.

use std::fmt;

use crate::ids::{Name, TaskId};
use crate::state::StateName;

/// A workflow as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    pub id: Name,
    /// The number of its first task; the others follow.
    pub first: u64,
    /// How many tasks it was made of.
    pub size: u32,
    pub created_at: u64,
    /// Those that are not forgotten, by [`StateName::index`].
    pub by_state: [u64; 8],
    /// Digest of what the client sent: tells a repeated submit from a clash.
    pub fingerprint: [u8; 16],
}

/// What a workflow is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Some of its tasks can go on.
    Running,
    /// Nothing can go on: dead letters hold up the rest, or are all that is left over.
    Failed,
    /// Every task ended, and some were cancelled.
    Cancelled,
    Completed,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
            Phase::Completed => "completed",
        }
    }
}

impl Workflow {
    pub fn count(&self, state: StateName) -> u64 {
        self.by_state[state.index()]
    }

    /// Tasks that are not forgotten.
    pub fn kept(&self) -> u64 {
        self.by_state.iter().sum()
    }

    /// One past the number of its last task.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.size)
    }

    pub fn phase(&self) -> Phase {
        let moving = [StateName::Scheduled, StateName::Pending, StateName::Running, StateName::Retrying];
        if moving.into_iter().any(|state| self.count(state) > 0) {
            Phase::Running
        } else if self.count(StateName::DeadLetter) > 0 {
            Phase::Failed
        } else if self.count(StateName::Blocked) > 0 {
            // It is about to be told that what it waits for has ended, or waits for a task outside.
            Phase::Running
        } else if self.count(StateName::Cancelled) > 0 {
            Phase::Cancelled
        } else {
            Phase::Completed
        }
    }

    /// Moves one of its tasks from a state to another; `None` is outside.
    pub fn moved(&mut self, from: Option<StateName>, to: Option<StateName>) {
        if let Some(state) = from {
            self.by_state[state.index()] -= 1;
        }
        if let Some(state) = to {
            self.by_state[state.index()] += 1;
        }
    }
}

/// The id of a node's task.
pub fn task_id(workflow: &Name, node: &Name) -> Option<TaskId> {
    TaskId::new(&format!("{workflow}:{node}")).ok()
}

/// The name of a node, from the id of its task.
pub fn node_name<'a>(workflow: &Name, task: &'a TaskId) -> Option<&'a str> {
    task.as_str().strip_prefix(workflow.as_str())?.strip_prefix(':')
}

/// A way back to where it began; the first is the last again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle(pub Vec<usize>);

impl Cycle {
    /// The cycle in names. A long one is cut short in the middle.
    pub fn named<'a, T: fmt::Display + 'a>(&self, name: impl Fn(usize) -> &'a T) -> String {
        const SHOWN_MAX: usize = 10;
        let names: Vec<String> = self.0.iter().map(|node| name(*node).to_string()).collect();
        if names.len() <= SHOWN_MAX {
            return names.join(" → ");
        }
        let (head, tail) = (&names[..SHOWN_MAX / 2], &names[names.len() - SHOWN_MAX / 2..]);
        format!("{} → … → {}", head.join(" → "), tail.join(" → "))
    }
}

/// An order of the nodes in which each comes behind those that it depends on (`after`, by index), and as far as that allows
/// in the order given.
pub fn order(after: &[Vec<usize>]) -> Result<Vec<usize>, Cycle> {
    let mut open: Vec<usize> = after.iter().map(Vec::len).collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); after.len()];
    for (node, parents) in after.iter().enumerate() {
        parents.iter().for_each(|parent| before[*parent].push(node));
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..after.len()).filter(|node| open[*node] == 0).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for child in &before[node] {
            open[*child] -= 1;
            if open[*child] == 0 {
                ready.insert(*child);
            }
        }
    }
    if order.len() == after.len() { Ok(order) } else { Err(find_cycle(after, &open)) }
}

/// Every node that is left has a parent that is left, so going from parent to parent comes around.
fn find_cycle(after: &[Vec<usize>], open: &[usize]) -> Cycle {
    let mut at = open.iter().position(|count| *count > 0).unwrap_or_default();
    let mut met = vec![None; after.len()];
    let mut path = Vec::new();
    while met[at].is_none() {
        met[at] = Some(path.len());
        path.push(at);
        at = after[at].iter().copied().find(|parent| open[*parent] > 0).unwrap_or(at);
    }
    let mut cycle = path.split_off(met[at].unwrap_or_default());
    cycle.push(at);
    // From parent to child, as people think of it.
    cycle.reverse();
    Cycle(cycle)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nodes_come_behind_what_they_depend_on() {
        assert_eq!(order(&[vec![1, 2], vec![2], vec![], vec![]]), Ok(vec![2, 1, 0, 3]));
        assert_eq!(order(&[vec![], vec![], vec![]]), Ok(vec![0, 1, 2]));
        assert_eq!(order(&[]), Ok(vec![]));
    }

    #[test]
    fn a_cycle_is_named() {
        let names = ["a", "b", "c", "d"];
        let text = |after: &[Vec<usize>]| order(after).unwrap_err().named(|node| &names[node]);
        assert_eq!(text(&[vec![0]]), "a → a");
        assert_eq!(text(&[vec![], vec![0, 3], vec![1], vec![2]]), "b → c → d → b");
        assert_eq!(text(&[vec![1], vec![2], vec![1], vec![0]]), "b → a → b".replace('a', "c"));
        let long: Vec<Vec<usize>> = (0..50).map(|node| vec![(node + 49) % 50]).collect();
        let numbers: Vec<usize> = (0..50).collect();
        let text = order(&long).unwrap_err().named(|node| &numbers[node]);
        assert_eq!(text.matches('→').count(), 10, "{text}");
    }

    #[test]
    fn the_phase_follows_from_the_counts() {
        let phase = |counts: &[(StateName, u64)]| {
            let mut workflow = Workflow {
                id: Name::new("w").unwrap(),
                first: 1,
                size: 9,
                created_at: 0,
                by_state: [0; 8],
                fingerprint: [0; 16],
            };
            counts.iter().for_each(|(state, count)| workflow.by_state[state.index()] = *count);
            workflow.phase()
        };
        use StateName::{Blocked, Cancelled, Completed, DeadLetter, Pending};
        assert_eq!(phase(&[(Completed, 2)]), Phase::Completed);
        assert_eq!(phase(&[(Completed, 2), (Cancelled, 1)]), Phase::Cancelled);
        assert_eq!(phase(&[(Completed, 2), (Blocked, 1), (DeadLetter, 1)]), Phase::Failed);
        assert_eq!(phase(&[(DeadLetter, 1), (Pending, 1)]), Phase::Running);
        assert_eq!(phase(&[(Blocked, 1)]), Phase::Running);
    }

    proptest! {
        /// An order if there is one, and else a cycle that is one.
        #[test]
        fn either_an_order_or_a_cycle(after in prop::collection::vec(prop::collection::vec(0usize..12, 0..3), 12)) {
            match order(&after) {
                Ok(order) => {
                    let place = |node: usize| order.iter().position(|it| *it == node).unwrap();
                    for (node, parents) in after.iter().enumerate() {
                        prop_assert!(parents.iter().all(|parent| place(*parent) < place(node)));
                    }
                }
                Err(Cycle(nodes)) => {
                    prop_assert!(nodes.len() >= 2 && nodes.first() == nodes.last());
                    for pair in nodes.windows(2) {
                        prop_assert!(after[pair[1]].contains(&pair[0]), "{nodes:?}");
                    }
                }
            }
        }
    }
}
