//! G4: an fsync fails. Nothing may be acknowledged from then on, the broker ends with an error, and what was acknowledged
//! before is there when it is started again. strace makes the n-th call of every thread fail with EIO. A sync of a file that
//! is only being prepared protects nothing yet: the broker may try that again, and only what it acknowledged is checked.
//!
//! Can fail: the trace must show that the fault was injected, and the judge is handed an acknowledgement from after it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::Rng;
use serde_json::json;

use crate::audit::Scan;
use crate::frames::Frames;
use crate::mount;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};

pub(crate) async fn prove(run: Run) -> Outcome {
    if !mount::exists("strace") {
        return Err(Trouble::Skipped("needs strace, which is not installed".to_owned()));
    }
    let probe = std::process::Command::new("strace").args(["-o", "/dev/null", "true"]).output()?;
    if !probe.status.success() {
        return Err(Trouble::Skipped("strace may not trace here".to_owned()));
    }
    self_test()?;
    let mut random = run.random("G4");
    let mut total = Told::default();
    let faults = run.pick(8, 100);
    // Which file a fault hits depends on the order of the threads. More faults follow until enough have hit a serving broker.
    for number in 0..faults * 4 {
        if number >= faults && total.serving * 4 >= faults {
            break;
        }
        // The first calls hit the start of the broker, which must then refuse to serve.
        let when = if number == 0 { 1 } else { random.random_range(2..60) };
        let call = if number % 4 == 3 { "fsync" } else { "fdatasync" };
        let told = fail(&run, call, when).await?;
        total.add(told, call, when);
    }
    if total.serving * 4 < faults {
        total.complaints.push("too few faults hit a broker that was serving".to_owned());
    }
    let figures = format!(
        "{} faults injected, {} while the broker served, {} in files being prepared; {} acknowledged, {} of them after it, {} lost; {} never fired and were not counted",
        total.fired, total.serving, total.prepared, total.acknowledged, total.late, total.lost, total.quiet
    );
    if total.fired < total.quiet {
        total.complaints.push("most faults did not fire".to_owned());
    }
    verdict(figures, total.complaints)
}

#[derive(Debug, Default)]
struct Told {
    fired: usize,
    /// Faults in files that hold what was acknowledged, after the broker had acknowledged something.
    serving: usize,
    /// Runs in which the broker never made that many calls.
    quiet: usize,
    /// Faults in files that were only being prepared.
    prepared: usize,
    acknowledged: usize,
    late: usize,
    lost: usize,
    complaints: Vec<String>,
}

impl Told {
    fn add(&mut self, other: Told, call: &str, when: usize) {
        self.fired += other.fired;
        self.serving += other.serving;
        self.quiet += other.quiet;
        self.prepared += other.prepared;
        self.acknowledged += other.acknowledged;
        self.late += other.late;
        self.lost += other.lost;
        self.complaints.extend(other.complaints.into_iter().map(|words| format!("{call} {when}: {words}")));
    }
}

/// A submit that was acknowledged.
#[derive(Debug)]
struct Acknowledged {
    id: String,
    /// When the request was sent, in seconds of the wall clock as strace prints them.
    sent: f64,
}

async fn fail(run: &Run, call: &str, when: usize) -> Result<Told, Trouble> {
    let home = run.home()?;
    let plain = Setup::new(run, home.path()).set("store.segment_bytes", "64KiB");
    let trace = home.path().join("trace");
    let mut server = plain.clone().wrapped(strace(&trace, call, when)).spawn()?;
    let mut told = Told::default();
    let mut accepted = Vec::new();
    if tokio::time::timeout(Duration::from_secs(60), server.become_ready()).await.unwrap_or(false) {
        accepted = submit_until_refused(&server, &trace).await;
    }
    let Some(fault) = injection(&trace) else {
        // The broker never made that many calls: nothing was tried, so nothing is counted.
        server.kill().await?;
        told.quiet = 1;
        return Ok(told);
    };
    told.fired = 1;
    told.serving = usize::from(fault.protects && !accepted.is_empty());
    if fault.protects {
        let late = late(&accepted, fault.at);
        told.late = late.len();
        told.complaints.extend(late);
        told.complaints.extend(judge_end(server).await?);
    } else {
        told.prepared = 1;
        server.kill().await?;
    }
    let server = match plain.start().await {
        Ok(server) => server,
        Err(Trouble::Failed(words)) => {
            told.complaints.extend(words);
            return Ok(told);
        }
        Err(other) => return Err(other),
    };
    let scan = Scan::take(&mut server.http()).await?;
    server.terminate().await?;
    told.complaints.extend(scan.judge_leases().into_iter().chain(scan.judge_ledger()));
    let seen = scan.seen();
    told.acknowledged = accepted.len();
    for lost in accepted.iter().filter(|accepted| !seen.contains_key(&accepted.id)) {
        told.lost += 1;
        told.complaints.push(format!("lost: {} was acknowledged", lost.id));
    }
    Ok(told)
}

/// The broker must end by itself, and not as if all were well.
async fn judge_end(mut server: Server) -> Result<Vec<String>, Trouble> {
    match server.wait().await {
        Ok(status) if status.success() => Ok(vec!["the broker exited with 0 after a failed sync".to_owned()]),
        Ok(_) => Ok(Vec::new()),
        Err(Trouble::Failed(words)) => {
            server.kill().await?;
            Ok(words)
        }
        Err(other) => Err(other),
    }
}

fn strace(trace: &Path, call: &str, when: usize) -> Vec<OsString> {
    let inject = format!("inject={call}:error=EIO:when={when}");
    let words = ["strace", "-f", "-q", "-y", "-ttt", "-e", &format!("trace={call}"), "-e", &inject, "-o"];
    words.into_iter().map(OsString::from).chain([trace.as_os_str().to_owned()]).collect()
}

/// One after the other and by turns over REST and frames, with large bodies so that segments fill; stops at the first answer that is no success, or when
/// the fault does not come.
async fn submit_until_refused(server: &Server, trace: &Path) -> Vec<Acknowledged> {
    let mut http = server.http();
    let mut frames = server.frames().map(Frames::new);
    let mut accepted = Vec::new();
    let mut after = 0;
    for number in 0..600 {
        let id = format!("t{number}");
        let body = json!({"id": id, "type": "sync", "payload": "x".repeat(2000)});
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let answer = match &mut frames {
            Some(frames) if number % 2 == 1 => frames.submit(&body).await,
            _ => http.post("/api/v1/tasks", &body).await,
        };
        match answer {
            Ok(answer) if answer.is_success() => accepted.push(Acknowledged { id, sent }),
            Ok(_) => {}
            Err(_) => after = 20,
        }
        // Asks on for a while after the fault: a broker that still answers shows itself.
        after += usize::from(number % 8 == 0 && injection(trace).is_some());
        if after >= 20 {
            break;
        }
    }
    accepted
}

/// A call that strace made fail.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fault {
    /// By the wall clock, in seconds.
    at: f64,
    /// Whether the file holds what was acknowledged.
    protects: bool,
}

/// The first fault that matters, or else the first.
fn injection(trace: &Path) -> Option<Fault> {
    faults(&fs::read_to_string(trace).ok()?)
}

fn faults(text: &str) -> Option<Fault> {
    let word = |line: &str, number: usize| line.split_ascii_whitespace().nth(number).map(str::to_owned);
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Option<Fault> = None;
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("(INJECTED)")) {
        // A call that was interrupted in the trace names its file where it began.
        let mut earlier = lines[..=number].iter().rev().filter(|other| word(other, 0) == word(line, 0));
        let begun = earlier.find(|other| other.contains("sync(")).unwrap_or(line);
        let protects = [".seg>", ".blk>", "index.redb>", "NEWEST>"].iter().any(|file| begun.contains(file));
        let at = word(line, 1)?.parse().ok()?;
        if found.is_none_or(|found| protects && !found.protects) {
            found = Some(Fault { at, protects });
        }
    }
    found
}

/// Acknowledgements of requests that were sent after the fault.
fn late(accepted: &[Acknowledged], fault: f64) -> Vec<String> {
    let late = accepted.iter().filter(|accepted| accepted.sent > fault);
    late.map(|late| format!("{} was acknowledged, {:.3} s after the failed sync", late.id, late.sent - fault))
        .collect()
}

fn self_test() -> Result<(), Trouble> {
    let accepted = [
        Acknowledged { id: "early".to_owned(), sent: 1.0 },
        Acknowledged { id: "late".to_owned(), sent: 3.0 },
    ];
    match late(&accepted, 2.0).as_slice() {
        [only] if only.starts_with("late ") => Ok(()),
        other => Err(Trouble::failed(format!("the judge misjudges a late acknowledgement: {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, faults};

    #[test]
    fn the_fault_that_matters_is_found_in_a_trace() {
        let trace = "7 1.5 fsync(3</d/log>) = -1 EIO (Input/output error) (INJECTED)\n\
                     8 2.0 fdatasync(4</d/log/1.seg> <unfinished ...>\n\
                     9 2.1 fdatasync(5</d/log/2.spare>) = 0\n\
                     8 2.5 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)\n";
        assert_eq!(faults(trace), Some(Fault { at: 2.5, protects: true }));
        assert_eq!(faults(&trace[..40]), None);
    }

    #[test]
    fn the_judge_sees_a_late_acknowledgement() {
        super::self_test().unwrap();
    }
}
