//! Names that were forgotten leave the directory, but not while somebody who asked for one again may be on the way.

use std::time::Duration;

use windlass_store::clock::ManualClock;
use windlass_store::redis::Options;

use super::super::{ask, fresh_prefix, wait_until};
use super::{PARTS, cluster};

/// As when a submit puts a name down just before the sweep comes to it, and writes its task behind that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_asked_for_again_is_not_swept_away() {
    let prefix = fresh_prefix();
    let options = Options::parse(&cluster().url(&prefix, PARTS)).expect("a URL");
    let options = options.swept_every(Duration::from_millis(50));
    let _store = windlass_store::redis::open(options, ManualClock::shared()).await.expect("open");
    // The first part is led as soon as the store is open.
    let names =
        (0..).map(|i| format!("i:id{i}")).filter(|name| crc32fast::hash(name.as_bytes()).is_multiple_of(4));
    let names: Vec<String> = names.take(2).collect();
    let (homes, gone) = (format!("{{{prefix}/0}}:homes"), format!("{{{prefix}/0}}:homes_gone"));
    let has = |port: &&u16| ask(**port, &["EXISTS", &format!("{{{prefix}/0}}:meta")]).trim() == "1";
    let node = *cluster().ports.iter().find(has).expect("a node");
    let time = ask(node, &["TIME"]);
    let stamp = format!("{}000", time.lines().next().expect("a time"));
    for (name, stamp) in names.iter().zip([stamp.as_str(), "1000"]) {
        ask(node, &["HSET", &homes, name, &format!("1 somebody {stamp}")]);
    }
    // Both were forgotten long ago.
    ask(node, &["ZADD", &gone, "1", &names[0], "1", &names[1]]);
    wait_until(node, &["HEXISTS", &homes, &names[1]], |there| there.trim() == "0");
    assert_eq!(ask(node, &["HEXISTS", &homes, &names[0]]).trim(), "1", "its submit may be on the way");
    assert_eq!(
        ask(node, &["ZSCORE", &gone, &names[0]]).trim(),
        stamp,
        "it is looked at again when it is settled"
    );
    assert_eq!(ask(node, &["ZSCORE", &gone, &names[1]]).trim(), "");
}
