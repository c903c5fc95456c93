//! Files that are made ahead, and given back.

use super::*;

#[test]
fn spares_are_made_ahead_used_and_made_again() {
    let dir = TempDir::new().unwrap();
    let options = Options { spare_segments: 2, ..small(dir.path()) };
    let (mut log, _) = open(options.clone(), 1).unwrap();
    let reclaimer = log.reclaimer();
    reclaimer.settle();
    assert_eq!(reclaimer.ready_spares(), 2);
    let spares: Vec<u64> =
        contents(dir.path()).keys().map(|path| fs::metadata(path).unwrap().ino()).collect();
    let mut all = fill(&mut log, 1, 10);
    assert!(spares.contains(&inodes(dir.path())[0]), "the first segment is one of the spares");
    reclaimer.settle();
    assert_eq!(reclaimer.ready_spares(), 2);
    drop(log);

    let (mut log, shown) = open(options, 1).unwrap();
    assert_eq!(shown, all);
    assert_eq!(log.reclaimer().ready_spares(), 2, "spares of an earlier run are taken over");
    all.extend(fill(&mut log, 20, 300));
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
    let is_known = |path: &PathBuf| path.ends_with("NEWEST") || path.extension().is_some_and(|e| e == "seg");
    assert!(contents(dir.path()).keys().all(is_known));
}

#[test]
fn a_short_disk_gets_the_files_back_that_nobody_waits_for() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(Options { spare_segments: 1, ..small(dir.path()) }, 1).unwrap();
    let reclaimer = log.reclaimer();
    fill(&mut log, 20, 300);
    reclaimer.settle();
    reclaimer.release(log.next_index());
    reclaimer.settle();
    assert_eq!(reclaimer.ready_spares(), 2, "one more than is made, for a busy log");
    reclaimer.disk_is_short(true);
    reclaimer.settle();
    assert_eq!(reclaimer.ready_spares(), 1);
    let spares =
        contents(dir.path()).into_keys().filter(|path| path.extension().is_some_and(|e| e == "spare"));
    assert_eq!(spares.count(), 1);
    fill(&mut log, 20, 300);
    reclaimer.release(log.next_index());
    reclaimer.settle();
    assert_eq!(reclaimer.ready_spares(), 1, "no second one is kept while the disk is short");
}
