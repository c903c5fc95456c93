//! The last step to a caller that may go away at any moment.

use tokio::sync::oneshot;

use crate::store::Error;

/// What was served and is on its way to a caller that may go away: sent already, and not yet taken.
#[derive(Debug)]
pub(super) struct Handover<T, B: FnOnce(T)> {
    pub(super) answer: oneshot::Receiver<Result<T, Error>>,
    pub(super) back: Option<B>,
}

impl<T, B: FnOnce(T)> Handover<T, B> {
    pub(super) async fn taken(mut self) -> Result<T, Error> {
        (&mut self.answer).await.unwrap_or(Err(Error::Closed))
    }
}

impl<T, B: FnOnce(T)> Drop for Handover<T, B> {
    fn drop(&mut self) {
        // From here on sending fails, and who sends gives it back.
        self.answer.close();
        if let Ok(Ok(served)) = self.answer.try_recv()
            && let Some(back) = self.back.take()
        {
            back(served);
        }
    }
}
