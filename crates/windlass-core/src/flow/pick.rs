//! The choice.

use super::{Flow, Place, Rank};

/// The task that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub place: Place,
    pub lane: u32,
    /// `None` for a task without a key.
    pub share: Option<u32>,
}

/// The first task without a key and the first share, each with its lane.
type Firsts = (Option<(Place, u32)>, Option<(Rank, u32)>);

impl Flow {
    /// The next task of a queue, among these lanes of it; `None` for all of them.
    pub fn best(&self, queue: u32, wanted: Option<&[u32]>) -> Option<Next> {
        let line = &self.lines[queue as usize];
        if line.control.closed {
            return None;
        }
        if let Some(ageing) = line.ageing() {
            return self.best_aged(queue, wanted, ageing);
        }
        let (plain, keyed) = self.firsts(queue, wanted, 0);
        self.choose(plain, keyed, wanted)
    }

    /// The first without a key and the first with one, at this priority or a lower one.
    pub(super) fn firsts(&self, queue: u32, wanted: Option<&[u32]>, from: u64) -> Firsts {
        let Some(lanes) = wanted else {
            let line = &self.lines[queue as usize];
            let plain = line.heads.range((from, 0)..).next().map(|(place, lane)| (*place, *lane));
            let keyed = line.tops.range((from, 0, 0)..).next().map(|(rank, lane)| (*rank, *lane));
            return (plain, keyed);
        };
        let open = |lane: &&u32| !self.kinds[self.lanes[**lane as usize].kind as usize].control.closed;
        let head = |lane: &u32| {
            let (priority, first) = self.lanes[*lane as usize].heads.first_from(from)?;
            Some(((*priority, first.order), *lane))
        };
        let top = |lane: &u32| Some((self.lanes[*lane as usize].tops.first_from(from)?.1, *lane));
        let plain = lanes.iter().filter(open).filter_map(head).min();
        (plain, lanes.iter().filter_map(top).min())
    }

    /// Which of the two is next.
    pub(super) fn choose(
        &self,
        plain: Option<(Place, u32)>,
        keyed: Option<(Rank, u32)>,
        wanted: Option<&[u32]>,
    ) -> Option<Next> {
        let plain = plain.map(|(place, lane)| Next { place, lane, share: None });
        let Some((rank, lane)) = keyed else { return plain };
        let keyed = self.lanes[lane as usize].ranks.get(&rank);
        let keyed = keyed.map(|share| Next { place: (rank.0, rank.2), lane, share: Some(*share) });
        match plain {
            Some(plain) if self.plain_rank(&plain, wanted) < rank => Some(plain),
            _ => keyed,
        }
    }

    fn plain_rank(&self, next: &Next, wanted: Option<&[u32]>) -> Rank {
        (next.place.0, self.plain_pass(next, wanted), next.place.1)
    }

    /// The chosen task starts: it pays for its turn and takes its tokens. Its lane's head and the counts change after this.
    pub fn start(&mut self, next: &Next, wanted: Option<&[u32]>, now: u64) {
        self.pay(next, wanted);
        self.take_tokens(next, now);
    }
}
