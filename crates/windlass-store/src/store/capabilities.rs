//! What a store promises, and what it may lack.

use std::fmt;

use windlass_core::Name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub name: &'static str,
    pub durability: Durability,
    /// Other servers that have it when an answer is given.
    pub replicas: u32,
    /// Whether tasks outlive the process at all.
    pub persistent: bool,
    pub features: &'static [Feature],
    /// Over how many parts tasks are dealt out by their queues. The number of a task says in which one it is, so the numbers of tasks
    /// that were added together are so far apart.
    pub parts: u64,
}

impl Capabilities {
    /// Those of a store that has every feature; the rest is for it to say.
    pub const FULL: Capabilities = Capabilities {
        name: "",
        durability: Durability::None,
        replicas: 0,
        persistent: false,
        features: &Feature::ALL,
        parts: 1,
    };

    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Where the tasks of a queue are: those of queues whose names are alike up to the first colon are together.
    pub fn part_of(&self, queue: &Name) -> u64 {
        let group = queue.as_str().split(':').next().unwrap_or_default();
        u64::from(crc32fast::hash(group.as_bytes())) % self.parts
    }

    /// The number that a task of a store without parts is to have here. Of two the larger one stays the larger.
    pub fn number_for(&self, queue: &Name, number: u64) -> u64 {
        number * self.parts + self.part_of(queue)
    }
}

/// When an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After fdatasync.
    Sync,
    /// After the write; synced at this interval.
    IntervalMs(u64),
    /// After the write; the operating system syncs when it likes.
    Os,
    /// After the write; written down from time to time, and a crash loses what came after that.
    Snapshots,
    /// Gone with the process.
    None,
}

/// Something that not every store can do. A store that cannot refuses it by name and does nothing else instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    UniqueKeys,
    Schedules,
    Operations,
    Dependencies,
    Workflows,
    /// Limits, and keys with a fair share of a queue.
    Flow,
    /// Limits that count the tasks of a type or key wherever they are. Without it such a limit counts those of queues that are
    /// kept together, and what it would have to count elsewhere is refused.
    FlowTogether,
    /// One commit over any queues: moving tasks between them, and batches, dependencies, workflows and replaced keys that
    /// reach over several.
    Together,
    /// Tasks as another store had them.
    Restore,
}

impl Feature {
    pub const ALL: [Feature; 9] = [
        Feature::UniqueKeys,
        Feature::Schedules,
        Feature::Operations,
        Feature::Dependencies,
        Feature::Workflows,
        Feature::Flow,
        Feature::FlowTogether,
        Feature::Together,
        Feature::Restore,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Feature::UniqueKeys => "unique_keys",
            Feature::Schedules => "schedules",
            Feature::Operations => "operations",
            Feature::Dependencies => "dependencies",
            Feature::Workflows => "workflows",
            Feature::Flow => "limits",
            Feature::FlowTogether => "limits_together",
            Feature::Together => "queues_together",
            Feature::Restore => "migration",
        }
    }

    /// What it is, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Feature::UniqueKeys => "unique keys",
            Feature::Schedules => "schedules",
            Feature::Operations => "operations on many tasks",
            Feature::Dependencies => "dependencies between tasks",
            Feature::Workflows => "workflows",
            Feature::Flow => "limits and keys with a fair share",
            Feature::FlowTogether => "limits that count a type or key over queues that a cluster keeps apart",
            Feature::Together => {
                "commits over queues that a cluster keeps apart (queues whose names are alike up to a colon are together)"
            }
            Feature::Restore => "tasks copied in from another store",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}
