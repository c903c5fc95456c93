//! The figures of `bench http` for people.

use super::{Flow, Results};
use crate::bench::report::{Table, count, megabytes, percent};

pub(super) fn all(results: &Results) -> Vec<Table> {
    vec![submit(results), flows(results), latency(results), server(results)]
}

fn submit(results: &Results) -> Table {
    let head = ["CONNECTIONS", "SUBMITS/S", "ECHOES/S", "RATIO", "P50", "P99", "P99.9", "MAX"];
    results.submit.iter().fold(
        Table::new("One task per request, and an echo of the request", &head),
        |table, row| {
            let figures = [
                row.connections.to_string(),
                count(row.submits_per_second),
                count(row.echoes_per_second),
                percent(row.ratio),
            ];
            table.row(figures.into_iter().chain(row.latency.cells()))
        },
    )
}

fn flows(results: &Results) -> Table {
    let row = |name: &str, flow: &Flow| {
        [name.to_owned(), flow.batch.to_string(), flow.connections.to_string(), count(flow.tasks_per_second)]
    };
    Table::new("Tasks", &["", "BATCH", "CONNECTIONS", "TASKS/S"])
        .row(row("submit in batches", &results.submit_batch))
        .row(row("drain", &results.drain))
        .row(row("drain, claiming in batches", &results.drain_batch))
        .row(row("end to end", &results.end_to_end))
        .row(row("end to end in batches", &results.end_to_end_batch))
}

fn latency(results: &Results) -> Table {
    let table = Table::new("Latency at a fixed rate", &["TASKS/S", "UNTIL", "P50", "P99", "P99.9", "MAX"]);
    results.latency.iter().fold(table, |table, row| {
        let cells = |until: &str| [count(row.rate as f64), until.to_owned()];
        table
            .row(cells("claimed").into_iter().chain(row.submit_to_claimed.cells()))
            .row(cells("answered").into_iter().chain(row.submit_answered.cells()))
    })
}

fn server(results: &Results) -> Table {
    Table::new("Broker process", &["", "CPU", "MEMORY"])
        .row([
            "idle".to_owned(),
            format!("{:.1} % of a core", results.idle.cpu * 100.0),
            megabytes(results.idle.rss_bytes),
        ])
        .row(["after the bench".to_owned(), String::new(), megabytes(results.server.rss_bytes)])
        .row(["peak".to_owned(), String::new(), megabytes(results.server.rss_peak_bytes)])
}
