//! G2: power cuts. The data is on an ext4 of its own; the file system is shut down without flushing anything
//! (`FS_IOC_SHUTDOWN`), the broker is killed, the image is mounted again as after a power cut, and every acknowledgement
//! that was read before the shutdown must still hold.
//!
//! Mutant: the same with durability `os`, which answers before the disk has anything; it must lose.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rand::Rng;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::audit::{Scan, groups_by_callers};
use crate::history::{Known, Story};
use crate::judge::Seen;
use crate::load::Load;
use crate::mount::{self, Mount};
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;

const IMAGE_BYTES: u64 = 512 << 20;
const CUTS_PER_FOLDER: usize = 10;
/// A broker that is up answers a submit long before, however busy the machine is.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

pub(crate) async fn prove(run: Run) -> Outcome {
    if let Some(why) = mount::obstacle(&["mkfs.ext4", "mount", "umount", "perl"]) {
        return Err(Trouble::Skipped(why));
    }
    let home = run.home()?;
    let disk = match Mount::ext4(home.path(), IMAGE_BYTES) {
        Ok(disk) => disk,
        Err(Trouble::Failed(words)) => {
            return Err(Trouble::Skipped(format!("no loop mount here: {}", words.join(", "))));
        }
        Err(other) => return Err(other),
    };
    let cuts = run.pick(100, 1000);
    let told = cut(&run, home.path(), &disk, Cuts { count: cuts, durability: "sync" }).await?;
    drop(disk);
    let mut complaints = told.complaints;
    let home = run.home()?;
    let disk = Mount::ext4(home.path(), IMAGE_BYTES)?;
    let mutant_cuts = run.pick(5, 20);
    let mutant = cut(&run, home.path(), &disk, Cuts { count: mutant_cuts, durability: "os" }).await?;
    if mutant.losing_cuts < mutant_cuts {
        let losing = mutant.losing_cuts;
        complaints.push(format!("the mutant (no fsync) lost in only {losing} of {mutant_cuts} cuts"));
    }
    let figures = format!(
        "{cuts} cuts, {} acknowledged submits and {} claims and outcomes checked, {} groups written by who read them, {} lost; mutant without fsync lost in {} of {mutant_cuts} cuts",
        told.checked, told.outcomes, told.by_callers, told.lost, mutant.losing_cuts
    );
    verdict(figures, complaints)
}

struct Cuts {
    count: usize,
    durability: &'static str,
}

#[derive(Debug, Default)]
struct Told {
    checked: usize,
    outcomes: usize,
    /// Groups that the thread which had read them wrote, up to a moment before each cut: none where the disk is slow.
    by_callers: u64,
    lost: usize,
    losing_cuts: usize,
    complaints: Vec<String>,
}

async fn cut(run: &Run, home: &Path, disk: &Mount, cuts: Cuts) -> Result<Told, Trouble> {
    let mut setup = Setup::new(run, home).set("store.durability", cuts.durability);
    let mut random = run.random(cuts.durability);
    let mut told = Told::default();
    let mut used = 0;
    for number in 0..cuts.count {
        // A new directory now and then keeps the scans short; most cuts meet data that earlier ones left.
        if used == CUTS_PER_FOLDER {
            std::fs::remove_dir_all(&setup.data_dir)?;
            used = 0;
        }
        if used == 0 {
            setup.data_dir = disk.path().join(format!("data-{number}"));
        }
        used += 1;
        let server = setup.start().await?;
        let purpose = format!("{} {number}", cuts.durability);
        let mut load = Load::start_as(run, &purpose, &format!("cut{number}-"), 4, 3);
        load.serve(&server);
        let mut switch = Switch::new(disk.path()).await?;
        // A cut before the first answer could lose nothing, and would show nothing.
        let answered = tokio::time::timeout(ANSWERED_WITHIN, async {
            while load.history().acknowledged() == 0 {
                // sleep: there is nothing to wait on; the clients of the load only note what they were told.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        if answered.await.is_err() {
            told.complaints.push(format!("nothing was acknowledged before cut {number}"));
            return Ok(told);
        }
        told.by_callers += groups_by_callers(&mut server.http()).await?;
        // sleep: the moment of the cut is random, and that is the point.
        tokio::time::sleep(Duration::from_millis(random.random_range(40..160))).await;
        // What was read before the switch is thrown counts, and nothing after.
        let before = load.history().stories().clone();
        switch.throw().await?;
        server.kill().await?;
        drop(load);
        disk.again()?;
        let lost = match setup.start().await {
            Ok(server) => {
                let scan = Scan::take(&mut server.http()).await?;
                told.complaints.extend(scan.judge_leases().into_iter().chain(scan.judge_ledger()));
                server.kill().await?;
                compare(&before, &scan.seen(), &mut told)
            }
            Err(Trouble::Failed(words)) => {
                told.complaints.extend(words);
                used = CUTS_PER_FOLDER;
                before.len().max(1)
            }
            Err(other) => return Err(other),
        };
        told.lost += lost;
        told.losing_cuts += usize::from(lost > 0);
        told.complaints.truncate(12);
    }
    Ok(told)
}

/// How many acknowledgements do not hold any more.
fn compare(before: &HashMap<String, Story>, seen: &HashMap<String, Seen>, told: &mut Told) -> usize {
    let mut lost = 0;
    for (id, story) in before {
        told.checked += usize::from(story.submit == Known::Acknowledged);
        told.outcomes +=
            story.deliveries.len() + story.completed.len() + usize::from(story.cancel == Known::Acknowledged);
        let found = seen.get(id);
        let state = found.map(|seen| seen.state.as_str());
        let claimed = |attempt: u64| found.is_some_and(|seen| seen.attempts >= attempt);
        let holds = (story.submit != Known::Acknowledged || state.is_some())
            && (story.completed.is_empty() || state == Some("completed"))
            && (story.cancel != Known::Acknowledged || state == Some("cancelled"))
            && story.deliveries.iter().all(|delivery| claimed(delivery.attempt));
        if !holds {
            lost += 1;
            told.complaints.push(format!("lost: {id} is {state:?} after the cut ({story:?})"));
        }
    }
    lost
}

/// A process that has the file system in hand and shuts it down on a word. Perl, because it can call ioctl without any
/// code of ours that the compiler cannot check.
struct Switch {
    child: Child,
    word: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

const SHUTDOWN: &str = r#"
    use Fcntl;
    $| = 1;
    sysopen(my $dir, $ARGV[0], O_RDONLY) or die "open: $!";
    print "ready\n";
    <STDIN>;
    my $without_flushing = pack("L", 2);
    defined ioctl($dir, 0x8004587d, $without_flushing) or die "ioctl: $!";
    print "cut\n";
"#;

impl Switch {
    async fn new(point: &Path) -> Result<Switch, Trouble> {
        let mut child = Command::new("perl")
            .args(["-e", SHUTDOWN])
            .arg(point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(word), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::failed("the switch has no pipes"));
        };
        let mut switch = Switch { child, word, lines: BufReader::new(stdout).lines() };
        switch.hear("ready").await?;
        Ok(switch)
    }

    async fn throw(&mut self) -> Result<(), Trouble> {
        self.word.write_all(b"\n").await?;
        self.hear("cut").await?;
        self.child.wait().await?;
        Ok(())
    }

    async fn hear(&mut self, expected: &str) -> Result<(), Trouble> {
        match self.lines.next_line().await? {
            Some(line) if line == expected => Ok(()),
            other => {
                Err(Trouble::failed(format!("the power could not be cut: {other:?} instead of {expected}")))
            }
        }
    }
}
