//! Handlers and the registry that finds them by task type.
//!
//! A handler is anything that takes a [`Context`] and a task. Most are async functions: of `(Context, T)`, where `T` is
//! what the payload is read into, or of `(Context, Job)` for those who want the task as it came.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use windlass_core::Name;

use super::context::{Context, Job};
use super::layer::Layer;
use super::outcome::{IntoOutcome, Outcome};

pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs the tasks of one type. Plain async functions of `(Context, Job)` are handlers.
pub trait Handler: Send + Sync + 'static {
    fn run(&self, context: Context, job: Job) -> Running;
}

impl<F, R> Handler for F
where
    F: Fn(Context, Job) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn run(&self, context: Context, job: Job) -> Running {
        let running = self(context, job);
        Box::pin(async move { running.await.into_outcome() })
    }
}

/// What [`super::Builder::handler`] takes. `M` only tells the kinds apart; the compiler finds it.
pub trait IntoHandler<M> {
    fn into_handler(self) -> Arc<dyn Handler>;
}

/// Marks handlers as such.
#[derive(Debug)]
pub struct Plain;

/// Marks functions of a typed payload.
#[derive(Debug)]
pub struct Typed<T>(PhantomData<T>);

impl<H: Handler> IntoHandler<Plain> for H {
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(self)
    }
}

impl<F, T, R> IntoHandler<Typed<T>> for F
where
    F: Fn(Context, T) -> R + Send + Sync + 'static,
    T: DeserializeOwned + Send + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(typed(self))
    }
}

/// A function of a typed payload as a handler. A payload that does not fit is fatal: no retry will change it.
pub fn typed<F, T, R>(function: F) -> impl Handler
where
    F: Fn(Context, T) -> R + Send + Sync + 'static,
    T: DeserializeOwned + Send + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    TypedHandler { function, input: PhantomData::<fn(T)> }
}

struct TypedHandler<F, T> {
    function: F,
    input: PhantomData<fn(T)>,
}

impl<F, T, R> Handler for TypedHandler<F, T>
where
    F: Fn(Context, T) -> R + Send + Sync + 'static,
    T: DeserializeOwned + Send + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn run(&self, context: Context, job: Job) -> Running {
        match job.json::<T>() {
            Ok(input) => {
                let running = (self.function)(context, input);
                Box::pin(async move { running.await.into_outcome() })
            }
            Err(failure) => Box::pin(std::future::ready(Outcome::from(failure))),
        }
    }
}

/// What may be set for one type.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Shortens the task's own time limit.
    pub timeout: Option<Duration>,
    /// Slots for this type alone, besides those that the other types share: neither can starve the other.
    pub concurrency: Option<u32>,
}

pub(super) struct Entry {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) options: Options,
    /// Whether the last of them ended without ever waiting: then the next is worth a try in passing.
    pub(super) brief: AtomicBool,
}

impl Entry {
    pub(super) fn is_brief(&self) -> bool {
        self.brief.load(Ordering::Relaxed)
    }

    pub(super) fn set_brief(&self, brief: bool) {
        if self.is_brief() != brief {
            self.brief.store(brief, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("options", &self.options).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: BTreeMap<Name, Arc<Entry>>,
}

impl Registry {
    pub(super) fn add(&mut self, kind: Name, handler: Arc<dyn Handler>, options: Options) {
        let entry = Entry { handler, options, brief: AtomicBool::new(true) };
        self.entries.insert(kind, Arc::new(entry));
    }

    /// Puts the layers around every handler, the first one outermost.
    pub(super) fn wrap(&mut self, layers: &[Arc<dyn Layer>]) {
        for (kind, entry) in &mut self.entries {
            let handler =
                layers.iter().rev().fold(entry.handler.clone(), |inner, layer| layer.layer(kind, inner));
            let options = entry.options.clone();
            *entry = Arc::new(Entry { handler, options, brief: AtomicBool::new(true) });
        }
    }

    pub(super) fn get(&self, kind: &Name) -> Option<&Arc<Entry>> {
        self.entries.get(kind)
    }

    /// Types that share the worker's slots.
    pub(super) fn shared(&self) -> Vec<Name> {
        self.iter()
            .filter(|(_, options)| options.concurrency.is_none())
            .map(|(kind, _)| kind.clone())
            .collect()
    }

    /// Types with slots of their own, and how many.
    pub(super) fn apart(&self) -> Vec<(Name, u32)> {
        self.iter().filter_map(|(kind, options)| Some((kind.clone(), options.concurrency?))).collect()
    }

    pub(super) fn types(&self) -> Vec<Name> {
        self.entries.keys().cloned().collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&Name, &Options)> {
        self.entries.iter().map(|(kind, entry)| (kind, &entry.options))
    }
}
