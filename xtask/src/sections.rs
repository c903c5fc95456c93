//! A run as a row of named sections with their durations, so that a reader sees what is slow and what failed.

use std::time::Instant;

/// Runs one section between a heading and a line with its duration; an error names the section.
pub(crate) fn section(name: &str, body: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("── {name}");
    let start = Instant::now();
    let outcome = body();
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            println!("── {name}: ok, {seconds:.1} s\n");
            Ok(())
        }
        Err(error) => {
            println!("── {name}: FAILED, {seconds:.1} s\n");
            Err(format!("section `{name}` failed: {error}"))
        }
    }
}
