//! Limits on both stores.

use windlass_core::flow::{Ageing, Limit, Rate, Scope};
use windlass_store::{ListLimits, SetLimit};

use super::both::both;
use super::commands::{KEYS, Pair, QUEUES, TYPES};

impl Pair {
    pub(super) async fn limit(&mut self) {
        let (scope, name) = match self.draw(4) {
            0 => (Scope::Queue, self.any(&QUEUES)),
            1 => (Scope::Type, self.any(&TYPES)),
            _ => (Scope::Key, self.any(&KEYS)),
        };
        let limit = Limit {
            max_concurrency: self.one_in(2).then(|| 1 + self.draw(4) as u32),
            rate: self.one_in(3).then(|| Rate { count: 1 + self.draw(5) as u32, per_ms: 1 + self.draw(900) }),
            weight: 1 + self.draw(4) as u32,
            max_depth: self.one_in(4).then(|| 3 + self.draw(20)),
            paused: self.one_in(12),
            ageing: (scope == Scope::Queue && self.one_in(2)).then(|| Ageing { every_ms: 1 + self.draw(40) }),
        };
        let mut set = SetLimit { scope, name, limit: (!self.one_in(3)).then_some(limit) };
        if self.table.is_some() && scope != Scope::Queue {
            self.limit_far(&set).await;
            set.limit =
                set.limit.map(|it| Limit { max_concurrency: None, rate: None, max_depth: None, ..it });
        }
        both!(self, set_limit(set.clone()));
        self.compare_limits().await;
    }

    pub(super) async fn compare_limits(&mut self) {
        both!(self, limits(ListLimits { limit: 100, ..ListLimits::default() }));
        if let Some(task) = self.recall()
            && let Some(stored) = both!(self, get(&task.record.id))
        {
            both!(self, holds(&stored.record));
        }
    }
}
