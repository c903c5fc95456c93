//! From figures to a table, charts, and the section of the docs. Everything that shows a figure is made here, so that none is
//! typed.

mod charts;
mod docs;
mod markdown;
mod svg;
mod targets;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::results::Results;

/// Writes everything to `output`, and the section of the docs if `home` is given.
pub(crate) fn write(results: &Results, output: &Path, home: Option<&Path>) -> Result<()> {
    fs::create_dir_all(output).with_context(|| format!("make {}", output.display()))?;
    let json = serde_json::to_string_pretty(results).context("write the results")?;
    put(&output.join("results.json"), &(json + "\n"))?;
    let charts = charts::all(results);
    for chart in &charts {
        put(&output.join(&chart.file), &chart.svg)?;
    }
    put(&output.join("results.md"), &markdown::page(results, &charts))?;
    match home {
        Some(home) => docs::write(results, &charts, &home.join("../../docs/benchmarks.md")),
        None => Ok(()),
    }
}

/// Writes table, charts and docs anew from results that are there.
pub(crate) fn again(output: &Path, home: &Path) -> Result<()> {
    let file = output.join("results.json");
    let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
    let results: Results = serde_json::from_slice(&text).context("read the results")?;
    write(&results, output, Some(home))
}

fn put(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("write {}", file.display()))
}
