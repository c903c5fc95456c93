//! Dead letters with one error, together.

use std::collections::HashMap;

use windlass_core::limits::{
    DEAD_GROUPS_PAGES_MAX, DEAD_GROUPS_SAMPLE_BYTES_MAX, DEAD_GROUPS_SCAN_MAX, PAGE_ROWS_MAX,
};
use windlass_core::{Fingerprint, Name, Record, StateName, TaskId};
use windlass_store::List;

use crate::broker::Broker;
use crate::error::Error;

/// Dead letters whose errors have one fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadGroup {
    pub fingerprint: Fingerprint,
    pub count: u64,
    /// The newest of them, and its error, cut if it is long.
    pub sample: TaskId,
    pub sample_error: Box<str>,
    /// The type and the queue, if all of them have the same.
    pub kind: Option<Name>,
    pub queue: Option<Name>,
    /// When the first and the last of them became dead letters.
    pub first_at: u64,
    pub last_at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadGroups {
    /// The largest first.
    pub groups: Vec<DeadGroup>,
    /// Dead letters that were looked at.
    pub scanned: u64,
    /// Whether these were all that match, and all of their groups are here.
    pub complete: bool,
}

impl Broker {
    /// Groups the newest dead letters that match `list`: its states do not matter, its limit is that of the groups.
    pub async fn dead_groups(&self, list: List) -> Result<DeadGroups, Error> {
        let groups_max = list.limit;
        let mut list = List { states: vec![StateName::DeadLetter], ..list };
        let mut groups: HashMap<Fingerprint, DeadGroup> = HashMap::new();
        let (mut scanned, mut complete) = (0, false);
        for _ in 0..DEAD_GROUPS_PAGES_MAX {
            list.limit = (DEAD_GROUPS_SCAN_MAX - scanned).min(PAGE_ROWS_MAX);
            if list.limit == 0 {
                break;
            }
            let page = self.scan(list.clone()).await?;
            scanned += page.records.len();
            for record in &page.records {
                let fingerprint = Fingerprint::of(record.error.as_deref().unwrap_or_default());
                let group = groups.entry(fingerprint).or_insert_with(|| DeadGroup::new(fingerprint, record));
                group.add(record);
            }
            list.before = page.next;
            if page.next.is_none() {
                complete = true;
                break;
            }
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().collect();
        groups.sort_unstable_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)));
        complete &= groups.len() <= groups_max;
        groups.truncate(groups_max);
        Ok(DeadGroups { groups, scanned: scanned as u64, complete })
    }
}

impl DeadGroup {
    /// Of the newest, which is not counted yet.
    fn new(fingerprint: Fingerprint, record: &Record) -> Self {
        let error = record.error.as_deref().unwrap_or_default();
        let end = error.floor_char_boundary(DEAD_GROUPS_SAMPLE_BYTES_MAX);
        Self {
            fingerprint,
            count: 0,
            sample: record.id.clone(),
            sample_error: error[..end].into(),
            kind: Some(record.kind.clone()),
            queue: Some(record.queue.clone()),
            first_at: u64::MAX,
            last_at: 0,
        }
    }

    fn add(&mut self, record: &Record) {
        let at = record.ended_at().unwrap_or(record.updated_at);
        self.count += 1;
        self.first_at = self.first_at.min(at);
        self.last_at = self.last_at.max(at);
        self.kind.take_if(|kind| *kind != record.kind);
        self.queue.take_if(|queue| *queue != record.queue);
    }
}
