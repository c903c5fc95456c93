//! Values by number, where numbers come and go.
//!
//! Numbers that were removed are given again, the smallest first. Values stand in chunks, and a chunk without values takes no
//! memory: a few values that stay behind a million that went do not keep the room of the others.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::ops::{Index, IndexMut};

/// Values that share a piece of memory.
const CHUNK: usize = 32;

#[derive(Debug)]
pub struct Sparse<T> {
    chunks: Vec<Option<Chunk<T>>>,
    /// Chunks with a free number, those without any value too.
    open: BTreeSet<u32>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    values: Box<[Option<T>]>,
    taken: usize,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: BTreeSet::new(), len: 0 }
    }
}

impl<T> Sparse<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        let (chunk, place) = parts(number);
        self.chunks.get(chunk)?.as_ref()?.values[place].as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (chunk, place) = parts(number);
        self.chunks.get_mut(chunk)?.as_mut()?.values[place].as_mut()
    }

    /// Adds a value under the smallest number that is free.
    pub fn add(&mut self, value: T) -> u32 {
        let chunk = self.open.first().map_or(self.chunks.len(), |open| *open as usize);
        let free = self.chunks.get(chunk).and_then(Option::as_ref).and_then(Chunk::free);
        let number = (chunk * CHUNK + free.unwrap_or(0)) as u32;
        self.put(number, value);
        number
    }

    /// Puts a value under a number, in place of the one that was there.
    pub fn put(&mut self, number: u32, value: T) {
        let (chunk, place) = parts(number);
        while self.chunks.len() <= chunk {
            self.open.insert(self.chunks.len() as u32);
            self.chunks.push(None);
        }
        let values = self.chunks[chunk].get_or_insert_with(Chunk::default);
        if values.values[place].replace(value).is_none() {
            values.taken += 1;
            self.len += 1;
            if values.taken == CHUNK {
                self.open.remove(&(chunk as u32));
            }
        }
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let (chunk, place) = parts(number);
        let values = self.chunks.get_mut(chunk)?.as_mut()?;
        let value = values.values[place].take()?;
        values.taken -= 1;
        self.len -= 1;
        self.open.insert(chunk as u32);
        if values.taken == 0 {
            self.chunks[chunk] = None;
            while self.chunks.pop_if(|chunk| chunk.is_none()).is_some() {
                self.open.remove(&(self.chunks.len() as u32));
            }
        }
        Some(value)
    }

    /// All of them, in order of number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = (0..).step_by(CHUNK).zip(&self.chunks);
        chunks.filter_map(|(first, chunk)| Some((first, chunk.as_ref()?))).flat_map(
            |(first, chunk): (u32, &Chunk<T>)| {
                (first..).zip(&chunk.values).filter_map(|(number, value)| Some((number, value.as_ref()?)))
            },
        )
    }
}

/// Gives back the memory of a map that was much larger.
pub fn shrink<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    const SMALL: usize = 64;
    if map.capacity() > SMALL.max(4 * map.len()) {
        map.shrink_to_fit();
    }
}

impl<T> Chunk<T> {
    fn free(&self) -> Option<usize> {
        self.values.iter().position(Option::is_none)
    }
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self { values: std::iter::repeat_with(|| None).take(CHUNK).collect(), taken: 0 }
    }
}

fn parts(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

impl<T> Index<usize> for Sparse<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        self.get(number as u32).expect("a number is used only while its value is there")
    }
}

impl<T> IndexMut<usize> for Sparse<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number as u32).expect("a number is used only while its value is there")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn numbers_are_given_again_and_holes_take_no_memory() {
        let mut sparse = Sparse::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for step in 0..5000_u32 {
            if step % 3 == 2 {
                let number = step * 7919 % 1500;
                assert_eq!(sparse.remove(number), model.remove(&number));
            } else {
                let free = (0..).find(|number| !model.contains_key(number)).unwrap();
                assert_eq!(sparse.add(step), free, "the smallest");
                model.insert(free, step);
            }
            assert_eq!(sparse.len(), model.len());
        }
        let all: Vec<(u32, u32)> = sparse.iter().map(|(number, value)| (number, *value)).collect();
        assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
        let last = *model.keys().next_back().unwrap();
        for number in model.keys().filter(|number| **number != last) {
            assert!(sparse.remove(*number).is_some());
        }
        assert_eq!(sparse.chunks.iter().flatten().count(), 1, "one chunk for the one that stays");
        assert_eq!(sparse.add(7), 0);
        sparse.put(100_000, 8);
        assert_eq!((sparse.len(), sparse[100_000], sparse.get(99_999)), (3, 8, None));
        for number in [0, last, 100_000] {
            assert!(sparse.remove(number).is_some() && sparse.remove(number).is_none());
        }
        assert!(sparse.is_empty() && sparse.chunks.is_empty() && sparse.open.is_empty());
    }
}
