//! `windlass migrate`: moves everything from one store into another, and compares the two.

mod place;
mod show;

use windlass_store::migrate::{self, Copied, Error, Job, Running, Survey, Verified};
use windlass_store::{Error as StoreError, Feature, SystemClock};

use super::error::{CONFLICT, ERROR, Failure, UNAVAILABLE};
use super::output::Output;
use place::Place;

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass migrate --from /var/lib/windlass --to redis://localhost --dry-run
  windlass migrate --from ./windlass-data --to 'redis://localhost?prefix=shop'
  windlass migrate --from redis://localhost --to ./windlass-data --verify-only")]
pub(crate) struct Args {
    /// The store to read: a data directory, or redis://host
    #[arg(long, value_name = "STORE")]
    from: Place,
    /// The store to fill: a data directory, or redis://host
    #[arg(long, value_name = "STORE")]
    to: Place,
    /// What becomes of tasks that a worker holds
    #[arg(long, value_enum, default_value_t = RunningTasks::Keep)]
    running: RunningTasks,
    /// Only say what would be moved, and whether it can be
    #[arg(long)]
    dry_run: bool,
    /// Copy nothing; compare the two stores
    #[arg(long, conflicts_with = "dry_run")]
    verify_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RunningTasks {
    /// They stay with their worker, as when a broker is restarted
    Keep,
    /// They are ready for another worker at once
    Release,
    /// Nothing is moved while there are any
    Refuse,
}

/// What was done.
#[derive(Debug)]
struct Outcome {
    survey: Survey,
    copied: Option<Copied>,
    verified: Option<Verified>,
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    if args.from == args.to {
        return Err(Failure::usage("--from and --to are the same store"));
    }
    let from = args.from.open_source().await?;
    let to = match args.to.open_destination().await {
        Ok(to) => to,
        Err(failure) => {
            let _ = from.close().await;
            return Err(failure);
        }
    };
    let running = match args.running {
        RunningTasks::Keep => Running::Keep,
        RunningTasks::Release => Running::Release,
        RunningTasks::Refuse => Running::Refuse,
    };
    let job = Job { from: &*from, to: &*to, running, at: SystemClock::shared().now().wall };
    let moved = work(&job, &args, output).await;
    // What was copied is written down whatever became of the rest.
    let closed = [from.close().await, to.close().await];
    match moved {
        Ok(outcome) => {
            for closed in closed {
                closed.map_err(|error| Failure::error(format!("cannot close: {error}")))?;
            }
            show::outcome(&args, &outcome, output);
            Ok(())
        }
        Err(error) => Err(failed(error, output)),
    }
}

async fn work(job: &Job<'_>, args: &Args, output: &Output) -> Result<Outcome, Error> {
    let bar = output.progress();
    let mut watch = |progress: migrate::Progress| {
        // A line for every task would cost more than the task.
        if progress.done.is_multiple_of(64) || progress.done == progress.total {
            let share = progress.done as f64 / progress.total.max(1) as f64;
            bar.show(share, &format!("{} {} of {}", progress.step, progress.done, progress.total));
        }
    };
    let mut outcome = Outcome { survey: Survey::default(), copied: None, verified: None };
    outcome.survey = match args.verify_only {
        true => migrate::look(job).await?,
        false => migrate::survey(job, &mut watch).await?,
    };
    if !args.dry_run {
        if !args.verify_only {
            mark(args, &outcome.survey).await?;
            outcome.copied = Some(migrate::copy(job, &outcome.survey, &mut watch).await?);
        }
        outcome.verified = Some(migrate::verify(job, &outcome.survey, &mut watch).await?);
        // The comparison has passed, so the copy is complete, whichever run made it.
        args.to.unmark().await.map_err(Error::To)?;
    }
    bar.end();
    Ok(outcome)
}

/// Marks the destination, so that only a migration opens it until it is complete. A destination that has all tasks already is not
/// marked, because brokers may have used it. One with some of the tasks is refused, unless an earlier run has marked it.
async fn mark(args: &Args, survey: &Survey) -> Result<(), Error> {
    let unfinished = args.to.unfinished_source().await.map_err(Error::To)?;
    match (unfinished, survey.there) {
        (None, 0) => args.to.mark(&args.from).await.map_err(Error::To),
        (None, there) if there < survey.tasks => {
            let tasks = format!("it has {there} tasks already, which no unfinished migration has copied");
            Err(Error::NotEmpty(tasks))
        }
        _ => Ok(()),
    }
}

fn failed(error: Error, output: &Output) -> Failure {
    let exit = match &error {
        Error::Running(_) | Error::NotEmpty(_) | Error::Clash(_) | Error::Changed => CONFLICT,
        Error::From(StoreError::Io { .. } | StoreError::NoSpace | StoreError::Busy)
        | Error::To(StoreError::Io { .. } | StoreError::NoSpace | StoreError::Busy) => UNAVAILABLE,
        _ => ERROR,
    };
    let mut message = format!("{error} ({})", error.code());
    let hint = match &error {
        Error::Running(_) => "stop the workers first, or choose --running keep or release",
        Error::NotEmpty(_) => "name an empty directory, or another ?prefix=",
        Error::Unsupported { feature: Feature::Together | Feature::FlowTogether, .. } => {
            "make the destination with ?shards=1: then it is on one node, and nothing is refused"
        }
        Error::Changed => "stop every broker and worker that uses the source, and begin again",
        Error::Different { .. } => "the source was not touched; empty the destination and begin again",
        Error::From(_) | Error::To(_) => "run the same command again: it goes on where it was",
        _ => "",
    };
    if let Error::Different { some, .. } = &error {
        show::differences(some, output);
        for difference in some {
            message.push_str(&format!("\n  {} {}", difference.what, difference.how));
        }
    }
    let failure = Failure::new(exit, message);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
