//! The ordered sets against somebody who keeps none: it looks at every task for every choice.

use proptest::prelude::*;

use super::*;
use crate::flow::rounds::ROUND;

const KINDS: [&str; 3] = ["t0", "t1", "t2"];
const KEYS: [Option<&str>; 4] = [None, Some("a"), Some("b"), Some("c")];

#[derive(Debug, Clone)]
enum Step {
    Add { queue: u32, kind: usize, key: usize, priority: u64 },
    Claim { queue: u32, kinds: Option<Vec<usize>>, after: u64 },
    End { pick: usize, back: bool },
    Limit { scope: usize, name: usize, limit: Option<Limit> },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let limit = (
        prop::option::of(0u32..4),
        prop::option::of((1u32..5, 1u64..400)),
        1u32..5,
        prop::bool::weighted(0.1),
        prop::option::of(1u64..300),
    )
        .prop_map(|(max_concurrency, rate, weight, paused, ageing)| Limit {
            max_concurrency,
            rate: rate.map(|(count, per_ms)| Rate { count, per_ms }),
            weight,
            paused,
            ageing: ageing.map(|every_ms| Ageing { every_ms }),
            ..Limit::default()
        });
    let kinds = prop::option::of(prop::collection::vec(0usize..3, 0..3));
    prop_oneof![
        8 => (0u32..2, 0usize..3, 0usize..4, 0u64..3)
            .prop_map(|(queue, kind, key, priority)| Step::Add { queue, kind, key, priority }),
        8 => (0u32..2, kinds, 0u64..60).prop_map(|(queue, kinds, after)| Step::Claim { queue, kinds, after }),
        5 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(pick, back)| Step::End { pick, back }),
        1 => (0usize..3, 0usize..3, prop::option::weighted(0.8, limit))
            .prop_map(|(scope, name, limit)| Step::Limit { scope, name, limit }),
        1 => Just(Step::Restart),
    ]
}

/// What it has paid, for whom and where.
#[derive(Debug, Default)]
struct Oracle {
    gates: HashMap<(Scope, String), Gate>,
    /// By lane, key and priority.
    turns: HashMap<(u32, String, u64), u64>,
    /// By queue and priority: level, front, plain.
    queues: HashMap<(u32, u64), [u64; 3]>,
    /// By lane and priority: level, plain.
    lanes: HashMap<(u32, u64), [u64; 2]>,
}

/// Queue, type and key of a job.
type Names = (u32, String, Option<String>);

fn names(bench: &Bench, job: &Job) -> Names {
    let (queue, kind) = bench.lanes.iter().find(|(_, lane)| **lane == job.lane).unwrap().0;
    (*queue, kind.clone(), job.key.clone())
}

impl Oracle {
    fn is_open(&self, bench: &Bench, (queue, kind, key): &Names) -> bool {
        let scopes = [
            (Scope::Queue, Some(format!("q{queue}"))),
            (Scope::Type, Some(kind.clone())),
            (Scope::Key, key.clone()),
        ];
        scopes.into_iter().all(|(scope, name)| {
            let Some(name) = name else { return true };
            let Some(gate) = self.gates.get(&(scope, name.clone())) else { return true };
            let within = |job: &&Job| {
                let (queue, kind, key) = names(bench, job);
                let own = match scope {
                    Scope::Queue => format!("q{queue}"),
                    Scope::Type => kind,
                    Scope::Key => key.unwrap_or_default(),
                };
                job.running && own == name
            };
            gate.closed(bench.tasks.values().filter(within).count() as u64).is_none()
        })
    }

    fn weight(&self, key: &str) -> u64 {
        self.gates.get(&(Scope::Key, key.to_owned())).map_or(1, |gate| u64::from(gate.limit.weight))
    }

    fn level(&self, queue: u32, lane: u32, priority: u64) -> u64 {
        let of_lane = self.lanes.get(&(lane, priority)).map_or(0, |round| round[0]);
        of_lane.max(self.queues.get(&(queue, priority)).map_or(0, |round| round[0]))
    }

    /// What the tasks without a key have paid: in the lane of the first, or where the claim looks besides.
    fn plain(&self, queue: u32, job: &Job, wanted: Option<&[u32]>) -> u64 {
        let (priority, _) = job.place;
        let paid = |lane: &u32| self.lanes.get(&(*lane, priority)).map(|round| round[0].max(round[1]));
        let least = || wanted.into_iter().flatten().filter_map(paid).min();
        let of_lane = paid(&job.lane).or_else(least).unwrap_or(0);
        of_lane.max(self.queues.get(&(queue, priority)).map_or(0, |round| round[0].max(round[2])))
    }

    fn ageing(&self, queue: u32) -> Option<Ageing> {
        self.gates.get(&(Scope::Queue, format!("q{queue}"))).and_then(|gate| gate.limit.ageing)
    }

    /// The first pending task of every lane and key, and of every priority where priorities age.
    fn heads(&self, bench: &Bench) -> Vec<(u64, Job)> {
        let mut heads: HashMap<(u32, Option<String>, u64), (u64, Job)> = HashMap::new();
        for (id, job) in bench.tasks.iter().filter(|(_, job)| !job.running) {
            let ages = self.ageing(bench.flow.lanes[job.lane as usize].queue).is_some();
            let level = if ages { job.place.0 } else { 0 };
            let head = heads.entry((job.lane, job.key.clone(), level)).or_insert_with(|| (*id, job.clone()));
            if job.place < head.1.place {
                *head = (*id, job.clone());
            }
        }
        heads.into_values().collect()
    }

    fn choose(&self, bench: &Bench, queue: u32, wanted: Option<&[u32]>) -> Option<(u64, Job)> {
        let candidates = self.heads(bench).into_iter().filter(|(_, job)| {
            let names = names(bench, job);
            names.0 == queue
                && wanted.is_none_or(|lanes| lanes.contains(&job.lane))
                && self.is_open(bench, &names)
        });
        let candidates: Vec<(u64, Job)> = candidates.collect();
        let Some(ageing) = self.ageing(queue) else { return self.choose_of(&candidates, queue, wanted) };
        let at = |level: u64| candidates.iter().filter(move |(_, job)| job.place.0 == level).cloned();
        let levels = (0..3).filter_map(|level| self.choose_of(&at(level).collect::<Vec<_>>(), queue, wanted));
        // Whoever counts as higher, had both waited until the end of time; of equals the higher by itself.
        levels.min_by_key(|(_, job)| (job.ready_at + job.place.0 * ageing.every_ms, job.place.0))
    }

    fn choose_of(&self, candidates: &[(u64, Job)], queue: u32, wanted: Option<&[u32]>) -> Option<(u64, Job)> {
        // Of the tasks without a key only the first in line takes part.
        let plain = candidates.iter().filter(|(_, job)| job.key.is_none()).min_by_key(|(_, job)| job.place);
        let keyed = candidates.iter().filter(|(_, job)| job.key.is_some());
        let rank = |job: &Job| {
            let (priority, order) = job.place;
            let pass = match &job.key {
                Some(key) => self.turns[&(job.lane, key.clone(), job.place.0)],
                None => self.plain(queue, job, wanted),
            };
            (priority, pass, job.key.is_none(), order)
        };
        let keyed = keyed.min_by_key(|(_, job)| (job.place.0, rank(job).1, job.place.1));
        let better = |a: &Job, b: &Job| {
            let (a, b) = (rank(a), rank(b));
            (a.0, a.1, a.3) < (b.0, b.1, b.3)
        };
        match (plain, keyed) {
            (Some(plain), Some(keyed)) if better(&plain.1, &keyed.1) => Some(plain.clone()),
            (plain, keyed) => keyed.or(plain).cloned(),
        }
    }

    fn pay(&mut self, bench: &Bench, job: &Job, queue: u32, wanted: Option<&[u32]>, now: u64) {
        let names = names(bench, job);
        let (priority, _) = job.place;
        if let Some(&[_, front, _]) = self.queues.get(&(queue, priority)) {
            let reached = match wanted {
                None => front,
                Some(lanes) => lanes.iter().map(|lane| self.level(queue, *lane, priority)).max().unwrap_or(0),
            };
            let paid = match &job.key {
                Some(key) => self.turns[&(job.lane, key.clone(), job.place.0)],
                None => self.plain(queue, job, wanted),
            };
            let start = paid.max(reached);
            let round = self.queues.get_mut(&(queue, priority)).unwrap();
            round[1] = round[1].max(start);
            if wanted.is_none() {
                round[0] = round[0].max(start);
            }
            for lane in wanted.into_iter().flatten() {
                if let Some(round) = self.lanes.get_mut(&(*lane, priority)) {
                    round[0] = round[0].max(start);
                }
            }
            match &job.key {
                Some(key) => {
                    let pass = start + ROUND / self.weight(key);
                    for ((lane, of, level), paid) in &mut self.turns {
                        let here = bench.flow.lanes[*lane as usize].queue == queue;
                        let wanted = wanted.is_none_or(|lanes| lanes.contains(lane));
                        if of == key && here && wanted && *level == priority {
                            *paid = pass.max(*paid);
                        }
                    }
                }
                None if wanted.is_none() => {
                    let round = self.queues.get_mut(&(queue, priority)).unwrap();
                    round[2] = round[2].max(start + ROUND);
                }
                None => {
                    for lane in wanted.into_iter().flatten() {
                        if let Some(round) = self.lanes.get_mut(&(*lane, priority)) {
                            round[1] = round[1].max(start + ROUND);
                        }
                    }
                }
            }
        }
        let scopes =
            [(Scope::Queue, Some(format!("q{queue}"))), (Scope::Type, Some(names.1)), (Scope::Key, names.2)];
        for (scope, name) in scopes {
            if let Some(gate) = name.and_then(|name| self.gates.get_mut(&(scope, name))) {
                gate.start(now);
            }
        }
    }

    /// Keys join and leave the rounds as their heads tell.
    fn look(&mut self, bench: &Bench) {
        let heads = self.heads(bench);
        self.turns.retain(|(lane, key, priority), _| {
            let is_head =
                |job: &Job| job.lane == *lane && job.key.as_ref() == Some(key) && job.place.0 == *priority;
            heads.iter().any(|(_, job)| is_head(job))
        });
        // A round that everybody left is forgotten before somebody enters it again.
        let queue_of = |lane: u32| bench.flow.lanes[lane as usize].queue;
        let turns = &self.turns;
        self.queues.retain(|(queue, priority), _| {
            turns.keys().any(|(lane, _, level)| queue_of(*lane) == *queue && level == priority)
        });
        self.lanes.retain(|at, _| turns.keys().any(|(lane, _, level)| (*lane, *level) == *at));
        for (_, job) in &heads {
            let Some(key) = &job.key else { continue };
            let (queue, priority) = (queue_of(job.lane), job.place.0);
            let turn = (job.lane, key.clone(), priority);
            if self.turns.contains_key(&turn) {
                continue;
            }
            let pass = self.level(queue, job.lane, priority) + ROUND / self.weight(key);
            self.queues.entry((queue, priority)).or_default();
            self.lanes.entry((job.lane, priority)).or_default();
            self.turns.insert(turn, pass);
        }
    }
}

fn scope_name(scope: usize, name: usize) -> (Scope, String) {
    match scope {
        0 => (Scope::Queue, format!("q{}", name % 2)),
        1 => (Scope::Type, KINDS[name].to_owned()),
        _ => (Scope::Key, KEYS[1 + name].unwrap().to_owned()),
    }
}

fn run(steps: Vec<Step>) {
    let (mut bench, mut oracle, mut saved) = (Bench::new(2), Oracle::default(), Saved::default());
    let mut now = 1000;
    for step in steps {
        match step {
            Step::Add { queue, kind, key, priority } => {
                bench.now = now;
                bench.add(queue, KINDS[kind], KEYS[key], priority);
            }
            Step::Claim { queue, kinds, after } => {
                now += after;
                let kinds: Option<Vec<&str>> =
                    kinds.map(|kinds| kinds.into_iter().map(|kind| KINDS[kind]).collect());
                // A look at a gate that is open would only forget sooner, which matters if its rate gets longer.
                let due = |gate: &&mut Gate| gate.drained_until.is_some_and(|until| until <= now);
                oracle.gates.values_mut().filter(due).for_each(|gate| gate.tick(now));
                let wanted = bench.wanted(queue, kinds.as_deref());
                let chosen = oracle.choose(&bench, queue, wanted.as_deref());
                if let Some((_, job)) = &chosen {
                    oracle.pay(&bench, job, queue, wanted.as_deref(), now);
                }
                let served = bench.claim(queue, kinds.as_deref(), now);
                assert_eq!(served, chosen.map(|(id, _)| id));
            }
            Step::End { pick, back } => {
                let mut ids: Vec<u64> = bench.tasks.keys().copied().collect();
                ids.sort_unstable();
                if !ids.is_empty() {
                    let id = ids[pick % ids.len()];
                    bench.end(id, back && bench.tasks[&id].running);
                }
            }
            Step::Limit { scope, name: number, limit } => {
                let (scope, text) = scope_name(scope, number);
                // Only queues age.
                let limit = limit
                    .map(|limit| Limit { ageing: limit.ageing.filter(|_| scope == Scope::Queue), ..limit });
                bench.set_limit(scope, &text, limit, now);
                let key = (scope, text);
                match limit {
                    Some(limit) => {
                        let gate = oracle.gates.entry(key).or_default();
                        gate.limit = limit;
                        if limit.rate.is_none() {
                            gate.window = Window::default();
                        }
                        gate.tick(now);
                    }
                    None => drop(oracle.gates.remove(&key)),
                }
            }
            Step::Restart => bench.restart(&mut saved),
        }
        oracle.look(&bench);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_choice_is_that_of_the_one_who_looks_at_everything(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        run(steps);
    }
}
