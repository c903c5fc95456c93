//! Looking at the broker, and asking it for things.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use windlass_client::Error;
use windlass_client::rest::Client;

use super::keys::Act;
use super::snapshot::{Seen, Snapshot, look};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// For all answers of one look; then the broker counts as away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests of the person that wait for the broker.
const ASKED_MAX: usize = 8;
const NEWS_MAX: usize = 8;

#[derive(Debug)]
pub(super) enum News {
    Look(Box<Snapshot>),
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
        tokio::spawn(follow(client, asked, tell));
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

async fn follow(client: Client, mut asked: mpsc::Receiver<Act>, tell: mpsc::Sender<News>) {
    let mut ticks = tokio::time::interval_at(Instant::now(), LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Option<Seen> = None;
    loop {
        tokio::select! {
            act = asked.recv() => {
                let Some(act) = act else { return };
                if tell.send(perform(&client, act).await).await.is_err() {
                    return;
                }
                // What came of it is seen at once.
                ticks.reset_immediately();
                continue;
            }
            _ = ticks.tick() => {}
        }
        let news = match tokio::time::timeout(PATIENCE, look(&client, seen.as_ref())).await {
            Ok(Ok(snapshot)) => {
                seen = Some(Seen::of(&snapshot));
                News::Look(Box::new(snapshot))
            }
            Ok(Err(error)) => News::Lost(error.to_string()),
            Err(_) => News::Lost("it does not answer".to_owned()),
        };
        if tell.send(news).await.is_err() {
            return;
        }
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
