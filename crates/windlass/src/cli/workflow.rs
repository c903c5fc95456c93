//! `windlass workflow …`.

mod show;

use serde_json::value::RawValue;
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_proto::rest::WorkflowBody;

use super::args::{Connect, ListPage, One};
use super::error::Failure;
use super::output::Output;
use super::submit;

/// Nodes that `get` shows as a tree; what is beyond is counted only.
const SHOWN_MAX: usize = 5000;

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass workflow submit @nightly.json
  windlass workflow get nightly
  windlass workflow retry nightly")]
pub(crate) enum Command {
    /// Submit a graph of tasks, all or none
    Submit(SubmitArgs),
    /// Show how far it is, as a tree
    Get(One),
    /// List workflows, newest first
    List(ListPage),
    /// Cancel every task that has not ended
    Cancel(One),
    /// Run it again from where it failed
    Retry(One),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArgs {
    /// JSON, @FILE, or - for standard input
    #[arg(value_name = "GRAPH")]
    graph: String,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Submit(args) => {
            let text = submit::payload(Some(&args.graph))?.unwrap_or_default();
            let graph: &RawValue = serde_json::from_slice(&text)
                .map_err(|error| Failure::usage(format!("the graph is not JSON: {error}")))?;
            let made = args.connect.client()?.submit_workflow_text(graph).await?;
            output.value(&made, || made.id.to_string());
        }
        Command::Get(one) => {
            let workflow = whole(&one).await?;
            output.value(&workflow, || show::tree(&workflow));
        }
        Command::List(args) => {
            let page = args.connect.client()?.workflows(args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show::list(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Cancel(one) => {
            let workflow = one.connect.client()?.cancel_workflow(&one.id).await?;
            output.value(&workflow, || format!("{} cancelled", workflow.affected.unwrap_or(0)));
        }
        Command::Retry(one) => {
            let workflow = one.connect.client()?.retry_workflow(&one.id).await?;
            output.value(&workflow, || format!("{} run again", workflow.affected.unwrap_or(0)));
        }
    }
    Ok(())
}

/// The workflow with as many nodes as are shown, page by page.
async fn whole(one: &One) -> Result<WorkflowBody, Failure> {
    let client = one.connect.client()?;
    let mut workflow = client.workflow(&one.id, PAGE_ROWS_MAX, None).await?;
    while let Some(cursor) = workflow.next_cursor.take() {
        let nodes = workflow.nodes.get_or_insert_default();
        if nodes.len() >= SHOWN_MAX {
            break;
        }
        let page = client.workflow(&one.id, PAGE_ROWS_MAX, Some(&cursor)).await?;
        nodes.extend(page.nodes.unwrap_or_default());
        workflow.next_cursor = page.next_cursor;
    }
    Ok(workflow)
}
