//! Ready tasks by lane, and the choice among them, which is [`Flow`]'s.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::flow::{First, Flow, Next, Opened, Place, load};
use windlass_core::{Name, Record, State, StateName};

use super::names::Names;

#[derive(Debug)]
pub(super) struct Ready {
    pub(super) flow: Flow,
    pub(super) names: Names,
    /// The pending tasks of a lane, those of each key apart.
    tasks: HashMap<(u32, Option<u32>), BTreeMap<Place, Waiting>>,
}

/// A pending task, and when it took its place.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    seq: u64,
    ready_at: u64,
}

/// A queue of a claim, with the lanes that it may be served from (`None`: all).
#[derive(Debug)]
pub(super) struct Source {
    queue: u32,
    lanes: Option<Vec<u32>>,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self { flow: Flow::transient(), names: Names::default(), tasks: HashMap::new() }
    }

    pub(super) fn add_queue(&mut self, name: &Name) {
        self.names.add_queue(name, &mut self.flow);
    }

    fn lane(&mut self, queue: &Name, kind: &Name) -> u32 {
        self.names.lane(queue, kind, &mut self.flow)
    }

    /// Where a task stands or would stand when it is pending.
    fn home(&mut self, record: &Record) -> (u32, Option<u32>) {
        let lane = self.lane(&record.queue, &record.kind);
        (lane, record.key.as_ref().map(|key| self.flow.share(lane, key).0))
    }

    /// A live task comes or goes on; `before` is the state it was in, `None` if it was not there.
    pub(super) fn enter(&mut self, record: &Record, before: Option<StateName>) {
        let (from, to) = (before.and_then(load), load(record.state_name()));
        if before.is_none() {
            let lane = self.lane(&record.queue, &record.kind);
            self.names.task_came(lane);
        }
        if from.is_none() && to.is_none() {
            return;
        }
        let home = self.home(record);
        if record.state == State::Pending {
            let waiting = Waiting { seq: record.seq, ready_at: record.ready_at };
            self.tasks.entry(home).or_default().insert(place(record), waiting);
            self.show(home, place(record).0);
        }
        self.flow.count(home.0, home.1, from, to);
    }

    /// A pending task leaves its line; [`Ready::enter`] or [`Ready::forget`] follows.
    pub(super) fn leave(&mut self, record: &Record) {
        let home = self.home(record);
        let line = self.tasks.get_mut(&home).expect("a pending task stands in a line");
        line.remove(&place(record));
        if line.is_empty() {
            self.tasks.remove(&home);
        }
        self.show(home, place(record).0);
    }

    /// A task is removed that was in this state.
    pub(super) fn forget(&mut self, record: &Record, before: StateName) {
        if let Some(from) = load(before) {
            let home = self.home(record);
            self.flow.count(home.0, home.1, Some(from), None);
        }
        let lane = self.lane(&record.queue, &record.kind);
        self.names.task_left(lane);
    }

    /// A task of this priority came or went.
    fn show(&mut self, home: (u32, Option<u32>), level: u64) {
        if !self.flow.ages(home.0) {
            return self.show_head(home);
        }
        let of_level = (level, 0)..=(level, u64::MAX);
        let first = self.tasks.get(&home).and_then(|line| line.range(of_level).next());
        let first = first.map(|(place, it)| First { order: place.1, ready_at: it.ready_at });
        match home {
            (lane, None) => self.flow.set_first(lane, level, first),
            (_, Some(share)) => self.flow.set_share_first(share, level, first),
        }
    }

    /// A queue begins to age: the first task of every priority counts.
    pub(super) fn show_levels(&mut self, queue: &Name) {
        let names = &self.names;
        let here = |home: &(u32, Option<u32>)| names.of_lane(home.0).is_some_and(|(of, _)| of == *queue);
        let lines = self.tasks.iter().filter(|(home, _)| here(home));
        let levels: BTreeSet<((u32, Option<u32>), u64)> =
            lines.flat_map(|(home, line)| line.keys().map(|(level, _)| (*home, *level))).collect();
        levels.into_iter().for_each(|(home, level)| self.show(home, level));
    }

    fn show_head(&mut self, home: (u32, Option<u32>)) {
        let head = self.tasks.get(&home).and_then(|line| line.first_key_value()).map(|(place, _)| *place);
        match home {
            (lane, None) => self.flow.set_head(lane, head),
            (_, Some(share)) => self.flow.set_share_head(share, head),
        }
    }

    pub(super) fn source(&self, queue: &Name, types: Option<&[Name]>) -> Option<Source> {
        let queue = self.names.queue(queue)?;
        let lane = |kind: &Name| self.names.find_lane(queue, kind);
        Some(Source { queue, lanes: types.map(|types| types.iter().filter_map(lane).collect()) })
    }

    pub(super) fn best(&self, source: &Source) -> Option<Next> {
        self.flow.best(source.queue, source.lanes.as_deref())
    }

    pub(super) fn seq(&self, next: &Next) -> u64 {
        self.tasks[&(next.lane, next.share)][&next.place].seq
    }

    /// The chosen task is about to be claimed.
    pub(super) fn start(&mut self, next: &Next, source: &Source, now: u64) {
        self.flow.start(next, source.lanes.as_deref(), now);
    }

    /// How many stand before a pending task, looking at no more than `most`.
    pub(super) fn position(&self, record: &Record, most: usize) -> Option<u64> {
        let lane = self.names.find_lane(self.names.queue(&record.queue)?, &record.kind)?;
        let share = match &record.key {
            Some(key) => Some(self.flow.find_share(lane, key)?),
            None => None,
        };
        let line = self.tasks.get(&(lane, share))?;
        let own = place(record);
        let from = if self.flow.ages(lane) { (own.0, 0) } else { (0, 0) };
        let ahead = line.range(from..own).take(most + 1).count();
        (line.contains_key(&own) && ahead <= most).then_some(ahead as u64)
    }

    /// Queues and types where something waits that could not be served before.
    pub(super) fn opened(&mut self) -> Vec<(Name, Name)> {
        let mut pairs = Vec::new();
        for opened in self.flow.take_opened() {
            match opened {
                Opened::Lane(lane) => pairs.extend(self.names.of_lane(lane)),
                Opened::Queue(queue) => pairs.extend(self.names.lanes_of(queue)),
            }
        }
        pairs
    }

    /// Every lane of a queue, by queue and type.
    pub(super) fn lanes_of(&self, queue: &Name) -> Vec<(Name, Name)> {
        self.names.queue(queue).map(|queue| self.names.lanes_of(queue)).unwrap_or_default()
    }
}

fn place(record: &Record) -> Place {
    (u64::from(u8::MAX - record.priority.0), record.order)
}
