//! One timer for all the waits of a connection.
//!
//! Every request waits under a limit that is hardly ever reached. A timer of its own for each costs two turns of the runtime's
//! lock. One that lasts is left as it is by a wait that ends later than it rings, which is nearly every one, because limits of one
//! kind come to an end in the order in which they began; when it rings too early, it is moved on.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;

/// Clones are the same timer: it serves one wait at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lasting(Arc<Mutex<Option<Armed>>>);

#[derive(Debug)]
struct Armed {
    /// Of the wait under way.
    deadline: tokio::time::Instant,
    /// Rings then, or before.
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Lasting {
    /// What the future gives, or `None` if it takes longer. What is ready at once never meets the timer.
    pub(crate) async fn within<F: Future + Unpin>(
        &self,
        limit: Duration,
        mut future: F,
    ) -> Option<F::Output> {
        let mut armed = false;
        poll_fn(|cx| {
            if let Poll::Ready(output) = Pin::new(&mut future).poll(cx) {
                return Poll::Ready(Some(output));
            }
            if !std::mem::replace(&mut armed, true) {
                self.set(tokio::time::Instant::now() + limit);
            }
            self.poll_over(cx).map(|()| None)
        })
        .await
    }

    fn set(&self, deadline: tokio::time::Instant) {
        let mut armed = self.0.lock();
        let armed = armed
            .get_or_insert_with(|| Armed { deadline, timer: Box::pin(tokio::time::sleep_until(deadline)) });
        armed.deadline = deadline;
        if armed.timer.deadline() > deadline {
            armed.timer.as_mut().reset(deadline);
        }
    }

    fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut armed = self.0.lock();
        let Some(Armed { deadline, timer }) = armed.as_mut() else { return Poll::Ready(()) };
        ready!(timer.as_mut().poll(cx));
        if timer.deadline() >= *deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(*deadline);
        timer.as_mut().poll(cx)
    }
}

/// One wait of hyper's. It makes a new one for every head and drops it when the head is there; the timer stays.
#[derive(Debug)]
struct Wait(Lasting);

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_over(cx)
    }
}

impl Sleep for Wait {}

impl Timer for Lasting {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.set(deadline.into());
        Box::pin(Wait(self.clone()))
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_limit_though_the_timer_is_one() {
        let timer = Lasting::default();
        // sleep: simulated time, what the waits are for.
        let pause = |seconds| Box::pin(tokio::time::sleep(Duration::from_secs(seconds)));
        let began = tokio::time::Instant::now();
        for _ in 0..3 {
            assert_eq!(timer.within(Duration::from_secs(5), pause(4)).await, Some(()));
        }
        assert_eq!(began.elapsed().as_secs(), 12, "no wait was cut short by the one before");
        assert_eq!(timer.within(Duration::from_secs(5), pause(6)).await, None);
        assert_eq!(timer.within(Duration::from_secs(1), pause(2)).await, None, "nor made longer");
        assert_eq!(began.elapsed().as_secs(), 18);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_of_hyper_ends_at_its_deadline() {
        let timer = Lasting::default();
        let began = tokio::time::Instant::now();
        drop(timer.sleep(Duration::from_secs(1)));
        timer.sleep_until(timer.now() + Duration::from_secs(30)).await;
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
