//! `windlass doctor salvage`: copies the intact data out of a store that is refused.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_store::embedded::Options as StoreOptions;
use windlass_store::embedded::salvage::{self, Loss, Options, Report, Watch};
use windlass_store::{Error, SystemClock};

use crate::cli::error::{CONFLICT, ERROR, Failure, LOST, UNAVAILABLE};
use crate::cli::output::{Output, Progress, escape, fields};

#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  windlass doctor salvage --data-dir ./windlass-data --to ./windlass-new
  windlass doctor salvage --data-dir /var/lib/windlass --to /mnt/new -o json",
    after_help = "The damaged directory is only read. The new one needs room for a copy of it
while the command runs. Everything that is lost is printed, one line each.
Exit code 0: all was copied. 11: something is lost."
)]
pub(crate) struct Args {
    /// Directory that the broker refuses to open
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Directory for the new store: empty, or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    if !args.data_dir.is_dir() {
        return Err(Failure::usage(format!("{} is not a directory", args.data_dir.display())));
    }
    let segment_bytes = StoreOptions::new(&args.to).segment_bytes;
    let options = Options { from: args.data_dir, to: args.to, segment_bytes };
    let mut told = Told { output, bar: output.progress() };
    // A damaged index makes its reader panic, which is expected and handled.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = salvage::salvage(&options, SystemClock::shared(), &mut told).await;
    std::panic::set_hook(hook);
    told.bar.end();
    let report = outcome.map_err(failed)?;
    output.value(&summary(&report), || shown(&report));
    match report.is_whole() {
        true => Ok(()),
        false => {
            let failure = Failure::new(LOST, "some data is lost: see the list");
            Err(failure.hint(format!("start a broker with --data-dir {}", options.to.display())))
        }
    }
}

/// Prints each loss as it is found, because there may be a million.
struct Told<'a> {
    output: &'a Output,
    bar: Progress,
}

impl Watch for Told<'_> {
    fn progress(&mut self, progress: salvage::Progress) {
        self.bar.show(0.0, &format!("{} {}", progress.step, progress.done));
    }

    fn loss(&mut self, loss: Loss) {
        match self.output.is_json() {
            true => self.output.data(&line(&loss).to_string()),
            false => self.output.data(&escape(&loss.to_string())),
        }
    }
}

fn line(loss: &Loss) -> Value {
    let mut line = json!({"loss": loss.kind(), "text": loss.to_string()});
    match loss {
        Loss::Task { id, .. } | Loss::Older { id, .. } | Loss::Cancelled { id } => {
            line["id"] = id.as_str().into();
        }
        Loss::Numbers { from, to, .. } => {
            line["from"] = (*from).into();
            line["to"] = (*to).into();
        }
        Loss::Entries { from, to } => {
            line["from"] = (*from).into();
            line["to"] = (*to).into();
        }
        Loss::File { path, .. } => line["path"] = path.display().to_string().into(),
        Loss::Other { what, .. } => line["what"] = what.as_str().into(),
    }
    line
}

fn summary(report: &Report) -> Value {
    json!({
        "store": report.store,
        "tables": report.tables.as_deref().unwrap_or("whole"),
        "tasks": report.tasks(),
        "exact": report.exact,
        "from_tables": report.saved,
        "from_log": report.submitted,
        "changes": report.changes,
        "claims_not_repeated": report.claims,
        "released": report.released,
        "lost": report.lost,
        "older_state": report.older,
        "cancelled": report.cancelled,
        "other_losses": report.others,
        "damaged_files": report.files,
        "whole": report.is_whole(),
    })
}

fn shown(report: &Report) -> String {
    let rows = [
        ("tables", report.tables.clone().unwrap_or_else(|| "whole".to_owned())),
        ("copied tasks", report.tasks().to_string()),
        ("  exact copies", report.exact.to_string()),
        ("  as of the last checkpoint", report.saved.to_string()),
        ("  as submitted", report.submitted.to_string()),
        ("lost tasks by id", report.lost.to_string()),
        ("in an earlier state", report.older.to_string()),
        ("cancelled", report.cancelled.to_string()),
        ("other losses", report.others.to_string()),
        ("running tasks released", report.released.to_string()),
        ("new store id", report.store.clone()),
    ];
    fields(&rows)
}

fn failed(error: Error) -> Failure {
    let exit = match &error {
        Error::Locked(_) => CONFLICT,
        Error::Io { .. } | Error::NoSpace => UNAVAILABLE,
        _ => ERROR,
    };
    Failure::new(exit, error.to_string())
}
