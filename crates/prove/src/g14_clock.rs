//! G14: the wall clock of the broker is set by an hour, forward and back, on its own store and on Redis. Durations count elapsed time:
//! leases, delays, retries and `@every` end neither early nor late. Absolute times follow the wall clock, no slot fires twice, and
//! a schedule that waits because the clock was set back says so, as does health. Nothing is stuck, also after a restart.
//!
//! libfaketime gives the broker a wall clock that the proof sets while it runs, and leaves the monotonic clock alone.
//!
//! Mutant: a broker whose monotonic clock is set along with the wall clock, so that durations do not count elapsed time. The judge must
//! see it, and one that is handed times that are early, late or missing must see those.

mod slots;
mod spans;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::audit::Scan;
use crate::g19_redis::Redis;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};
use slots::Slots;
use spans::{Span, begin, watch};

const HOUR_S: i64 = 3600;
const SPAN_S: u64 = 3;
const LEASE_S: u64 = 6;
/// Clocks that round, and the way of a request.
const EARLY: Duration = Duration::from_millis(100);
/// Beyond any delay of a busy machine, and far from an hour.
const LATE: Duration = Duration::from_secs(12);
/// A clock that was set is noticed in this time if nothing else wakes the loops.
const NOTICED: Duration = Duration::from_secs(40);

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    let Some(library) = library() else {
        return Err(Trouble::Skipped("libfaketime is not installed".to_owned()));
    };
    let home = run.home()?;
    let mut complaints = Vec::new();
    let mut figures = Vec::new();
    let mutant = Case::new("mutant", &library, HOUR_S, None);
    let mutant = Case { monotonic: true, ..mutant };
    for round in 0..run.pick(1, 10) {
        let place = home.path().join(format!("redis-{round}"));
        fs::create_dir_all(&place)?;
        let redis = Redis::start(&place, false).await?;
        let url = |database: u32| format!("{}/{database}", redis.url());
        let cases = [
            Case::new("embedded +1h", &library, HOUR_S, None),
            Case::new("embedded -1h", &library, -HOUR_S, None),
            Case::new("redis +1h", &library, HOUR_S, Some(url(0))),
            Case::new("redis -1h", &library, -HOUR_S, Some(url(1))),
        ];
        let homes: Vec<PathBuf> = (0..5).map(|i| home.path().join(format!("{round}-{i}"))).collect();
        let [a, b, c, d] = &cases;
        let (a, b, c, d, broken) = tokio::join!(
            a.carry_out(&run, &homes[0]),
            b.carry_out(&run, &homes[1]),
            c.carry_out(&run, &homes[2]),
            d.carry_out(&run, &homes[3]),
            mutant.carry_out(&run, &homes[4]),
        );
        for (case, findings) in cases.iter().zip([a, b, c, d]) {
            let findings = findings?;
            complaints.extend(findings.complaints.iter().map(|it| format!("{}: {it}", case.name)));
            figures.push(format!("{}: {}", case.name, findings.figures));
        }
        if broken.is_ok_and(|findings| findings.complaints.is_empty()) {
            complaints.push(
                "the mutant (the monotonic clock is set too) did no harm, so this proof cannot fail".into(),
            );
        }
    }
    verdict(figures.join("; "), complaints)
}

/// A broker whose clock is set once by this much.
#[derive(Debug, Clone)]
struct Case {
    name: &'static str,
    library: PathBuf,
    set_s: i64,
    url: Option<String>,
    /// The monotonic clock is set as well, which no operator can do.
    monotonic: bool,
}

#[derive(Debug, Default)]
struct Findings {
    complaints: Vec<String>,
    figures: String,
}

impl Case {
    fn new(name: &'static str, library: &Path, set_s: i64, url: Option<String>) -> Case {
        Case { name, library: library.to_owned(), set_s, url, monotonic: false }
    }

    fn setup(&self, run: &Run, home: &Path) -> Result<Setup, Trouble> {
        fs::create_dir_all(home)?;
        let clock = home.join("clock");
        fs::write(&clock, "+0\n")?;
        let mut wrapper = vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
        ];
        if !self.monotonic {
            wrapper.push("FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned());
        }
        let setup = Setup::new(run, home).wrapped(wrapper);
        Ok(match &self.url {
            Some(url) => setup.set("store.url", url),
            None => setup,
        })
    }

    /// Each case has a thread of its own.
    async fn carry_out(&self, run: &Run, home: &Path) -> Result<Findings, Trouble> {
        let (case, run, home) = (self.clone(), run.clone(), home.to_owned());
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(case.perform(&run, &home))).await;
        done.map_err(|error| Trouble::failed(error.to_string()))?
    }

    async fn perform(&self, run: &Run, home: &Path) -> Result<Findings, Trouble> {
        let setup = self.setup(run, home)?;
        let mut server = setup.start().await?;
        let mut http = server.http();
        let mut spans = Vec::new();
        schedule(&mut http, "beat", "@every 2s").await?;
        schedule(&mut http, "cron", "* * * * * *").await?;
        // Half an hour from here is past after an hour forward, and far away after an hour back.
        let half = text_of(wall_ms() + 1_800_000);
        submit(&mut http, json!({"id": "named", "queue": "apart", "type": "t", "scheduled_at": half}))
            .await?;
        submit(&mut http, json!({"id": "expires", "queue": "nobody", "type": "t", "expires_at": half}))
            .await?;
        until(LATE, "a slot of each schedule", async || {
            let slots = Slots::read(&mut server.http()).await?;
            Ok(slots.count("beat") > 0 && slots.count("cron") > 1)
        })
        .await?;

        begin(&mut http, "before", &mut spans).await?;
        let before = Slots::read(&mut http).await?;
        fs::write(home.join("clock"), format!("{:+}\n", self.set_s))?;
        let set = Instant::now();
        begin(&mut http, "after", &mut spans).await?;
        watch(&mut http, &mut spans).await?;

        let mut complaints: Vec<String> = spans.iter().filter_map(Span::complaint).collect();
        let went_on = until(LATE, "beats", async || {
            Ok(Slots::read(&mut server.http()).await?.count("beat") >= before.count("beat") + 3)
        });
        if went_on.await.is_err() {
            complaints.push("@every 2s did not go on".to_owned());
        }
        let beats = Slots::read(&mut http).await?.count("beat") - before.count("beat");
        let most = set.elapsed().as_secs() as usize / 2 + 2;
        if beats > most {
            complaints.push(format!("@every 2s fired {beats} times in the time of {most}"));
        }
        match self.set_s > 0 {
            true => self.after_forward(&mut http, &before, &mut complaints).await?,
            false => self.after_back(&mut http, &before, &mut complaints).await?,
        }
        if self.set_s < 0 {
            server = over_restart(&setup, server, &mut complaints).await?;
            // Set right again, it goes on with the first slot that has not fired.
            fs::write(home.join("clock"), "+0\n")?;
            let fired = Slots::read(&mut server.http()).await?.count("cron");
            let again = until(NOTICED, "slots", async || {
                Ok(Slots::read(&mut server.http()).await?.count("cron") > fired + 1)
            });
            if again.await.is_err() {
                complaints.push("cron did not go on when the clock was right again".to_owned());
            }
        }
        let slots = Slots::read(&mut server.http()).await?;
        complaints.extend(slots.doubled());
        complaints.extend(Scan::take(&mut server.http()).await?.judge_ledger());
        server.terminate().await?;
        let took: Vec<String> = spans.iter().map(Span::figure).collect();
        let figures = format!("{}; {beats} beats, {} slots, 0 twice", took.join(", "), slots.total());
        Ok(Findings { complaints, figures })
    }

    /// What was named has come, and cron goes on at once.
    async fn after_forward(
        &self,
        http: &mut Http,
        before: &Slots,
        complaints: &mut Vec<String>,
    ) -> Result<(), Trouble> {
        for (id, state) in [("named", "pending"), ("expires", "cancelled")] {
            if until(NOTICED, id, async || Ok(state_of(http, id).await? == state)).await.is_err() {
                complaints.push(format!("{id} did not follow the wall clock"));
            }
        }
        let fired = before.count("cron");
        let again = until(LATE, "slots", async || Ok(Slots::read(http).await?.count("cron") > fired + 1));
        if again.await.is_err() {
            complaints.push("cron did not follow the wall clock".to_owned());
        }
        Ok(())
    }

    /// What was named is an hour further away, cron waits, and both say so.
    async fn after_back(
        &self,
        http: &mut Http,
        before: &Slots,
        complaints: &mut Vec<String>,
    ) -> Result<(), Trouble> {
        for (id, state) in [("named", "scheduled"), ("expires", "pending")] {
            let found = state_of(http, id).await?;
            if found != state {
                complaints.push(format!("{id} is {found}"));
            }
        }
        // One may have been on its way when the clock was set.
        let fired = Slots::read(http).await?.count("cron") - before.count("cron");
        if fired > 1 {
            complaints.push(format!("cron fired {fired} slots although the clock was set back"));
        }
        let standing = http.get("/api/v1/schedules/cron").await?.body["standing"]["code"].clone();
        if standing != "clock_set_back" {
            complaints.push(format!("the schedule says {standing}"));
        }
        let told = until(NOTICED, "health", async || {
            let health = http.get("/api/v1/health").await?.body;
            let problem = health["problem"].as_str().unwrap_or_default();
            Ok(problem.contains("set back") && problem.contains("cron"))
        });
        if told.await.is_err() {
            complaints.push("health does not name the schedule that waits".to_owned());
        }
        Ok(())
    }
}

/// A delay goes on over a restart on the clock that was set back.
async fn over_restart(
    setup: &Setup,
    server: Server,
    complaints: &mut Vec<String>,
) -> Result<Server, Trouble> {
    let mut http = server.http();
    let delayed = json!({"id": "restarted", "queue": "apart", "type": "t", "delay_seconds": SPAN_S});
    let before = Instant::now();
    submit(&mut http, delayed).await?;
    let asked = (before, Instant::now());
    server.terminate().await?;
    let server = setup.start().await?;
    let mut spans =
        [Span { what: "a delay over a restart", wanted: Duration::from_secs(SPAN_S), asked, ended: None }];
    let mut http = server.http();
    let ended = until(LATE, "a delay", async || Ok(state_of(&mut http, "restarted").await? == "pending"));
    if ended.await.is_ok() {
        spans[0].ended = Some(Instant::now());
    }
    complaints.extend(spans.iter().filter_map(Span::complaint));
    Ok(server)
}

async fn schedule(http: &mut Http, id: &str, cron: &str) -> Result<(), Trouble> {
    let payload = json!({"schedule": id, "slot": "{{scheduled_at}}"});
    let task = json!({"type": "slot", "queue": "slots", "payload": payload});
    let body = json!({"id": id, "cron": cron, "catch_up": "one", "task": task});
    expect(http.post("/api/v1/schedules", &body).await?, 201).map(drop)
}

async fn submit(http: &mut Http, body: Value) -> Result<(), Trouble> {
    expect(http.post("/api/v1/tasks", &body).await?, 201).map(drop)
}

async fn state_of(http: &mut Http, id: &str) -> Result<String, Trouble> {
    let task = expect(http.get(&format!("/api/v1/tasks/{id}")).await?, 200)?;
    Ok(task["state"].as_str().unwrap_or_default().to_owned())
}

async fn until(
    patience: Duration,
    what: &str,
    mut come: impl AsyncFnMut() -> Result<bool, Trouble>,
) -> Result<(), Trouble> {
    let end = Instant::now() + patience;
    while !come().await? {
        if Instant::now() > end {
            return Err(Trouble::failed(format!("{what} did not come in {} s", patience.as_secs())));
        }
        // sleep: only asking tells.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn expect(answer: crate::http::Answer, status: u16) -> Result<Value, Trouble> {
    match answer.status == status {
        true => Ok(answer.body),
        false => Err(Trouble::failed(format!("{} instead of {status}: {}", answer.status, answer.body))),
    }
}

/// Where Debian and its kin put it.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketime.so.1"));
    found.find(|path| path.is_file())
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn text_of(ms: u64) -> String {
    Timestamp::from_millisecond(ms.cast_signed()).map(|moment| moment.to_string()).unwrap_or_default()
}

fn self_test() -> Result<(), Trouble> {
    let start = Instant::now();
    let span = |ended_ms: Option<u64>| Span {
        what: "a delay",
        wanted: Duration::from_secs(3),
        asked: (start, start + Duration::from_millis(5)),
        ended: ended_ms.map(|ms| start + Duration::from_millis(ms)),
    };
    let cases = [(Some(3001), true), (Some(2000), false), (Some(60_000), false), (None, false)];
    let blind = cases.iter().find(|(ended, fine)| span(*ended).complaint().is_none() != *fine);
    if let Some(case) = blind {
        return Err(Trouble::failed(format!("the judge is blind: {case:?}")));
    }
    let mut slots = Slots::default();
    slots.add("cron", "12:00");
    slots.add("beat", "12:00");
    let once = slots.doubled().is_empty();
    slots.add("cron", "12:00");
    match once && slots.doubled().len() == 1 && slots.count("cron") == 2 {
        true => Ok(()),
        false => Err(Trouble::failed("the judge does not see a slot that fired twice")),
    }
}
