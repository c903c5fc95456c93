//! Which messages of a batch are confirmed: RabbitMQ confirms in any order, one tag or all up to one.

use super::frame::Ack;

#[derive(Debug)]
pub(super) struct Confirms {
    /// The tag before the first of this batch.
    before: u64,
    confirmed: Vec<bool>,
    /// Everything below is confirmed.
    low: usize,
    pub(super) missing: usize,
}

impl Confirms {
    pub(super) fn new(before: u64, count: usize) -> Confirms {
        Confirms { before, confirmed: vec![false; count], low: 0, missing: count }
    }

    pub(super) fn note(&mut self, ack: &Ack) {
        // A tag of an earlier batch was noted then.
        let Some(place) = ack.tag.checked_sub(self.before + 1) else { return };
        let last = (place as usize).min(self.confirmed.len().saturating_sub(1));
        let first = if ack.multiple { self.low } else { last };
        for confirmed in self.confirmed.iter_mut().take(last + 1).skip(first) {
            self.missing -= usize::from(!*confirmed);
            *confirmed = true;
        }
        if ack.multiple {
            self.low = self.low.max(last + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(acks: &[(u64, bool)]) -> usize {
        let mut confirms = Confirms::new(10, 5);
        for &(tag, multiple) in acks {
            confirms.note(&Ack { tag, multiple });
        }
        confirms.missing
    }

    #[test]
    fn each_message_counts_once() {
        assert_eq!(check(&[]), 5);
        assert_eq!(check(&[(15, true)]), 0);
        assert_eq!(check(&[(12, false), (12, false)]), 4);
        assert_eq!(check(&[(13, false), (12, true)]), 2);
        assert_eq!(check(&[(12, false), (13, true), (15, false), (14, true)]), 0);
        assert_eq!(check(&[(10, true), (3, false)]), 5);
    }
}
