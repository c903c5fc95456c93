//! How the store writes, and what lists make it read.

use windlass_broker::MetricsSnapshot;
use windlass_store::Groups;

use super::text::Text;

/// Powers of two microseconds: 64 µs to 17 s.
const COMMIT_POWERS: std::ops::RangeInclusive<u32> = 6..=24;
/// Powers of two commands in one group.
const GROUP_POWERS: std::ops::RangeInclusive<u32> = 0..=12;
const MICROSECOND: f64 = 1e-6;

pub(super) fn write(text: &mut Text, counted: &MetricsSnapshot, groups: Option<&Groups>) {
    let help = "How long a submit or a change took to be committed, for whoever asked.";
    text.family("taskqueue_store_commit_seconds", "histogram", help).powers(
        &counted.commit_us,
        COMMIT_POWERS,
        MICROSECOND,
    );
    let Some(groups) = groups else { return };
    let help = "How long a group of commands took to be written and synced.";
    text.family("taskqueue_store_group_seconds", "histogram", help).powers(
        &groups.took_us,
        COMMIT_POWERS,
        MICROSECOND,
    );
    let sizes = &groups.one_less_than_size;
    let bounds = GROUP_POWERS.map(|power| ((1u64 << power) as f64, sizes.below(1 << power)));
    let help = "Commands that were synced together.";
    let mut family = text.family("taskqueue_store_group_commands", "histogram", help);
    family.histogram(&[], bounds, sizes.count(), (sizes.sum() + sizes.count()) as f64);
    let help = "Groups that were written and synced by the thread that had read them.";
    text.counter("taskqueue_store_groups_by_callers_total", help, groups.by_callers);
    text.counter("taskqueue_store_written_bytes_total", "Bytes of commands in the log.", groups.bytes);
    let help = "Records that were looked at for pages of lists, whether they matched or not.";
    text.counter("taskqueue_store_listed_records_total", help, groups.looked_at);
}
