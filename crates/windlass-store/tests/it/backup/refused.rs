//! Backups that are damaged, cut short or of another version, and destinations that are refused.

use std::io::Read;
use std::path::Path;

use windlass_store::backup::{self, Error, folder};
use windlass_store::embedded::{EmbeddedStore, Options, restore_backup};
use windlass_store::store::{self, Durability};
use windlass_store::{Store, SystemClock};

use super::{populated, taken};

async fn small() -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let (store, _) = populated(home.path(), |_| {}).await;
    let bytes = taken(&*store);
    store.close().await.unwrap();
    bytes
}

fn verify(bytes: &[u8]) -> Result<backup::Manifest, Error> {
    backup::verify(bytes, &mut |_| {})
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flipped_bit_and_every_cut_is_found() {
    let bytes = small().await;
    verify(&bytes).unwrap();
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        // Every byte of the beginning and the end, where lengths and the manifest are, and a sample of the rest.
        if at > 300 && at + 300 < bytes.len() && at % 197 != 0 {
            continue;
        }
        damaged[at] ^= 1 << (at % 8);
        assert!(verify(&damaged).is_err(), "bit {} of byte {at}", at % 8);
        damaged[at] = bytes[at];
    }
    for length in (0..bytes.len()).step_by(997).chain(bytes.len() - 40..bytes.len()) {
        let cut = verify(&bytes[..length]).unwrap_err();
        assert!(matches!(cut, Error::Unfinished { .. }), "{length}: {cut}");
    }
    let more = [&bytes[..], b"x"].concat();
    assert!(matches!(verify(&more), Err(Error::Damaged { .. })));
    assert!(matches!(verify(b"PK\x03\x04 some other file, of some length"), Err(Error::NotABackup)));
}

/// A damaged backup leaves nothing behind that could pass for a store.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_not_restored() {
    let bytes = small().await;
    let home = tempfile::tempdir().unwrap();
    for at in [20, bytes.len() / 3, bytes.len() / 2, bytes.len() - 10] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        let (new, there) = (home.path().join("new"), home.path().join("there"));
        std::fs::create_dir_all(&there).unwrap();
        assert!(restore_backup(&damaged[..], &new, &mut |_| {}).is_err());
        assert!(!new.exists(), "byte {at}");
        assert!(restore_backup(&damaged[..], &there, &mut |_| {}).is_err());
        assert!(names(&there).iter().all(|name| name == "LOCK"), "byte {at}: {:?}", names(&there));
    }
}

/// A reader that panics at its end, so that nothing is cleaned up, as after a kill.
struct Killed<'a>(&'a [u8]);

impl Read for Killed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.0.is_empty(), "killed");
        self.0.read(buffer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_killed_is_no_store_and_can_start_over() {
    let bytes = small().await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let open = || async {
        let options = Options { durability: Durability::Os, disk_reserve_bytes: 0, ..Options::new(&dir) };
        EmbeddedStore::open(options, SystemClock::shared()).await
    };
    for share in [2, 5, 9] {
        let part = &bytes[..bytes.len() * share / 10];
        let killed = std::panic::catch_unwind(|| restore_backup(Killed(part), &dir, &mut |_| {}));
        assert!(killed.is_err());
        let refused = open().await.unwrap_err();
        assert!(matches!(refused, store::Error::Restoring(_)), "{refused}");
        assert!(refused.to_string().contains("backup restore"), "{refused}");
    }
    restore_backup(&bytes[..], &dir, &mut |_| {}).unwrap();
    assert_eq!(names(&dir), ["FORMAT", "LOCK", "blocks", "index.redb"]);
    let store = open().await.unwrap();
    // The directory is in use, and then not empty.
    let in_use = restore_backup(&bytes[..], &dir, &mut |_| {}).unwrap_err();
    assert!(matches!(in_use, Error::NotEmpty(_)), "{in_use}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_something_in_it_is_left_alone() {
    let bytes = small().await;
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("letters.txt"), "mine").unwrap();
    let refused = restore_backup(&bytes[..], home.path(), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::NotEmpty(_)), "{refused}");
    assert_eq!(names(home.path()), ["letters.txt"]);
    // The `lost+found` of a new file system does not count.
    let disk = tempfile::tempdir().unwrap();
    std::fs::create_dir(disk.path().join("lost+found")).unwrap();
    restore_backup(&bytes[..], disk.path(), &mut |_| {}).unwrap();
}

/// Replaces bytes in a stream, and corrects the checksums.
fn reworded(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    // The first chunk, behind the preface, is the opening: head of 16 bytes, no name.
    let length = u32::from_le_bytes(bytes[24..28].try_into().unwrap()) as usize;
    let checksum = crc32fast::hash(&[&bytes[16..28], &bytes[32..32 + length]].concat());
    bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_later_version_wrote_is_refused_before_anything_is_made() {
    let bytes = small().await;
    let mut newer = bytes.clone();
    newer[8..12].copy_from_slice(&2u32.to_le_bytes());
    let checksum = crc32fast::hash(&newer[..12]);
    newer[12..16].copy_from_slice(&checksum.to_le_bytes());
    let format = verify(&bytes).unwrap().opening.store_format;
    let field = |format: &str| format!("\"store_format\": {format}");
    let later_store = reworded(&bytes, &field(&format.to_string()), &field("9"));
    let other_table = reworded(&bytes, "\"listing\"", "\"lostint\"");
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    for (stream, words) in [
        (newer, "of version 2"),
        (later_store, "a store of format 9"),
        (other_table, "does not know: lostint"),
    ] {
        for error in
            [verify(&stream).unwrap_err(), restore_backup(&stream[..], &dir, &mut |_| {}).unwrap_err()]
        {
            assert_eq!(error.code(), "backup_version", "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(!dir.exists());
    }
}

/// A backup in a directory is complete only when its manifest is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_whole_with_its_manifest() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let bytes = small().await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("backup");
    let mut target = folder::Target::create(&dir).unwrap();
    target.write_all(&bytes).unwrap();
    assert!(matches!(folder::open(&dir), Err(Error::NoManifest(_))));
    assert!(matches!(folder::Target::create(&dir), Err(Error::NotEmpty(_))));
    let manifest = verify(&bytes).unwrap();
    target.finish(&manifest).unwrap();
    assert_eq!(names(&dir), ["chunks", "manifest.json"]);
    let mode = |name: &str| dir.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(""), mode("chunks"), mode("manifest.json")], [0o700, 0o600, 0o600]);
    let check = || {
        let mut stored = folder::open(&dir)?;
        let found = backup::verify(&mut stored, &mut |_| {})?;
        stored.check(&found)
    };
    check().unwrap();
    // Every byte of the copy counts.
    let path = dir.join("manifest.json");
    let text = std::fs::read(&path).unwrap();
    for at in (0..text.len()).step_by(7) {
        let mut damaged = text.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert!(check().is_err(), "byte {at} of the manifest");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(check().is_err());
    let other = tempfile::tempdir().unwrap();
    assert!(matches!(folder::open(other.path()), Err(Error::NotABackup)));
}
