//! How many tasks a worker is ready to take.

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::limits::WORK_CREDITS_MAX;
use windlass_proto::rest::Invalid;

/// Written by the reader of a stream, spent by its claimer alone.
#[derive(Debug, Default)]
pub(super) struct Credits {
    open: Mutex<Open>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    count: u32,
    /// The worker wants no more tasks, and to know when there will be none.
    stop: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Tasks(u32),
    Stop,
}

impl Credits {
    pub(super) fn add(&self, more: u32) -> Result<(), Invalid> {
        if more == 0 {
            return Ok(());
        }
        let mut open = self.open.lock();
        match open.count.checked_add(more).filter(|count| *count <= WORK_CREDITS_MAX) {
            Some(count) => open.count = count,
            None => {
                return Err(Invalid::out_of_range(
                    "credits",
                    format!("at most {WORK_CREDITS_MAX} open at once"),
                ));
            }
        }
        drop(open);
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn spend(&self, count: usize) {
        let mut open = self.open.lock();
        open.count = open.count.saturating_sub(count as u32);
    }

    pub(super) fn stop(&self) {
        *self.open.lock() = Open { count: 0, stop: true };
        self.changed.notify_one();
    }

    /// The next thing to do. A wish to stop is told once.
    pub(super) async fn next(&self) -> Wish {
        loop {
            {
                let mut open = self.open.lock();
                if std::mem::take(&mut open.stop) {
                    return Wish::Stop;
                }
                if open.count > 0 {
                    return Wish::Tasks(open.count);
                }
            }
            self.changed.notified().await;
        }
    }

    /// Ready when there is a wish to stop.
    pub(super) async fn stopping(&self) {
        while !self.open.lock().stop {
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credits_add_up_and_are_voided() {
        let credits = Credits::default();
        credits.add(3).unwrap();
        credits.add(4).unwrap();
        assert_eq!(credits.next().await, Wish::Tasks(7));
        credits.spend(5);
        assert_eq!(credits.next().await, Wish::Tasks(2));
        assert!(credits.add(WORK_CREDITS_MAX).is_err());
        assert!(credits.add(u32::MAX).is_err());
        credits.stop();
        credits.stopping().await;
        assert_eq!(credits.next().await, Wish::Stop);
        credits.add(1).unwrap();
        assert_eq!(credits.next().await, Wish::Tasks(1));
    }
}
