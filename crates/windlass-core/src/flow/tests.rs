mod ageing;
mod oracle;
mod shares;
mod windows;

use std::collections::{BTreeMap, HashMap};

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A queue's tasks around a flow, as a store keeps them.
#[derive(Debug, Default)]
struct Bench {
    flow: Flow,
    queues: u32,
    lanes: HashMap<(u32, String), u32>,
    lines: HashMap<(u32, Option<u32>), BTreeMap<Place, u64>>,
    tasks: HashMap<u64, Job>,
    next: u64,
    /// When what is added gets ready.
    now: u64,
}

#[derive(Debug, Clone)]
struct Job {
    lane: u32,
    key: Option<String>,
    place: Place,
    ready_at: u64,
    running: bool,
}

impl Bench {
    fn new(queues: u32) -> Self {
        let mut bench = Bench { queues, ..Bench::default() };
        (0..queues).for_each(|number| bench.flow.add_queue(number, &name(&format!("q{number}"))));
        bench
    }

    fn lane(&mut self, queue: u32, kind: &str) -> u32 {
        let next = self.lanes.len() as u32;
        let flow = &mut self.flow;
        *self.lanes.entry((queue, kind.to_owned())).or_insert_with(|| {
            flow.add_lane(next, queue, &name(kind));
            next
        })
    }

    fn home(&mut self, lane: u32, key: Option<&str>) -> (u32, Option<u32>) {
        (lane, key.map(|key| self.flow.share(lane, &name(key)).0))
    }

    fn add(&mut self, queue: u32, kind: &str, key: Option<&str>, priority: u64) -> u64 {
        let lane = self.lane(queue, kind);
        self.next += 1;
        let (id, place) = (self.next, (priority, self.next));
        let job = Job { lane, key: key.map(str::to_owned), place, ready_at: self.now, running: false };
        self.tasks.insert(id, job);
        self.stand(id);
        let home = self.home(lane, key);
        self.flow.count(home.0, home.1, None, Some(Load::Waiting));
        id
    }

    fn stand(&mut self, id: u64) {
        let job = self.tasks[&id].clone();
        let home = self.home(job.lane, job.key.as_deref());
        self.lines.entry(home).or_default().insert(job.place, id);
        self.show(home);
    }

    fn set_limit(&mut self, scope: Scope, text: &str, limit: Option<Limit>, now: u64) {
        self.flow.set_limit(scope, &name(text), limit, now);
        for home in self.lines.keys().copied().collect::<Vec<_>>() {
            self.show(home);
        }
    }

    fn show(&mut self, home: (u32, Option<u32>)) {
        if self.flow.ages(home.0) {
            return self.show_levels(home);
        }
        let head = self.lines.get(&home).and_then(|line| line.keys().next().copied());
        match home {
            (lane, None) => self.flow.set_head(lane, head),
            (_, Some(share)) => self.flow.set_share_head(share, head),
        }
    }

    /// The first of each priority, and that there is none any more where there was one.
    fn show_levels(&mut self, home: (u32, Option<u32>)) {
        let known: Vec<u64> = match home {
            (lane, None) => {
                self.flow.lanes[lane as usize].heads.all().iter().map(|(level, _)| *level).collect()
            }
            (_, Some(share)) => {
                self.flow.share_at(share).turns.all().iter().map(|(level, _)| *level).collect()
            }
        };
        let mut firsts: BTreeMap<u64, Option<First>> = known.into_iter().map(|level| (level, None)).collect();
        for (place, id) in self.lines.get(&home).into_iter().flatten().rev() {
            let ready_at = self.tasks[id].ready_at;
            firsts.insert(place.0, Some(First { order: place.1, ready_at }));
        }
        for (level, first) in firsts {
            match home {
                (lane, None) => self.flow.set_first(lane, level, first),
                (_, Some(share)) => self.flow.set_share_first(share, level, first),
            }
        }
    }

    fn leave(&mut self, id: u64) -> (u32, Option<u32>) {
        let job = self.tasks[&id].clone();
        let home = self.home(job.lane, job.key.as_deref());
        if let Some(line) = self.lines.get_mut(&home) {
            line.remove(&job.place);
            if line.is_empty() {
                self.lines.remove(&home);
            }
        }
        self.show(home);
        home
    }

    fn claim(&mut self, queue: u32, kinds: Option<&[&str]>, now: u64) -> Option<u64> {
        self.flow.advance(now);
        let wanted = self.wanted(queue, kinds);
        let next = self.flow.best(queue, wanted.as_deref())?;
        self.flow.start(&next, wanted.as_deref(), now);
        let id = self.lines[&(next.lane, next.share)][&next.place];
        let home = self.leave(id);
        self.tasks.get_mut(&id).unwrap().running = true;
        self.flow.count(home.0, home.1, Some(Load::Waiting), Some(Load::Running));
        Some(id)
    }

    fn wanted(&self, queue: u32, kinds: Option<&[&str]>) -> Option<Vec<u32>> {
        let lane = |kind: &&str| self.lanes.get(&(queue, (*kind).to_owned())).copied();
        kinds.map(|kinds| kinds.iter().filter_map(lane).collect())
    }

    /// A task goes for good, or back to its place in line.
    fn end(&mut self, id: u64, back: bool) {
        let job = self.tasks[&id].clone();
        let home = match job.running {
            true => self.home(job.lane, job.key.as_deref()),
            false => self.leave(id),
        };
        let from = Some(if job.running { Load::Running } else { Load::Waiting });
        if back {
            self.tasks.get_mut(&id).unwrap().running = false;
            self.stand(id);
            self.flow.count(home.0, home.1, from, Some(Load::Waiting));
        } else {
            self.flow.count(home.0, home.1, from, None);
            self.tasks.remove(&id);
        }
    }

    fn key_of(&self, id: u64) -> Option<&str> {
        self.tasks[&id].key.as_deref()
    }

    /// The same state in a flow that was filled from what the other had written down.
    fn restart(&mut self, saved: &mut Saved) {
        saved.take(self.flow.take_changed());
        let old = std::mem::take(&mut self.flow);
        (0..self.queues).for_each(|number| self.flow.add_queue(number, &name(&format!("q{number}"))));
        for (number, lane) in old.lanes.iter() {
            self.flow.add_lane(number, lane.queue, &old.kinds[lane.kind as usize].name);
        }
        for (number, line) in old.lines.iter() {
            self.flow.restore_queue(number, line.control.waiting, line.control.running);
        }
        saved.restore(&mut self.flow);
        for home in self.lines.keys().copied().collect::<Vec<_>>() {
            self.show(home);
        }
        self.flow.take_opened();
        self.same(&old);
    }

    /// Compares everything that a choice depends on.
    fn same(&self, old: &Flow) {
        let flow = &self.flow;
        for ((_, a), (_, b)) in flow.lines.iter().zip(old.lines.iter()) {
            assert_eq!((&a.heads, &a.tops, &a.rounds), (&b.heads, &b.tops, &b.rounds));
            assert_eq!(a.control.closed, b.control.closed);
        }
        for ((_, a), (_, b)) in flow.lanes.iter().zip(old.lanes.iter()) {
            assert_eq!((&a.ranks, &a.tops, &a.rounds), (&b.ranks, &b.tops, &b.rounds));
            assert_eq!(a.heads, b.heads);
        }
        assert_eq!(flow.share_count(), old.share_count());
        assert_eq!(flow.clock, old.clock);
        let statuses = |flow: &Flow| flow.statuses(None, None).collect::<Vec<_>>();
        assert_eq!(statuses(flow), statuses(old));
        let used = |flow: &Flow| flow.share_numbers().collect::<Vec<_>>();
        assert_eq!(used(flow), used(old));
    }
}

/// What a store would have on disk.
#[derive(Debug, Default)]
struct Saved {
    shares: BTreeMap<u32, ShareState>,
    queues: BTreeMap<u32, Vec<RoundState>>,
    lanes: BTreeMap<u32, Vec<RoundState>>,
    kinds: BTreeMap<Name, (u64, u64)>,
    gates: BTreeMap<(Scope, Name), Gate>,
    clock: u64,
}

impl Saved {
    fn take(&mut self, delta: Delta) {
        for (number, share) in delta.shares {
            match share {
                Some(share) => drop(self.shares.insert(number, share)),
                None => drop(self.shares.remove(&number)),
            }
        }
        self.queues.extend(delta.queues);
        self.lanes.extend(delta.lanes);
        self.kinds.extend(delta.kinds.into_iter().map(|(name, waiting, running)| (name, (waiting, running))));
        for (scope, name, gate) in delta.gates {
            match gate {
                Some(gate) => drop(self.gates.insert((scope, name), gate)),
                None => drop(self.gates.remove(&(scope, name))),
            }
        }
        self.clock = delta.clock;
    }

    fn restore(&self, flow: &mut Flow) {
        flow.restore_clock(self.clock);
        self.kinds.iter().for_each(|(name, (waiting, running))| flow.restore_kind(name, *waiting, *running));
        self.queues.iter().for_each(|(number, rounds)| flow.restore_queue_rounds(*number, rounds));
        self.lanes.iter().for_each(|(number, rounds)| flow.restore_lane_rounds(*number, rounds));
        self.shares.iter().for_each(|(number, share)| flow.restore_share(*number, share));
        for ((scope, name), gate) in &self.gates {
            flow.restore_gate(*scope, name, gate.clone());
        }
        flow.restored();
    }
}
