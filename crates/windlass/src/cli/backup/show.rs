//! The output of `windlass backup`.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use windlass_store::backup::{self, Manifest};
use windlass_store::embedded::RestoredBackup;

use crate::cli::output::{self, Output, fields};

/// The JSON output.
#[derive(Debug, Serialize)]
struct Body<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_claim: Option<u64>,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

pub(super) fn progress(bar: &output::Progress, verb: &str, progress: backup::Progress) {
    let share = progress.done as f64 / progress.total.max(1) as f64;
    let megabytes = progress.bytes / 1_000_000;
    bar.show(share, &format!("{verb} {} of {} rows, {megabytes} MB", progress.done, progress.total));
}

/// Prints the result of a backup. If the stream went to standard output, the result goes to standard error.
pub(super) fn created(to: &Path, piped: bool, manifest: &Manifest, output: &Output) {
    if piped {
        output.note(&format!(
            "backed up {} tasks at log position {}, sha256 {}",
            manifest.tasks, manifest.opening.log_position, manifest.sha256
        ));
        return;
    }
    let body = Body { path: to.display().to_string(), data_dir: None, next_claim: None, manifest };
    output.value(&body, || text(&[("backup", body.path.clone())], manifest));
}

pub(super) fn verified(path: &Path, manifest: &Manifest, output: &Output) {
    let body = Body { path: path.display().to_string(), data_dir: None, next_claim: None, manifest };
    output.value(&body, || {
        text(&[("backup", body.path.clone()), ("verified", "whole and undamaged".to_owned())], manifest)
    });
}

pub(super) fn restored(path: &Path, dir: &Path, restored: &RestoredBackup, output: &Output) {
    let RestoredBackup { manifest, next_claim } = restored;
    let body = Body {
        path: path.display().to_string(),
        data_dir: Some(dir.display().to_string()),
        next_claim: Some(*next_claim),
        manifest,
    };
    let data_dir = dir.display().to_string();
    output
        .value(&body, || text(&[("restored", body.path.clone()), ("data dir", data_dir.clone())], manifest));
    if !output.is_json() {
        output.note(&format!("start it with: windlass serve --data-dir {data_dir}"));
    }
}

fn text(first: &[(&str, String)], manifest: &Manifest) -> String {
    let created = Timestamp::from_millisecond(manifest.opening.created_at_ms as i64);
    let rest = [
        ("tasks", manifest.tasks.to_string()),
        ("log position", manifest.opening.log_position.to_string()),
        ("created", created.map(|at| at.to_string()).unwrap_or_default()),
        ("bytes", manifest.bytes.to_string()),
        ("sha256", manifest.sha256.clone()),
    ];
    fields(&first.iter().cloned().chain(rest).collect::<Vec<_>>())
}
