//! A claim, on the side of its caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::Task;

use super::super::Shared;
use super::super::handover::Handover;
use crate::store::{Claim, Error};
use crate::waiting::Ticket;

/// How long a claim whose wait is over still waits for a call that was under way: longer than a busy Redis takes, and
/// short if Redis does not answer at all.
const LAST_ANSWER_WAIT: Duration = Duration::from_secs(1);

impl Shared {
    /// Leases what there is, waiting if asked.
    pub(in super::super) async fn claim(self: &Arc<Self>, claim: Claim) -> Result<Vec<Task>, Error> {
        self.check_open()?;
        if claim.max == 0 {
            return Ok(Vec::new());
        }
        let wait = Duration::from_millis(claim.wait_ms);
        if wait.is_zero() {
            return self.claim_now(claim).await;
        }
        let (reply, answer) = oneshot::channel();
        let ticket = self.waits.enter(claim, reply)?;
        let mut caller = Caller { shared: self, ticket, answer };
        match tokio::time::timeout(wait, &mut caller.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => match caller.last_answer().await {
                Some(answer) => answer,
                None => caller.leave().unwrap_or_else(|| Ok(Vec::new())),
            },
        }
    }

    /// Runs apart from the caller, so that tasks are given back if it goes away while Redis answers.
    async fn claim_now(self: &Arc<Self>, claim: Claim) -> Result<Vec<Task>, Error> {
        let (reply, answer) = oneshot::channel();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // Those who came before have a look before it.
            shared.waits.settled().await;
            if let Err(Ok(tasks)) = reply.send(shared.claim_one(&claim).await) {
                shared.give_back(tasks).await;
            }
        });
        let shared = Arc::clone(self);
        let back = |tasks: Vec<Task>| drop(tokio::spawn(async move { shared.give_back(tasks).await }));
        Handover { answer, back: Some(back) }.taken().await
    }
}

/// A claim that waits, on the side of its caller. It leaves the line when it is dropped, and what it was served by then goes
/// back.
#[derive(Debug)]
struct Caller<'a> {
    shared: &'a Arc<Shared>,
    ticket: Ticket,
    answer: oneshot::Receiver<Result<Vec<Task>, Error>>,
}

impl Caller<'_> {
    /// The answer of the call that was under way when the wait ended, if there was one.
    async fn last_answer(&mut self) -> Option<Result<Vec<Task>, Error>> {
        if !self.shared.waits.leave_or_await(self.ticket) {
            return None;
        }
        let answer = tokio::time::timeout(LAST_ANSWER_WAIT, &mut self.answer).await.ok()?;
        Some(answer.unwrap_or(Err(Error::Closed)))
    }

    /// Gives up waiting, unless it was served in the last moment.
    fn leave(&mut self) -> Option<Result<Vec<Task>, Error>> {
        self.shared.waits.leave(self.ticket);
        self.answer.try_recv().ok()
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // From here on sending fails, so that tasks on their way go back too.
        self.answer.close();
        if let Some(Ok(tasks)) = self.leave()
            && !tasks.is_empty()
        {
            let shared = Arc::clone(self.shared);
            tokio::spawn(async move { shared.give_back(tasks).await });
        }
    }
}
