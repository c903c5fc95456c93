//! Workflows as people read them.

use std::collections::{HashMap, HashSet};

use windlass_core::StateName;
use windlass_proto::rest::{NodeBody, WorkflowBody};

use crate::cli::output::{escape, table};

pub(super) fn list(items: &[WorkflowBody]) -> String {
    let row = |workflow: &WorkflowBody| {
        vec![
            workflow.id.to_string(),
            workflow.state.clone(),
            format!("{}/{}", workflow.tasks_by_state.completed, workflow.size),
            workflow.tasks_by_state.dead_letter.to_string(),
            workflow.created_at.to_string(),
        ]
    };
    table(&["ID", "STATE", "COMPLETED", "DEAD", "CREATED"], items.iter().map(row).collect())
}

/// A node stands below the last of those that it depends on; what it waits for besides is named.
pub(super) fn tree(workflow: &WorkflowBody) -> String {
    let nodes = workflow.nodes.as_deref().unwrap_or_default();
    let names: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut below: HashMap<&str, Vec<&NodeBody>> = HashMap::new();
    let mut roots = Vec::new();
    for node in nodes {
        match node.after.iter().rev().find(|name| names.contains(name.as_str())) {
            Some(parent) => below.entry(parent).or_default().push(node),
            None => roots.push(node),
        }
    }
    let mut lines = vec![format!(
        "{}  {}  {}/{} completed",
        workflow.id, workflow.state, workflow.tasks_by_state.completed, workflow.size
    )];
    // Deep graphs are chains of thousands, so the way down is a stack of our own.
    let mut stack: Vec<(&NodeBody, usize)> = roots.into_iter().rev().map(|node| (node, 0)).collect();
    while let Some((node, depth)) = stack.pop() {
        lines.push(line(node, depth));
        let children = below.get(node.name.as_str()).into_iter().flatten().rev();
        stack.extend(children.map(|child| (*child, depth + 1)));
    }
    lines.join("\n")
}

fn line(node: &NodeBody, depth: usize) -> String {
    /// Beyond it a tree is as wide as the terminal.
    const DEPTH_SHOWN_MAX: usize = 30;
    const NAMED_MAX: usize = 3;
    let mark = match node.state {
        StateName::Completed => '✓',
        StateName::Running => '▶',
        StateName::DeadLetter => '✗',
        StateName::Cancelled => '–',
        _ => '·',
    };
    let others = node.after.len().saturating_sub(1);
    let also: Vec<&str> = node.after.iter().take(others.min(NAMED_MAX)).map(String::as_str).collect();
    let also = match others {
        0 => String::new(),
        1..=NAMED_MAX => format!("  also after {}", also.join(", ")),
        _ => format!("  also after {} and {} more", also.join(", "), others - NAMED_MAX),
    };
    let error = node.error.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    let error = if error.is_empty() { String::new() } else { format!("  {}", escape(error)) };
    let indent = "  ".repeat(depth.min(DEPTH_SHOWN_MAX));
    format!("{indent}{mark} {}  {}  {}{also}{error}", node.name, node.kind, node.state.as_str())
}
