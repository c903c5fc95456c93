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

impl Flow {
    /// The next task of a queue, among these lanes of it; `None` for all of them.
    pub fn best(&self, queue: u32, wanted: Option<&[u32]>) -> Option<Next> {
        let line = &self.lines[queue as usize];
        if line.control.closed {
            return None;
        }
        let open = |lane: &&u32| !self.kinds[self.lanes[**lane as usize].kind as usize].control.closed;
        let (plain, keyed) = match wanted {
            None => {
                let plain = line.heads.first_key_value().map(|(place, lane)| (*place, *lane));
                let keyed = line.tops.first_key_value().map(|(rank, lane)| (*rank, *lane));
                (plain, keyed)
            }
            Some(lanes) => {
                let head = |lane: &u32| Some((self.lanes[*lane as usize].head?, *lane));
                let top = |lane: &u32| Some((self.lanes[*lane as usize].top?, *lane));
                let plain = lanes.iter().filter(open).filter_map(head).min();
                (plain, lanes.iter().filter_map(top).min())
            }
        };
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
