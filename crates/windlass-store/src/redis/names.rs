//! Releasing queues without tasks.

use std::time::{Duration, Instant};

use super::Shared;
use super::hints::Hint;
use super::{reply, script};
use crate::store::{Error, Released};

/// Queues that one script looks at: others are served between two of them.
const PAGE: u64 = 500;
/// How often a refused task may have all queues looked at.
const MAKE_ROOM_EVERY: Duration = Duration::from_secs(10);

/// Which queues without tasks are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idle {
    /// Those that the call before found without tasks too.
    SeenBefore,
    All,
}

impl Shared {
    /// Releases queues without tasks, if this process leads.
    pub(super) async fn release_names(&self) -> Result<Released, Error> {
        self.check_open()?;
        if self.leading().await?.is_none() {
            return Ok(Released::default());
        }
        Ok(Released { names: self.release(Idle::SeenBefore).await?, more: false })
    }

    /// There are as many queues as there may be: releases all without tasks. Returns whether it is worth another try.
    pub(super) async fn make_room(&self) -> Result<bool, Error> {
        let asked = Instant::now();
        // Concurrent callers wait for this scan and share its result.
        let mut last = self.made_room.lock().await;
        match *last {
            Some((ended, released)) if ended >= asked => return Ok(released > 0),
            Some((ended, _)) if ended.elapsed() < MAKE_ROOM_EVERY => return Ok(false),
            _ => {}
        }
        let released = self.release(Idle::All).await?;
        *last = Some((Instant::now(), released));
        Ok(released > 0)
    }

    async fn release(&self, idle: Idle) -> Result<usize, Error> {
        let (mut after, mut released) = (String::new(), 0);
        loop {
            let mut args = self.args(&Hint::default());
            args.text(&after).number(PAGE).flag(idle == Idle::All);
            let [last, count] = reply::fixed(self.link.run(&script::RELEASE, &args).await?)?;
            released += reply::number(count)? as usize;
            after = reply::text(last)?;
            if after.is_empty() {
                return Ok(released);
            }
        }
    }
}
