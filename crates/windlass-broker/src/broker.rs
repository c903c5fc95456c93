//! The handle that everything else holds, and its beginning and end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::{Now, limits};
use windlass_store::{Clock, Store};

use crate::change::Progressing;
use crate::clock_watch::ClockWatch;
use crate::events::{self, Feed};
use crate::gather::Gather;
use crate::loops::{self, Loops};
use crate::metrics::Counters;
use crate::process::Process;
use crate::recorder::Recorder;
use crate::schedules::{Awaited, Stuck};
use crate::traces::Tracer;
use crate::watchers::Watchers;
use crate::workers::Registry;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The lease of a claim that names none.
    pub lease_ms: u64,
    /// Refuse a submit when this many tasks of its queue wait.
    pub max_depth: Option<u64>,
    /// A worker that heartbeats is dead after this long without a beat.
    pub worker_dead_after_ms: u64,
    /// How long finished tasks are kept when a submit does not say; read by the edge.
    pub retention_ms: u64,
    /// Forget dead letters beyond this many, those submitted first.
    pub dead_letters_max: Option<u64>,
    /// Refuse whoever wants to hear events when this many do.
    pub listeners_max: usize,
    /// Where events are told, if not on the runtime of the broker: a place for those who listen, so that however many they are, tasks
    /// come first.
    pub audience: Option<Handle>,
    /// Who is told what to make spans of.
    pub tracer: Option<Arc<Tracer>>,
    pub recording: Recording,
}

/// Whether the broker keeps the figures of the last days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Recording {
    #[default]
    Off,
    /// Until it stops.
    InMemory,
    /// Saved to a file now and then and when it stops, and read from there when it starts.
    InFile(PathBuf),
}

impl Recording {
    fn file(&self) -> Option<&Path> {
        match self {
            Recording::InFile(path) => Some(path),
            Recording::Off | Recording::InMemory => None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_ms: limits::LEASE_MS_DEFAULT,
            max_depth: None,
            worker_dead_after_ms: 20_000,
            retention_ms: limits::RETENTION_MS_DEFAULT,
            dead_letters_max: None,
            listeners_max: limits::LISTENERS_MAX,
            audience: None,
            recording: Recording::default(),
            tracer: None,
        }
    }
}

/// A running broker. Clones are the same broker.
#[derive(Debug, Clone)]
pub struct Broker {
    pub(crate) inner: Arc<Inner>,
    /// With whose submits those of this handle go to the store.
    pub(crate) gather: Arc<Gather>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) started: Now,
    pub(crate) events: Arc<Feed>,
    pub(crate) counters: Counters,
    pub(crate) recorder: Recorder,
    pub(crate) watchers: Watchers,
    pub(crate) workers: Registry,
    pub(crate) loops: Loops,
    pub(crate) progressing: Progressing,
    pub(crate) awaited: Awaited,
    pub(crate) clock_watch: ClockWatch,
    pub(crate) stuck: Stuck,
    /// Every schedule was looked at since the start.
    pub(crate) cron_began: AtomicBool,
    /// Why the store stopped for good, once it has.
    pub(crate) failed: Mutex<Option<String>>,
    pub(crate) gate: watch::Sender<Gate>,
    pub(crate) stopping: CancellationToken,
    tasks: TaskTracker,
}

/// What can end or hold up a claim that waits; every waiting claim watches it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gate {
    pub(crate) draining: bool,
    /// Grows when a worker is paused or resumed.
    pub(crate) pauses: u64,
}

impl Broker {
    /// Starts the loops, which run until [`Broker::stop`]; must be called inside a tokio runtime.
    pub fn start(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Broker {
        let started = clock.now();
        let on = settings.recording != Recording::Off;
        let recorder = Recorder::open(on, settings.recording.file(), started, Process::look().cpu_us)
            .of_shared_store(store.signals().observed.is_none());
        let broker = Broker {
            gather: Arc::default(),
            inner: Arc::new(Inner {
                events: Feed::new(clock.clone(), store.signals()),
                counters: Counters::new(started.mono),
                recorder,
                watchers: Watchers::default(),
                workers: Registry::new(settings.worker_dead_after_ms),
                loops: Loops::default(),
                progressing: Progressing::default(),
                awaited: Awaited::default(),
                clock_watch: ClockWatch::default(),
                stuck: Stuck::default(),
                cron_began: AtomicBool::new(false),
                failed: Mutex::new(None),
                gate: watch::Sender::new(Gate::default()),
                stopping: CancellationToken::new(),
                tasks: TaskTracker::new(),
                store,
                clock,
                settings,
                started,
            }),
        };
        // Those of an earlier life were told then.
        broker.inner.store.signals().lapsed.take();
        for this in &loops::ALL {
            broker.inner.tasks.spawn(loops::keep(broker.clone(), this));
        }
        broker.inner.tasks.spawn(watch_store(broker.clone()));
        let audience = broker.inner.settings.audience.clone().unwrap_or_else(Handle::current);
        broker.inner.tasks.spawn_on(events::pump(broker.clone()), &audience);
        broker.inner.tasks.spawn_on(events::tell_figures(broker.clone()), &audience);
        broker
    }

    /// The same broker for one thread of several: what its clients submit goes to the store together, and apart from that of others.
    pub fn of_thread(&self) -> Broker {
        Broker { inner: Arc::clone(&self.inner), gather: Arc::default() }
    }

    /// The same for a thread that does nothing but serve clients who submit: it may be held up while what they bring is written.
    pub fn of_writing_thread(&self) -> Broker {
        Broker { inner: Arc::clone(&self.inner), gather: Arc::new(Gather::here()) }
    }

    /// Whether such a thread is of any use to the store.
    pub fn has_use_for_threads(&self) -> bool {
        self.inner.store.writes_here()
    }

    /// Gives out no more leases and ends the claims that wait. Everything else still works, so that running tasks can
    /// report their outcome.
    pub fn drain(&self) {
        self.inner.gate.send_modify(|gate| gate.draining = true);
    }

    pub fn is_draining(&self) -> bool {
        self.inner.gate.borrow().draining
    }

    /// Ready when the broker drains.
    pub async fn drained(&self) {
        let mut gate = self.inner.gate.subscribe();
        // The sender lives as long as the broker.
        let _ = gate.wait_for(|gate| gate.draining).await;
    }

    /// Drains, and stops the loops after the step they are in; the recorded figures are saved. The store stays open.
    pub async fn stop(&self) {
        self.drain();
        self.inner.stopping.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.recorder.save(self.now()).await;
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn now(&self) -> Now {
        self.inner.clock.now()
    }

    /// A lease within the limits.
    pub(crate) fn lease_ms(&self, asked: Option<u64>) -> u64 {
        asked.unwrap_or(self.inner.settings.lease_ms).clamp(limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)
    }
}

async fn watch_store(broker: Broker) {
    tokio::select! {
        () = broker.inner.stopping.cancelled() => {}
        reason = broker.inner.store.failed() => {
            tracing::error!(reason, "the store has stopped");
            *broker.inner.failed.lock() = Some(reason);
        }
    }
}
