//! The figures of `bench tcp` for people.

use super::Results;
use crate::bench::http::{Flow, Submitted};
use crate::bench::report::{Table, count, megabytes, percent};

pub(super) fn all(results: &Results) -> Vec<Table> {
    vec![submit(results), flows(results), server(results)]
}

fn submit(results: &Results) -> Table {
    let head = ["CONNECTIONS", "AT A TIME", "SUBMITS/S", "ECHOES/S", "RATIO", "P50", "P99", "P99.9", "MAX"];
    let row = |row: &Submitted, depth: u64| {
        let figures = [
            row.connections.to_string(),
            depth.to_string(),
            count(row.submits_per_second),
            count(row.echoes_per_second),
            percent(row.ratio),
        ];
        figures.into_iter().chain(row.latency.cells()).collect::<Vec<_>>()
    };
    let table = Table::new("One task per frame, and an echo of the frame", &head);
    let table = results.submit.iter().fold(table, |table, submitted| table.row(row(submitted, 1)));
    table.row(row(&results.submit_pipelined, results.submit_batch.batch))
}

fn flows(results: &Results) -> Table {
    let row = |name: &str, flow: &Flow| {
        [name.to_owned(), flow.batch.to_string(), flow.connections.to_string(), count(flow.tasks_per_second)]
    };
    Table::new("Tasks", &["", "BATCH", "CONNECTIONS", "TASKS/S"])
        .row(row("submit in batches", &results.submit_batch))
        .row(row("drain", &results.drain))
        .row(row("drain in batches", &results.drain_batch))
}

fn server(results: &Results) -> Table {
    Table::new("Broker process", &["", "MEMORY"])
        .row(["after the bench".to_owned(), megabytes(results.server.rss_bytes)])
        .row(["peak".to_owned(), megabytes(results.server.rss_peak_bytes)])
}
