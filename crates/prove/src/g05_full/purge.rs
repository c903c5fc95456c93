//! A disk that the broker itself has filled: a purge frees it, submits succeed again without a restart, though a task is left in
//! every file, and the disk takes as many tasks as before. The reserve is the smallest that is accepted, so this also shows that no checkpoint runs out of room.
//!
//! Can fail: a broker that ends, a submit that is still refused after [`PATIENCE`], a disk that takes much fewer tasks than the
//! first time, or a task that is lost fails the run.

use std::time::{Duration, Instant};

use serde_json::json;

use super::PATIENCE;
use crate::http::Http;
use crate::mount::Mount;
use crate::proof::{Run, Trouble};
use crate::server::{Server, Setup};

/// A file of blocks takes two of these: all tasks of a round fit into one, which is the one that is being written.
const SEGMENT: &str = "8MiB";
/// The least for such segments: two of them, and 8 MiB.
const RESERVE: &str = "24MiB";
const DISK_BYTES: u64 = 72 << 20;
/// Far more than the disk can take.
const SUBMITS_MAX: usize = 1_000_000;

/// Refusals in a row after which the disk is full.
const REFUSALS: usize = 30;

/// When the broker is killed and started again on the full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    Never,
    BeforePurge,
    AfterPurge,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    payload_bytes: usize,
    /// Whether tasks have ids that the client chose. Such ids take more room in the index.
    own_ids: bool,
    /// Submits in one call.
    batch: usize,
    kill: Kill,
}

pub(super) async fn prove(run: &Run) -> Result<String, Trouble> {
    let small = |kill| Case { payload_bytes: 1000, own_ids: false, batch: 100, kill };
    // Their payloads are not in the blocks.
    let large = |kill| Case { payload_bytes: 20_000, own_ids: false, batch: 5, kill };
    // The index is larger than what is left on the full disk, and a purge changes every page of it.
    let named = |kill| Case { payload_bytes: 100, own_ids: true, batch: 100, kill };
    let short = [small(Kill::AfterPurge), large(Kill::BeforePurge), named(Kill::Never)];
    let all = [
        small(Kill::Never),
        small(Kill::BeforePurge),
        small(Kill::AfterPurge),
        large(Kill::Never),
        large(Kill::BeforePurge),
        large(Kill::AfterPurge),
        named(Kill::Never),
        named(Kill::BeforePurge),
    ];
    let cases = run.pick(&short[..], &all[..]);
    let mut filled = 0;
    for case in cases {
        filled += case.run(run).await?;
    }
    Ok(format!("{} disks filled with {filled} tasks and freed by a purge", cases.len()))
}

impl Case {
    async fn run(self, run: &Run) -> Result<usize, Trouble> {
        let home = run.home()?;
        let disk = Mount::tmpfs(home.path(), DISK_BYTES)?;
        let mut setup = Setup::new(run, home.path())
            .set("store.segment_bytes", SEGMENT)
            .set("store.disk_reserve_bytes", RESERVE);
        setup.data_dir = disk.path().join("data");
        let mut server = setup.start().await?;
        let (mut filled, mut keep) = (Vec::new(), Vec::new());
        // What is left of a round is in the way of the next.
        for round in 0..run.pick(2, 3) {
            filled.push(self.fill(&mut server.http(), round, &mut keep).await?);
            // How many fit varies, because what is not saved yet counts twice.
            if filled[round] < filled[0] / 2 {
                return Err(Trouble::failed(format!("{self:?}: after a purge fewer tasks fit: {filled:?}")));
            }
            if self.kill == Kill::BeforePurge {
                server = self.restart(&setup, server).await?;
            }
            purge(&mut server.http().patient(PATIENCE)).await?;
            if self.kill == Kill::AfterPurge {
                server = self.restart(&setup, server).await?;
            }
            self.until_accepted(&mut server.http()).await?;
            if !server.is_running() {
                return Err(Trouble::failed(format!("{self:?}: the broker ended: {}", setup.last_words())));
            }
        }
        let server = self.restart(&setup, server).await?;
        for id in keep {
            let answer = server.http().get(&format!("/api/v1/tasks/{id}")).await?;
            if answer.status != 200 {
                return Err(Trouble::failed(format!("{self:?}: lost: {id}")));
            }
        }
        server.terminate().await?;
        Ok(filled.iter().sum())
    }

    async fn restart(self, setup: &Setup, server: Server) -> Result<Server, Trouble> {
        server.kill().await?;
        setup.start().await
    }

    /// Submits until the disk is full, and now and then one into another queue, which stays.
    async fn fill(self, http: &mut Http, round: usize, keep: &mut Vec<String>) -> Result<usize, Trouble> {
        let payload = "x".repeat(self.payload_bytes);
        let (mut count, mut refused) = (0, 0);
        while count < SUBMITS_MAX {
            if count.is_multiple_of(4000) {
                let id = format!("keep-{round}-{count}");
                let body = json!({"id": id, "type": "full", "queue": "kept", "payload": payload});
                match http.post("/api/v1/tasks", &body).await?.status {
                    201 => keep.push(id),
                    // It is there already, if a batch was refused since.
                    200 | 507 => {}
                    status => return Err(Trouble::failed(format!("{self:?}: a submit answered {status}"))),
                }
            }
            let task = |number: usize| {
                let id = self
                    .own_ids
                    .then(|| format!("{:032x}-{round}-{}", mixed(count + number), count + number));
                json!({"id": id, "type": "full", "queue": "purged", "payload": payload})
            };
            let tasks: Vec<_> = (0..self.batch).map(task).collect();
            let body = json!({"tasks": tasks, "atomic": true});
            let answer = http.post("/api/v1/tasks/batch", &body).await?;
            match (answer.status, answer.code()) {
                (200 | 201, _) => (count, refused) = (count + self.batch, 0),
                (507, "disk_full") if refused == REFUSALS && count > 0 => return Ok(count),
                (507, "disk_full") => {
                    refused += 1;
                    // sleep: what is not saved yet takes more room than it will, and nobody tells when that is done.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                _ => {
                    let words = format!("{self:?}: a batch answered {}: {}", answer.status, answer.body);
                    return Err(Trouble::failed(words));
                }
            }
        }
        Err(Trouble::failed(format!("{self:?}: the disk was never full")))
    }

    async fn until_accepted(self, http: &mut Http) -> Result<(), Trouble> {
        let began = Instant::now();
        let body = json!({"type": "full", "queue": "purged", "payload": "x".repeat(self.payload_bytes)});
        loop {
            match http.post("/api/v1/tasks", &body).await?.status {
                201 => return Ok(()),
                507 if began.elapsed() < PATIENCE => {}
                status => {
                    let words = format!("{self:?}: submits still answer {status} after a purge");
                    return Err(Trouble::failed(words));
                }
            }
            // sleep: the broker gives room back step by step, and tells nobody.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Numbers that are far from their neighbours, as random ids are.
fn mixed(number: usize) -> u128 {
    (number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

async fn purge(http: &mut Http) -> Result<(), Trouble> {
    let answer = http.call(hyper::Method::DELETE, "/api/v1/queues/purged/tasks", None).await?;
    match answer.status {
        200 => Ok(()),
        status => Err(Trouble::failed(format!("a purge answered {status}: {}", answer.body))),
    }
}
