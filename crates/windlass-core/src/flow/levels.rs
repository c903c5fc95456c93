//! A value for each priority that has one.

/// In order, the highest priority first. Mostly there is one at most, and that needs no allocation.
#[derive(Debug, Clone)]
pub enum Levels<T> {
    One(Option<(u64, T)>),
    Many(Vec<(u64, T)>),
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Levels::One(None)
    }
}

impl<T: PartialEq> PartialEq for Levels<T> {
    fn eq(&self, other: &Self) -> bool {
        self.all() == other.all()
    }
}

impl<T: Eq> Eq for Levels<T> {}

impl<T> FromIterator<(u64, T)> for Levels<T> {
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(values: I) -> Self {
        let mut levels = Levels::default();
        values.into_iter().for_each(|(priority, value)| drop(levels.put(priority, value)));
        levels
    }
}

impl<T> Levels<T> {
    pub fn all(&self) -> &[(u64, T)] {
        match self {
            Levels::One(one) => one.as_slice(),
            Levels::Many(many) => many,
        }
    }

    fn all_mut(&mut self) -> &mut [(u64, T)] {
        match self {
            Levels::One(one) => one.as_mut_slice(),
            Levels::Many(many) => many,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(super) fn first(&self) -> Option<&(u64, T)> {
        self.all().first()
    }

    /// The first at this priority or a lower one.
    pub(super) fn first_from(&self, priority: u64) -> Option<&(u64, T)> {
        let all = self.all();
        all.get(all.partition_point(|(at, _)| *at < priority))
    }

    pub(super) fn get(&self, priority: u64) -> Option<&T> {
        self.first_from(priority).filter(|(at, _)| *at == priority).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, priority: u64) -> Option<&mut T> {
        let all = self.all_mut();
        let at = all.binary_search_by_key(&priority, |(at, _)| *at).ok()?;
        Some(&mut all[at].1)
    }

    pub(super) fn put(&mut self, priority: u64, value: T) -> Option<T> {
        if let Some(old) = self.get_mut(priority) {
            return Some(std::mem::replace(old, value));
        }
        match self {
            Levels::One(one @ None) => *one = Some((priority, value)),
            Levels::One(one) => {
                let mut many: Vec<(u64, T)> = one.take().into_iter().collect();
                many.push((priority, value));
                many.sort_unstable_by_key(|(at, _)| *at);
                *self = Levels::Many(many);
            }
            Levels::Many(many) => {
                let place = many.partition_point(|(at, _)| *at < priority);
                many.insert(place, (priority, value));
            }
        }
        None
    }

    pub(super) fn remove(&mut self, priority: u64) -> Option<T> {
        match self {
            Levels::One(one) => one.take_if(|(at, _)| *at == priority).map(|(_, value)| value),
            Levels::Many(many) => {
                let place = many.iter().position(|(at, _)| *at == priority)?;
                Some(many.remove(place).1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_kept_in_order_of_priority() {
        let mut levels = Levels::default();
        assert_eq!(levels.put(7, 'a'), None);
        assert_eq!(levels.put(7, 'b'), Some('a'));
        assert_eq!((levels.put(3, 'c'), levels.put(5, 'd')), (None, None));
        assert_eq!(levels.all(), [(3, 'c'), (5, 'd'), (7, 'b')]);
        assert_eq!(levels.first_from(4), Some(&(5, 'd')));
        assert_eq!((levels.remove(5), levels.remove(5)), (Some('d'), None));
        assert_eq!((levels.remove(3), levels.remove(7)), (Some('c'), Some('b')));
        assert!(levels.is_empty() && levels == Levels::default());
    }
}
