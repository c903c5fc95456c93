//! Hearing what other processes on the same Redis say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;

use super::Shared;
use super::hints::{Hint, Lane, Loop};
use super::target::Target;

/// How long to leave Redis alone after the connection was lost.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to see who has not spoken for long, when nobody speaks.
const SILENCE: Duration = Duration::from_secs(10);

/// How often everybody who waits is asked for in case a hint was lost: rarely while hints are heard, for then a connection
/// would have to be dead without anybody noticing.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Of a store that is spread a claim may wait in many parts.
const LOOK_EVERY_PART: Duration = Duration::from_secs(60);
const LOOK_EVERY_DEAF: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) fn look_every(&self) -> Duration {
        let usual = match self.hears.load(Ordering::Relaxed) {
            true if self.link.is_part() => LOOK_EVERY_PART,
            true => LOOK_EVERY,
            false => LOOK_EVERY_DEAF,
        };
        self.looks.get().copied().unwrap_or(usual)
    }

    /// Listens until the store is closed. Without a connection nothing is missed for good: who waits looks now and then.
    pub(super) async fn listen(self: Arc<Self>, target: Target, ready: tokio::sync::oneshot::Sender<()>) {
        let mut ready = Some(ready);
        while self.check_open().is_ok() {
            if let Err(error) = self.hear(&target, &mut ready).await {
                tracing::warn!(%error, "hints of other processes are not heard");
            }
            self.can_hear(false);
            ready = None;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn hear(
        &self,
        target: &Target,
        ready: &mut Option<tokio::sync::oneshot::Sender<()>>,
    ) -> Result<(), redis::RedisError> {
        let mut channel = target.pubsub().await?;
        channel.subscribe(self.key("hints")).await?;
        self.can_hear(true);
        self.say(Loop::WhoListens).await;
        // What was said before this is not heard, so everybody looks once.
        self.waits.wake(&[Lane::Everywhere].into());
        if let Some(ready) = ready.take() {
            let _ = ready.send(());
        }
        let mut messages = channel.on_message();
        loop {
            let message = match tokio::time::timeout(SILENCE, messages.next()).await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                Err(_) => {
                    self.forget_audience();
                    continue;
                }
            };
            self.forget_audience();
            let Ok(line) = std::str::from_utf8(message.get_payload_bytes()) else { continue };
            if let Some((origin, hint)) = Hint::read(line)
                && origin != self.origin
            {
                self.heed(&hint);
            }
        }
    }
}
