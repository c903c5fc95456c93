//! Middleware: what every task passes on its way to its handler.
//!
//! A layer takes a handler and gives one back, as in tower. Tower's own traits are not used: a handler is always ready
//! (the worker's slots are the backpressure), its answer is an [`Outcome`] and never an error, and a `Service` would cost
//! a clone and a second box for every task.

use std::future::Future;
use std::sync::Arc;

use windlass_core::Name;

use super::context::{Context, Job};
use super::handler::{Handler, Running};
use super::outcome::{IntoOutcome, Outcome};

/// Wraps the handler of one type.
pub trait Layer: Send + Sync + 'static {
    fn layer(&self, kind: &Name, inner: Arc<dyn Handler>) -> Arc<dyn Handler>;
}

/// The rest of the way.
#[derive(Clone)]
pub struct Next(Arc<dyn Handler>);

impl Next {
    pub async fn run(self, context: Context, job: Job) -> Outcome {
        self.0.run(context, job).await
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Next")
    }
}

/// A layer from an async function of `(Context, Job, Next)`, for all types alike.
pub fn around<F, R>(function: F) -> impl Layer
where
    F: Fn(Context, Job, Next) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    Around(Arc::new(function))
}

struct Around<F>(Arc<F>);

impl<F, R> Layer for Around<F>
where
    F: Fn(Context, Job, Next) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn layer(&self, _: &Name, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(Wrapped { function: self.0.clone(), next: Next(inner) })
    }
}

struct Wrapped<F> {
    function: Arc<F>,
    next: Next,
}

impl<F, R> Handler for Wrapped<F>
where
    F: Fn(Context, Job, Next) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn run(&self, context: Context, job: Job) -> Running {
        let running = (self.function)(context, job, self.next.clone());
        Box::pin(async move { running.await.into_outcome() })
    }
}
