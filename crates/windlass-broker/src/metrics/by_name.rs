//! Something for each of some names. Changes come in runs of one queue and type, so the name that was asked for last is tried first.

use foldhash::{HashMap, HashMapExt};
use windlass_core::Name;

#[derive(Debug)]
pub(crate) struct ByName<T> {
    numbers: HashMap<Name, usize>,
    /// In the order in which they came.
    values: Vec<(Name, T)>,
    latest: usize,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new(), latest: 0 }
    }
}

impl<T> ByName<T> {
    pub(crate) fn get(&self, name: &Name) -> Option<&T> {
        self.numbers.get(name).map(|at| &self.values[*at].1)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Name, T)> {
        self.values.iter()
    }

    /// Where a name is, if it is there; remembered for the next time.
    fn find(&mut self, name: &Name) -> Option<usize> {
        if self.values.get(self.latest).is_none_or(|(latest, _)| latest != name) {
            self.latest = *self.numbers.get(name)?;
        }
        Some(self.latest)
    }

    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut T> {
        let at = self.find(name)?;
        Some(&mut self.values[at].1)
    }
}

impl<T: Default> ByName<T> {
    pub(super) fn entry(&mut self, name: &Name) -> &mut T {
        let at = self.find(name).unwrap_or_else(|| self.add(name));
        &mut self.values[at].1
    }

    #[cold]
    fn add(&mut self, name: &Name) -> usize {
        let at = self.values.len();
        self.values.push((name.clone(), T::default()));
        self.numbers.insert(name.clone(), at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_whichever_was_asked_for_last() {
        let name = |text: &str| Name::new(text).unwrap();
        let mut counts: ByName<u32> = ByName::default();
        for text in ["a", "b", "b", "a", "c", "a"] {
            *counts.entry(&name(text)) += 1;
        }
        assert_eq!(counts.get_mut(&name("d")), None);
        assert_eq!(counts.get_mut(&name("a")).copied(), Some(3), "after one that is not there");
        assert_eq!([counts.get(&name("b")), counts.get(&name("c"))], [Some(&2), Some(&1)]);
        assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(counts.len(), 3);
    }
}
