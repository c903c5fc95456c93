//! Putting a worker together.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::{CLAIM_NAMES_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use windlass_core::{InvalidName, Name};

use super::hand::Hand;
use super::handler::{self, IntoHandler, Registry};
use super::layer::Layer;
use super::outbox::Outbox;
use super::pool::Pool;
use super::port::{Port, Profile, Which};
use super::{CONCURRENCY_MAX, Options, Shared, Worker};

/// Why there is no worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWorker {
    #[error("{name:?}: {error}")]
    Name { name: String, error: InvalidName },
    #[error("a worker needs 1 to {CLAIM_NAMES_MAX} types and queues")]
    TooManyNames,
    #[error("{0} slots in all, {CONCURRENCY_MAX} are possible")]
    TooManySlots(u64),
}

pub struct Builder {
    port: Box<dyn Port>,
    options: Options,
    registry: Registry,
    layers: Vec<Arc<dyn Layer>>,
    /// The first mistake; told at the end, so that the calls before can be chained.
    invalid: Option<InvalidWorker>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("port", &self.port)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(port: Box<dyn Port>) -> Self {
        let (options, registry) = (Options::default(), Registry::default());
        Self { port, options, registry, layers: Vec::new(), invalid: None }
    }

    /// The name of this worker; unless given, one made of host, process and chance.
    pub fn id(mut self, id: &str) -> Self {
        if let Some(id) = self.name(id) {
            self.options.id = id;
        }
        self
    }

    /// The queues to serve; when several have work, each gets its share by weight.
    pub fn queues<'a>(mut self, queues: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        self.options.queues.clear();
        for (name, weight) in queues {
            if let Some(name) = self.name(name) {
                self.options.queues.push(Queue { name, weight });
            }
        }
        self
    }

    /// Serve the queues in the order given instead of by weight.
    pub fn strict(mut self) -> Self {
        self.options.mode = Mode::Strict;
        self
    }

    pub fn concurrency(mut self, n: u32) -> Self {
        self.options.concurrency = n;
        self
    }

    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    pub fn drain_for(mut self, grace: Duration) -> Self {
        self.options.drain_for = grace;
        self
    }

    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The handler of one type: an async function of `(Context, T)`, of `(Context, Job)`, or a [`handler::Handler`].
    pub fn handler<M>(self, kind: &str, handler: impl IntoHandler<M>) -> Self {
        self.handler_with(kind, handler::Options::default(), handler)
    }

    pub fn handler_with<M>(
        mut self,
        kind: &str,
        options: handler::Options,
        handler: impl IntoHandler<M>,
    ) -> Self {
        if let Some(kind) = self.name(kind) {
            self.registry.add(kind, handler.into_handler(), options);
        }
        self
    }

    /// Puts a layer around all handlers. A task passes the layers in the order in which they were added.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    pub fn build(mut self) -> Result<Worker, InvalidWorker> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let options = &mut self.options;
        options.concurrency = options.concurrency.clamp(1, CONCURRENCY_MAX);
        let (shortest, longest) = (Duration::from_millis(LEASE_MS_MIN), Duration::from_millis(LEASE_MS_MAX));
        options.lease = options.lease.clamp(shortest, longest);
        self.registry.wrap(&self.layers);
        let (types, apart) = (self.registry.shared(), self.registry.apart());
        let names = 1..=CLAIM_NAMES_MAX;
        if !names.contains(&(types.len() + apart.len())) || !names.contains(&options.queues.len()) {
            return Err(InvalidWorker::TooManyNames);
        }
        let mut pools = Vec::new();
        if !types.is_empty() {
            pools.push((Which::Shared, options.concurrency));
        }
        for (kind, slots) in &apart {
            pools.push((Which::Apart(kind.clone()), (*slots).clamp(1, CONCURRENCY_MAX)));
        }
        let slots: u64 = pools.iter().map(|(_, slots)| u64::from(*slots)).sum();
        let slots = u32::try_from(slots)
            .ok()
            .filter(|slots| *slots <= CONCURRENCY_MAX)
            .ok_or(InvalidWorker::TooManySlots(slots))?;
        let profile = Profile {
            worker: options.id.clone(),
            incarnation: rand::random_range(1..=u64::MAX),
            host: super::host(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            queues: options.queues.clone(),
            mode: options.mode,
            types,
            apart: apart.into_iter().map(|(kind, _)| kind).collect(),
            slots,
            lease: options.lease,
        };
        let hand = Hand::default();
        self.port.begin(Arc::new(profile), hand.clone());
        let shared = Shared {
            port: self.port,
            options: self.options,
            registry: self.registry,
            pools: pools.into_iter().map(|(which, slots)| Arc::new(Pool::new(which, slots))).collect(),
            slots: slots as usize,
            hand,
            outbox: Outbox::default(),
            hurry: Default::default(),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    fn name(&mut self, text: &str) -> Option<Name> {
        Name::new(text)
            .map_err(|error| {
                self.invalid.get_or_insert(InvalidWorker::Name { name: text.to_owned(), error });
            })
            .ok()
    }
}
