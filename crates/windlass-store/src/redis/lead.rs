//! Who acts on time. Of all processes on one Redis one leads at a time; the loops of the others find nothing to do.
//!
//! The lead is a key that ends by itself unless it is renewed, and has a term that never comes again (`lua/lead.lua`). What a
//! leader does is conditional like everything else, so a second one for a moment would do no harm but work twice.
//!
//! Of a store that is spread whoever leads the first part leads all: it *seizes* each of the others before it acts there, for a term of
//! that part, and as long as it leads the first one nothing has to be renewed. So an idle store costs about the same however many parts it
//! has. A part remembers for which term of the first one it was last seized, and refuses an earlier one: whoever was taken for dead
//! and comes back cannot take a part from its successor. If the first part came back without its last writes and gives terms again,
//! its leader is refused elsewhere and begins a term above all that were met.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::hints::{Hint, Loop};
use super::{reply, script};
use crate::store::Error;

/// How long a leader that says nothing still leads: as long nobody acts on time after it died.
const LEAD: Duration = Duration::from_secs(6);
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Others ask when the lead may be over, and so much later that they do not all ask at once.
const TURN_SPREAD_MS: u64 = 400;
/// How long the connections of a process that has just ended may still be counted.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Leader {
    /// The mark, and until when it is certain without asking again.
    mark: Mutex<Option<(String, Instant)>>,
    /// Of a part that is seized.
    follows: OnceLock<Follows>,
}

/// What leads a part that is not the first one.
#[derive(Debug)]
struct Follows {
    head: Arc<Shared>,
    /// The mark of the first part for which this one was seized, and its own.
    seized: Mutex<Option<(String, String)>>,
    /// One loop at a time seizes it.
    seizing: tokio::sync::Mutex<()>,
}

impl Leader {
    /// The mark if this process leads.
    pub(super) fn mark(&self) -> Option<String> {
        if let Some(Follows { head, seized, .. }) = self.follows.get() {
            let leads = head.leader.mark()?;
            let seized = seized.lock();
            return seized.as_ref().filter(|(under, _)| *under == leads).map(|(_, mark)| mark.clone());
        }
        let mark = self.mark.lock();
        mark.as_ref().filter(|(_, until)| Instant::now() < *until).map(|(mark, _)| mark.clone())
    }

    /// It leads until then. Of two answers with one mark the later moment counts, whichever came last.
    fn keep(&self, mark: String, until: Instant) {
        let mut kept = self.mark.lock();
        let before = kept.take().filter(|(held, _)| *held == mark);
        *kept = Some((mark, before.map_or(until, |(_, before)| before.max(until))));
    }

    /// Whether it led, and may not do so any more because it could not ask in time.
    fn has_lapsed(&self) -> bool {
        self.mark.lock().as_ref().is_some_and(|(_, until)| Instant::now() >= *until)
    }

    /// Whoever leads this part leads the one that it belongs to.
    pub(super) fn follow(&self, head: &Arc<Shared>) {
        let (seized, seizing) = (Mutex::default(), tokio::sync::Mutex::default());
        let _ = self.follows.set(Follows { head: Arc::clone(head), seized, seizing });
    }

    pub(super) fn lose(&self) {
        *self.mark.lock() = None;
        if let Some(follows) = self.follows.get() {
            *follows.seized.lock() = None;
        }
    }
}

impl Shared {
    /// The mark if this process leads. One that was held up for so long that its lead may be over asks at once: mostly nobody
    /// else has it.
    pub(super) async fn leading(&self) -> Result<Option<String>, Error> {
        match self.leader.follows.get() {
            Some(follows) => {
                if follows.head.leader.has_lapsed() {
                    follows.head.lead().await?;
                }
                self.seize(follows).await?;
            }
            None if self.leader.has_lapsed() => {
                self.lead().await?;
            }
            None => {}
        }
        Ok(self.leader.mark())
    }

    /// Leads a part if this process leads the first one.
    async fn seize(&self, Follows { head, seized, seizing }: &Follows) -> Result<(), Error> {
        let _one = seizing.lock().await;
        let Some(under) = head.leader.mark() else { return Ok(()) };
        if self.leader.mark().is_some() || self.check_open().is_err() {
            return Ok(());
        }
        let mut args = self.args(&Hint::default());
        args.text(&self.origin).number(term(&under).map_or(0, |(_, term)| term)).text("seize");
        let answer = self.link.run(&script::LEAD, &args).await?;
        if let redis::Value::Int(later) = answer {
            head.lead().await?;
            if head.leader.mark() == Some(under) {
                head.resign(u64::try_from(later).unwrap_or(0)).await?;
                head.turn.notify_one();
            }
            return Ok(());
        }
        let mark = reply::text(answer)?;
        let last = seized.lock().replace((under, mark.clone()));
        if !last.is_some_and(|(_, last)| goes_on(&last, &mark)) {
            self.watch.lock().clear();
        }
        self.observe().await
    }

    /// Begins or goes on to lead, unless somebody else does; says when to ask again.
    pub(super) async fn lead(&self) -> Result<Duration, Error> {
        let asked = Instant::now();
        let (before, last) = (self.leader.mark(), self.leader.mark.lock().clone());
        let mut args = self.args(&Hint::default());
        args.text(&self.origin).number(LEAD.as_millis() as u64).text("lead");
        args.number(self.clock.now().elapsed());
        let answer = self.link.run(&script::LEAD, &args).await?;
        if let redis::Value::Int(left_ms) = answer {
            self.leader.lose();
            let left = u64::try_from(left_ms).map_or(LEAD, Duration::from_millis);
            return Ok(left + Duration::from_millis(rand::random_range(10..TURN_SPREAD_MS)));
        }
        let mark = reply::text(answer)?;
        if !last.is_some_and(|(last, _)| goes_on(&last, &mark)) {
            self.watch.lock().clear();
        }
        let begins = before.as_ref() != Some(&mark);
        self.leader.keep(mark, asked + LEAD);
        if begins {
            self.observe().await?;
            self.wake_loops();
        }
        Ok(RENEW_EVERY)
    }

    /// The next term is above one that was met elsewhere.
    pub(super) async fn resign(&self, met: u64) -> Result<(), Error> {
        self.leader.lose();
        let mut args = self.args(&Hint::default().wakes(Loop::Leader));
        args.text(&self.origin).number(met).text("resign");
        self.link.run(&script::LEAD, &args).await.map(drop)
    }

    /// Leads or waits for its turn, until the store is closed. Whoever leads looks for leases that began elsewhere.
    pub(super) async fn keep_leading(self: Arc<Self>) {
        let mut pause = RENEW_EVERY;
        loop {
            let _ = tokio::time::timeout(pause, self.turn.notified()).await;
            if self.check_open().is_err() {
                return;
            }
            pause = match self.lead().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "cannot ask who leads");
                    RENEW_EVERY
                }
            };
            self.signals.leases.notify_one();
        }
    }

    /// How many others listen to the hints; one, if nobody does but somebody leads.
    pub(super) async fn others(&self) -> Result<u64, Error> {
        let began = Instant::now();
        loop {
            let others = self.listening().await?.saturating_sub(1);
            let passed = began.elapsed();
            if others == 0 && self.leader.mark().is_some() {
                return Ok(0);
            }
            if passed > LEAD + RENEW_EVERY || (others > 0 && passed > FAREWELL) {
                return Ok(others.max(1));
            }
            // sleep: a process that ends tells nobody, nor does a lead that runs out.
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.lead().await?;
        }
    }

    /// How many processes listen to the hints, this one included.
    async fn listening(&self) -> Result<u64, Error> {
        let mut ask = redis::cmd("PUBSUB");
        ask.arg("NUMSUB").arg(self.key("hints"));
        let mut listening = 0;
        // Of a cluster each may listen to another node, and a node counts its own.
        for answer in self.link.ask_all(&ask).await? {
            listening += reply::number(match answer {
                redis::Value::Array(pair) => pair.into_iter().nth(1).unwrap_or_default(),
                redis::Value::Map(pairs) => pairs.into_iter().next().map(|pair| pair.1).unwrap_or_default(),
                _ => redis::Value::Nil,
            })?;
        }
        Ok(listening)
    }

    fn wake_loops(&self) {
        let signals = &self.signals;
        for signal in [
            &signals.due,
            &signals.prunable,
            &signals.leases,
            &signals.schedules,
            &signals.operations,
            &signals.dependents,
            &signals.gates,
        ] {
            signal.notify_one();
        }
    }
}

/// Whether nobody else led between two marks of this process: then what it timed still holds.
fn goes_on(last: &str, mark: &str) -> bool {
    match (term(last), term(mark)) {
        (Some((before, last)), Some((who, term))) => before == who && (last..=last + 1).contains(&term),
        _ => false,
    }
}

/// Who a mark is of, and for which term.
fn term(mark: &str) -> Option<(String, u64)> {
    let (who, term) = mark.rsplit_once(':')?;
    Some((who.to_owned(), term.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_shorten_a_lead() {
        let (leader, now) = (Leader::default(), Instant::now());
        let until = |leader: &Leader| leader.mark.lock().as_ref().map(|(_, until)| *until);
        leader.keep("a:1".to_owned(), now + LEAD);
        leader.keep("a:1".to_owned(), now);
        assert_eq!(until(&leader), Some(now + LEAD));
        leader.keep("a:2".to_owned(), now);
        assert_eq!(until(&leader), Some(now), "another term has its own");
    }

    #[test]
    fn a_lead_goes_on_unless_somebody_else_had_it() {
        for (last, mark, expected) in [
            ("a:3", "a:3", true),
            ("a:3", "a:4", true),
            ("a:3", "a:5", false),
            ("b:3", "a:4", false),
            ("a:4", "a:3", false),
        ] {
            assert_eq!(goes_on(last, mark), expected, "{last} {mark}");
        }
    }
}
