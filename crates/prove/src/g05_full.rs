//! G5: the disk runs full. Submits get 507, running work is still finished, and when there is room again submits succeed
//! without a restart. In every other round the broker is killed on the full disk: it starts there, keeps all leases, and goes
//! on as before. The data is on a small tmpfs; a ballast file takes the room and gives it back. On other disks the tasks themselves take
//! it, and a purge gives it back ([`purge`]).
//!
//! Can fail: a submit that is accepted while the ballast is in place, or refused before and after, fails the run; and the
//! run fails if the disk was never full.

mod purge;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::audit::Scan;
use crate::http::Http;
use crate::mount::{self, Mount};
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};

const DISK_BYTES: u64 = 96 << 20;
const RESERVE: &str = "12MiB";
const HELD: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn prove(run: Run) -> Outcome {
    if let Some(why) = mount::obstacle(&["mount", "umount"]) {
        return Err(Trouble::Skipped(why));
    }
    let home = run.home()?;
    let disk = match Mount::tmpfs(home.path(), DISK_BYTES) {
        Ok(disk) => disk,
        Err(Trouble::Failed(words)) => {
            return Err(Trouble::Skipped(format!("no tmpfs here: {}", words.join(", "))));
        }
        Err(other) => return Err(other),
    };
    let mut setup = Setup::new(&run, home.path()).set("store.disk_reserve_bytes", RESERVE);
    setup.data_dir = disk.path().join("data");
    let mut server = setup.start().await?;
    let mut full =
        Full { http: server.http(), accepted: HashSet::new(), refused: 0, kills: 0, complaints: Vec::new() };
    let rounds = run.pick(3, 30);
    for round in 0..rounds {
        server = full.round(&setup, server, disk.path(), round, Depth::Reserve).await?;
    }
    // Somebody else takes even the reserve. Then nothing is promised but that it starts, that nothing is lost and that it passes.
    for round in rounds..rounds + 2 {
        server = full.round(&setup, server, disk.path(), round, Depth::Everything).await?;
    }
    if !server.is_running() {
        full.complaints.push(format!("the broker ended on a full disk: {}", setup.last_words()));
    }
    full.finish_all().await?;
    let live = Scan::take(&mut full.http).await?;
    server.kill().await?;
    let server = setup.start().await?;
    let scan = Scan::take(&mut server.http()).await?;
    server.terminate().await?;
    let lost = full.judge(&live, &scan);
    let purged = purge::prove(&run).await?;
    let figures = format!(
        "{} tasks over {} full disks, {} of them with a kill, {} submits refused with 507, {lost} lost; {purged}",
        full.accepted.len(),
        rounds + 2,
        full.kills,
        full.refused
    );
    verdict(figures, full.complaints)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Room for what must go on is left.
    Reserve,
    Everything,
}

struct Full {
    http: Http,
    accepted: HashSet<String>,
    refused: u64,
    kills: usize,
    complaints: Vec<String>,
}

impl Full {
    async fn round(
        &mut self,
        setup: &Setup,
        mut server: Server,
        disk: &Path,
        round: usize,
        depth: Depth,
    ) -> Result<Server, Trouble> {
        for number in 0..2 * HELD {
            if self.submit(&format!("r{round}-before-{number}")).await? != 201 {
                self.complaints.push("a submit was refused before the disk was full".to_owned());
            }
        }
        let held = self.claim(HELD).await?;
        let ballast = disk.join("ballast");
        fill(disk, &ballast, depth)?;
        self.until(&format!("r{round}-full"), 507).await?;
        let (before, after) = held.split_at(HELD / 2);
        self.report(before, depth).await?;
        if round.is_multiple_of(2) {
            server.kill().await?;
            self.kills += 1;
            server = setup.start().await?;
            self.http = server.http();
        }
        self.report(after, depth).await?;
        if self.submit(&format!("r{round}-still-full")).await? != 507 {
            self.complaints.push("a submit was accepted on a full disk".to_owned());
        }
        fs::remove_file(&ballast)?;
        self.until(&format!("r{round}-after"), 201).await?;
        Ok(server)
    }

    /// Completes every other task, fails the rest.
    async fn report(&mut self, held: &[Value], depth: Depth) -> Result<(), Trouble> {
        for (number, task) in held.iter().enumerate() {
            let (id, lease) = (task["id"].as_str().unwrap_or_default(), &task["lease"]);
            let (verb, body) = match number % 2 {
                0 => ("complete", json!({"lease": lease, "result": "done on a full disk"})),
                _ => ("fail", json!({"lease": lease, "error": "on a full disk", "retryable": false})),
            };
            let answer = self.http.post(&format!("/api/v1/tasks/{id}/{verb}"), &body).await?;
            let fair = depth == Depth::Everything && answer.status == 507;
            if answer.status != 200 && !fair {
                self.complaints
                    .push(format!("{verb} on a full disk answered {}: {}", answer.status, answer.body));
            }
        }
        Ok(())
    }

    /// Submits until the answer is as wanted.
    async fn until(&mut self, prefix: &str, wanted: u16) -> Result<(), Trouble> {
        let began = Instant::now();
        for number in 0.. {
            let status = self.submit(&format!("{prefix}-{number}")).await?;
            if status == wanted {
                return Ok(());
            }
            if !matches!(status, 201 | 507) || began.elapsed() > PATIENCE {
                return Err(Trouble::failed(format!("submits answer {status} and never {wanted}")));
            }
            // sleep: the broker looks at the disk now and then.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn submit(&mut self, id: &str) -> Result<u16, Trouble> {
        let body = json!({"id": id, "type": "full", "payload": "x".repeat(20_000)});
        let answer = self.http.post("/api/v1/tasks", &body).await?;
        match (answer.status, answer.code()) {
            (201, _) => {
                self.accepted.insert(id.to_owned());
            }
            (507, "disk_full") => self.refused += 1,
            _ => self.complaints.push(format!("submit answered {}: {}", answer.status, answer.body)),
        }
        Ok(answer.status)
    }

    async fn claim(&mut self, max: usize) -> Result<Vec<Value>, Trouble> {
        let claim = json!({"worker_id": "full", "max": max, "lease_seconds": 600});
        let answer = self.http.post("/api/v1/claim", &claim).await?;
        match answer.body["tasks"].as_array() {
            Some(tasks) if !tasks.is_empty() || max > HELD => Ok(tasks.clone()),
            _ => Err(Trouble::failed(format!("a claim answered {}: {}", answer.status, answer.body))),
        }
    }

    /// Completes all that waits, and all that was claimed and could not be reported.
    async fn finish_all(&mut self) -> Result<(), Trouble> {
        loop {
            let tasks = self.claim(100).await?;
            if tasks.is_empty() {
                return Ok(());
            }
            for task in tasks {
                let id = task["id"].as_str().unwrap_or_default();
                let body = json!({"lease": task["lease"]});
                let answer = self.http.post(&format!("/api/v1/tasks/{id}/complete"), &body).await?;
                if answer.status != 200 {
                    self.complaints.push(format!("complete after recovery answered {}", answer.status));
                }
            }
        }
    }

    /// Before and after a kill the same, and everything accepted is there.
    fn judge(&mut self, live: &Scan, again: &Scan) -> usize {
        let (before, after) = (live.seen(), again.seen());
        if before != after {
            self.complaints.push("a restart changed what there is".to_owned());
        }
        for scan in [live, again] {
            self.complaints.extend(scan.judge_leases().into_iter().chain(scan.judge_ledger()));
        }
        let lost: Vec<&String> = self.accepted.iter().filter(|id| !after.contains_key(*id)).collect();
        if let Some(id) = lost.first() {
            self.complaints.push(format!("lost: {id} and others, {} in all", lost.len()));
        }
        let strangers = after.keys().filter(|id| !self.accepted.contains(*id)).count();
        if strangers > 0 {
            self.complaints.push(format!("unexpected: {strangers} tasks that were refused"));
        }
        lost.len()
    }
}

/// Takes the room: all but half of the reserve, or all.
fn fill(disk: &Path, ballast: &Path, depth: Depth) -> Result<(), Trouble> {
    let stat = rustix::fs::statvfs(disk).map_err(std::io::Error::from)?;
    let free = stat.f_bavail * stat.f_frsize;
    // Less than the reserve, though prepared files of the log count as free.
    let left = if depth == Depth::Everything { 0 } else { 6 << 20 };
    fs::write(ballast, vec![1; free.saturating_sub(left) as usize])?;
    Ok(())
}
