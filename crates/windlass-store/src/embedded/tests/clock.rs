use windlass_core::Counted;

use super::*;

const HOUR_MS: u64 = 3_600_000;

async fn due(store: &EmbeddedStore) -> Vec<String> {
    let due = store.due(9).await.unwrap().tasks;
    due.iter().map(|task| task.record.id.to_string()).collect()
}

/// A task that starts in a second, counted or at a time.
fn later(id: &str, delayed: bool) -> NewTask {
    let new = task(id);
    NewTask {
        scheduled_at: Some(new.created_at + 1000),
        counted: Counted { delayed, ..Counted::default() },
        ..new
    }
}

#[tokio::test]
async fn elapsed_time_goes_on_over_a_restart_while_the_clock_is_behind() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    add(&store, vec![later("counted", true), later("named", false)]).await.unwrap();
    clock.advance_ms(400);
    clock.jump_wall_ms(-(HOUR_MS as i64));
    store.close().await.unwrap();
    let clock = clock.restarted();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    clock.advance_ms(599);
    assert!(due(&store).await.is_empty());
    clock.advance_ms(1);
    assert_eq!(due(&store).await, ["counted"]);
    clock.advance_ms(HOUR_MS);
    assert_eq!(due(&store).await, ["counted", "named"]);
    store.close().await.unwrap();
    // A stamp that is past says nothing.
    let clock = clock.restarted();
    clock.jump_wall_ms(2 * HOUR_MS as i64);
    let clock = clock.restarted();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    assert_eq!(clock.now().ahead, 0);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_stamp_loses_nothing_but_the_time() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ELAPSED"), "17900000x").unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    assert_eq!(clock.now().ahead, 0);
    add(&store, vec![later("counted", true)]).await.unwrap();
    clock.advance_ms(1000);
    assert_eq!(due(&store).await, ["counted"]);
    store.close().await.unwrap();
}

/// A machine without a battery starts with a clock in the past, and a time server sets it soon after.
#[tokio::test]
async fn a_clock_that_starts_in_the_past_holds_no_delay_up() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    add(&store, vec![later("counted", true)]).await.unwrap();
    store.close().await.unwrap();
    clock.jump_wall_ms(-(9000 * HOUR_MS as i64));
    let clock = clock.restarted();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    clock.jump_wall_ms(9000 * HOUR_MS as i64);
    clock.advance_ms(999);
    assert!(due(&store).await.is_empty());
    clock.advance_ms(1);
    assert_eq!(due(&store).await, ["counted"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_records_elapsed_time_for_a_process_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    add(&store, vec![task("a")]).await.unwrap();
    clock.advance_ms(5);
    store.shared.bell.ring();
    let path = dir.path().join("ELAPSED");
    let recorded = async {
        while !path.exists() {
            // sleep: nobody tells when a checkpoint ends.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), recorded).await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&clock.now().elapsed().to_string()), "{text}");
    store.close().await.unwrap();
}
