//! What a fleet costs its Redis while there is nothing to do.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_client::Submit;
use windlass_client::redis::Library;
use windlass_client::worker::{Context, Failure};

use super::Redis;

const PER_SECOND_MAX: u64 = 50;
/// Longer than everything that comes round while nothing happens, but for looks in case a hint was lost.
const WATCHED: Duration = Duration::from_secs(8);
const QUEUES: [&str; 4] = ["mail", "images", "reports", "default"];

/// All commands that Redis carried out so far, those inside of scripts included.
fn commands(redis: &Redis) -> u64 {
    let info = redis.say("INFO stats");
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|number| number.trim().parse().ok()).expect("Redis tells how much it did")
}

async fn nothing(_: Context, _: u64) -> Result<(), Failure> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_brokers_and_ten_workers_with_nothing_to_do_leave_redis_alone() {
    idle(Redis::start()).await;
}

/// The parts of a store cost no more than one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_leave_a_cluster_alone_too() {
    idle(Redis::start_cluster()).await;
}

async fn idle(redis: Redis) {
    let brokers = [redis.broker(), redis.broker(), redis.broker()];
    let stop = CancellationToken::new();
    let (mut libraries, mut working) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let library = Library::open(&redis.url).await.unwrap();
        let worker = library.worker().id(&format!("w{number}")).queues(QUEUES.map(|queue| (queue, 1)));
        let worker = worker.handler("t", nothing);
        working.push(tokio::spawn(worker.build().unwrap().run(stop.clone())));
        libraries.push(library);
    }
    let client = libraries[0].client();
    let mut tasks = Vec::new();
    for number in 0..40 {
        let queue = QUEUES[number % QUEUES.len()];
        tasks.push(client.submit(Submit::new("t", &number).unwrap().queue(queue)).await.unwrap());
    }
    for task in tasks {
        client.result::<()>(&task.id, Duration::from_secs(30)).await.unwrap();
    }
    let before = commands(&redis);
    // sleep: what is done in a stretch of time can only be counted at its end.
    tokio::time::sleep(WATCHED).await;
    let done = commands(&redis) - before;
    let allowed = PER_SECOND_MAX * WATCHED.as_secs();
    assert!(done < allowed, "{done} commands in {WATCHED:?}, {allowed} are allowed");
    // It was no silence of the dead.
    let task = client.submit(Submit::new("t", &1).unwrap()).await.unwrap();
    client.result::<()>(&task.id, Duration::from_secs(30)).await.unwrap();
    drop(brokers);
    stop.cancel();
    for worker in working {
        worker.await.unwrap();
    }
    for library in libraries {
        library.stop().await.unwrap();
    }
}
