//! Random histories against a plain vector: whatever was synced comes back, and nothing else than what was
//! appended, in order, whatever a power cut leaves of the rest.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// The disk writes sectors whole, and in any order.
const SECTOR: u64 = 512;

#[derive(Debug, Clone)]
enum Act {
    Append(Vec<usize>),
    Sync,
    Vouch,
    Reopen,
    /// Of the sectors written since the last sync each is lost or kept, as the bits say.
    PowerCut(u64),
    /// A share of what there is, in percent.
    Release(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => vec(0..700_usize, 1..5).prop_map(Act::Append),
        4 => Just(Act::Sync),
        2 => Just(Act::Vouch),
        1 => Just(Act::Reopen),
        2 => any::<u64>().prop_map(Act::PowerCut),
        1 => (0..=100_u64).prop_map(Act::Release),
    ]
}

struct World {
    dir: TempDir,
    options: Options,
    log: Option<Log>,
    /// Every entry ever appended and not lost; the index is its place.
    entries: Vec<Bytes>,
    released: usize,
    /// Distinguishes an entry from a lost one of the same index.
    life: usize,
    /// First index and place of the frames written since the last sync.
    unsynced: Vec<(u64, PathBuf, u64, u64)>,
}

impl World {
    fn new(spare_segments: usize, sync: SyncMode) -> World {
        let dir = TempDir::new().unwrap();
        let direct = spare_segments == 0;
        let options = Options { spare_segments, sync, direct, ..small(dir.path()) };
        let log = Some(open(options.clone(), 0).unwrap().0);
        let options = Options { expected: Expected::Log, ..options };
        World { dir, options, log, entries: Vec::new(), released: 0, life: 0, unsynced: Vec::new() }
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Append(sizes) => self.append(&sizes),
            Act::Sync => self.log.as_mut().unwrap().sync().unwrap(),
            Act::Vouch => self.vouch(),
            Act::Reopen => {
                let all = self.entries.len();
                self.reopen();
                assert_eq!(self.entries.len(), all, "a clean end loses nothing");
            }
            Act::PowerCut(bits) => self.power_cut(bits),
            Act::Release(percent) => {
                let below = self.log.as_ref().unwrap().durable_index() * percent / 100;
                self.released = self.released.max(usize::try_from(below).unwrap());
                let reclaimer = self.log.as_ref().unwrap().reclaimer();
                reclaimer.release(self.released as u64);
                reclaimer.settle();
            }
        }
    }

    fn append(&mut self, sizes: &[usize]) {
        let log = self.log.as_mut().unwrap();
        let next = log.next_index();
        let batch: Vec<Bytes> =
            (0..).zip(sizes).map(|(nth, size)| self.life_entry(next + nth, *size)).collect();
        let log = self.log.as_mut().unwrap();
        assert_eq!(log.append(&batch).unwrap(), self.entries.len() as u64);
        let active = log.active.as_ref().unwrap();
        self.unsynced.push((next, active.path.clone(), active.at - log.frame.frame_bytes(), active.at));
        self.entries.extend(batch);
    }

    /// A vouch is never synced by itself, so a power cut may take it.
    fn vouch(&mut self) {
        let log = self.log.as_mut().unwrap();
        let Some(before) = log.active.as_ref().map(|active| active.at) else { return };
        log.vouch().unwrap();
        let active = log.active.as_ref().unwrap();
        if active.at > before {
            // It stays unsynced until a later entry is synced.
            self.unsynced.push((log.next_index(), active.path.clone(), before, active.at));
        }
    }

    /// Entries of one size in every life, so that frames of different lives fall on the same places.
    fn life_entry(&self, index: u64, size: usize) -> Bytes {
        let mut bytes = format!("{index} of life {:04} ", self.life).into_bytes();
        bytes.resize(bytes.len().max(size / 100 * 100), b'.');
        Bytes::from(bytes)
    }

    /// Whatever the log calls durable is not the power cut's to take.
    fn forget_synced(&mut self) {
        let durable = self.log.as_ref().unwrap().durable_index();
        self.unsynced.retain(|(first, ..)| *first >= durable);
    }

    fn power_cut(&mut self, bits: u64) {
        self.forget_synced();
        let durable = usize::try_from(self.log.as_ref().unwrap().durable_index()).unwrap();
        self.log = None;
        let mut nth = 0;
        for (_, path, from, to) in std::mem::take(&mut self.unsynced) {
            let file = match File::options().write(true).open(&path) {
                // Its segment was released meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.unwrap(),
            };
            let mut at = from;
            while at < to {
                let end = to.min((at / SECTOR + 1) * SECTOR);
                if bits.rotate_left(nth) & 1 == 1 {
                    file.write_all_at(&vec![0; usize::try_from(end - at).unwrap()], at).unwrap();
                }
                (at, nth) = (end, nth + 1);
            }
        }
        self.reopen();
        assert!(self.entries.len() >= durable, "{} of {durable} durable entries", self.entries.len());
        self.life += 1;
    }

    fn reopen(&mut self) {
        self.log = None;
        let (log, shown) = open(self.options.clone(), self.released as u64).unwrap();
        assert!(shown.len() <= self.entries.len() - self.released);
        self.entries.truncate(self.released + shown.len());
        assert!(shown == self.entries[self.released..], "an entry came back that was not the last appended");
        assert_eq!(log.next_index(), self.entries.len() as u64);
        self.log = Some(log);
        self.unsynced.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_comes_back(acts in vec(act(), 1..60), spares in 0..3_usize) {
        let mut world = World::new(spares, SyncMode::Always);
        acts.into_iter().for_each(|act| world.perform(act));
        world.perform(Act::Reopen);
        drop(world.dir);
    }

    #[test]
    fn without_syncs_a_prefix_comes_back(acts in vec(act(), 1..60), spares in 0..3_usize) {
        let mut world = World::new(spares, SyncMode::Never);
        acts.into_iter().for_each(|act| world.perform(act));
        world.perform(Act::Reopen);
        drop(world.dir);
    }
}
