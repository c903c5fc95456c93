//! Looking at the broker, listening to it, and asking it for things.
//!
//! Figures are looked at once a second. Failures are told by events as they happen; a broker that tells none, or told too much
//! to keep up with, is asked for its failed tasks instead.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use windlass_client::Error;
use windlass_client::rest::{Client, Listen, Said};
use windlass_proto::rest::EventBody;

use super::keys::Act;
use super::recent::Recent;
use super::snapshot::{Failed, Snapshot, look};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Between two accounts of what failed.
const TELL: Duration = Duration::from_millis(200);
/// For all answers of one look; then the broker counts as away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests of the person that wait for the broker.
const ASKED_MAX: usize = 8;
const NEWS_MAX: usize = 8;
/// Events that wait; with more of them the broker is told to wait, and drops what it cannot keep.
const HEARD_MAX: usize = 256;
/// Before a broker that tells no events is asked for them again.
const DEAF: Duration = Duration::from_secs(5);
/// What says that a task failed, and that it no longer counts as failed.
const TYPES: [&str; 5] =
    ["task.failed", "task.retrying", "task.dead_lettered", "task.cancelled", "task.removed"];

#[derive(Debug)]
pub(super) enum News {
    Look(Box<Snapshot>),
    /// What failed last, between two looks.
    Failures(Vec<Failed>),
    /// The broker is away, and why.
    Lost(String),
    Done(String),
    Refused(String),
}

/// A handle on the task that looks; dropping it ends that task.
#[derive(Debug)]
pub(super) struct Feed {
    asks: mpsc::Sender<Act>,
    news: mpsc::Receiver<News>,
}

impl Feed {
    pub(super) fn start(client: Client) -> Self {
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        let (tell, news) = mpsc::channel(NEWS_MAX);
        let (say, heard) = mpsc::channel(HEARD_MAX);
        tokio::spawn(listen(client.clone(), say));
        let follower = Follower { client, tell, told: false, recent: Recent::default(), untold: None };
        tokio::spawn(follower.run(asked, heard));
        Self { asks, news }
    }

    /// A broker that is away has no use for more than a few requests: the rest is dropped, and the screen says that it is away.
    pub(super) fn ask(&self, act: Act) {
        let _ = self.asks.try_send(act);
    }

    pub(super) async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

struct Follower {
    client: Client,
    tell: mpsc::Sender<News>,
    /// Events tell what fails.
    told: bool,
    recent: Recent,
    /// When what was heard since the last account is told.
    untold: Option<Instant>,
}

impl Follower {
    async fn run(mut self, mut asked: mpsc::Receiver<Act>, mut heard: mpsc::Receiver<Heard>) {
        let mut ticks = tokio::time::interval_at(Instant::now(), LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let untold = self.untold.unwrap_or_else(Instant::now);
            let news = tokio::select! {
                act = asked.recv() => {
                    let Some(act) = act else { return };
                    // What came of it is seen at once.
                    ticks.reset_immediately();
                    perform(&self.client, act).await
                }
                _ = ticks.tick() => self.look().await,
                Some(said) = heard.recv() => {
                    self.hear(said);
                    continue;
                }
                () = tokio::time::sleep_until(untold), if self.untold.is_some() => {
                    self.untold = None;
                    News::Failures(self.recent.failures())
                }
            };
            if self.tell.send(news).await.is_err() {
                return;
            }
        }
    }

    async fn look(&mut self) -> News {
        let looking = look(&self.client, &mut self.recent, self.told);
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(Ok(snapshot)) => News::Look(Box::new(snapshot)),
            Ok(Err(error)) => News::Lost(error.to_string()),
            Err(_) => News::Lost("it does not answer".to_owned()),
        }
    }

    fn hear(&mut self, heard: Heard) {
        self.told = !matches!(heard, Heard::Away);
        match heard {
            Heard::Event(event) if event.kind == "gap" => self.recent.forget(),
            Heard::Event(event) => {
                if let Ok(task) = event.read() {
                    self.recent.hear(task, event.timestamp);
                    self.untold = self.untold.or_else(|| Some(Instant::now() + TELL));
                }
            }
            // What failed before is asked for once more.
            Heard::Up => self.recent.forget(),
            Heard::Away => {}
        }
    }
}

enum Heard {
    Up,
    Event(EventBody),
    Away,
}

/// Listens in a task of its own, because coming back takes longer than a look.
async fn listen(client: Client, say: mpsc::Sender<Heard>) {
    while !say.is_closed() {
        let listen = Listen { types: TYPES.map(str::to_owned).to_vec(), ..Listen::default() };
        if let Ok(mut events) = client.events(listen).await {
            let mut heard = Heard::Up;
            while say.send(heard).await.is_ok() {
                heard = match events.next().await {
                    Ok(Said::Event(event)) => Heard::Event(event),
                    Ok(Said::Lost(_)) => Heard::Away,
                    Err(_) => break,
                };
            }
            let _ = say.send(Heard::Away).await;
        }
        tokio::time::sleep(DEAF).await;
    }
}

async fn perform(client: &Client, act: Act) -> News {
    let said = act.to_string();
    let done: Result<(), Error> = match &act {
        Act::PauseQueue(queue) => client.pause_queue(queue).await.map(drop),
        Act::ResumeQueue(queue) => client.resume_queue(queue).await.map(drop),
        Act::PauseWorker(worker) => client.pause_worker(worker).await.map(drop),
        Act::ResumeWorker(worker) => client.resume_worker(worker).await.map(drop),
        Act::Retry(task) => client.retry(task).await.map(drop),
        Act::Quit => Ok(()),
    };
    match done {
        Ok(()) => News::Done(format!("{said}: done")),
        Err(error) => News::Refused(format!("{said}: {error}")),
    }
}
