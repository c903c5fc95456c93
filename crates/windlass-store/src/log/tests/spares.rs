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
