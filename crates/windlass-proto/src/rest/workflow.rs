//! Graphs of tasks.

mod show;

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use windlass_core::limits::{
    DEPENDENCIES_MAX, NODE_NAME_BYTES_MAX, WORKFLOW_EDGES_MAX, WORKFLOW_ID_BYTES_MAX, WORKFLOW_TASKS_MAX,
};
use windlass_core::{Name, workflow};

use super::decode::decode_item;
use super::invalid::{Fault, Invalid};
#[cfg(feature = "openapi")]
use super::schema;
use super::submission::Submission;
use super::submit::SubmitBody;
use super::text;

pub use show::{DependenciesBody, DependencyBody, NodeBody, WorkflowBody, WorkflowPage};

/// The name of the task that `then` stands for.
const THEN: &str = "then";

/// A graph of tasks that is submitted as one: all of them or none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowInput<'a> {
    /// Chosen by the client, to make a repeated submit harmless; otherwise a UUID v7 is given. Up to 63 characters.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkflowId>))]
    pub id: Option<Name>,
    /// Up to 12,000 tasks by name: submit bodies without an id, with `after` for the names of those that must complete first.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkflowTasks))]
    pub tasks: NodesInput<'a>,
    /// A task that runs when all others have completed. Its name is `then`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkflowTask>))]
    pub then: Option<&'a RawValue>,
}

/// The nodes in the order in which they were written.
#[derive(Debug, Default)]
pub struct NodesInput<'a>(pub Vec<(Name, &'a RawValue)>);

impl Serialize for NodesInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, node)| (name.as_str(), node)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for NodesInput<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nodes;
        impl<'de> Visitor<'de> for Nodes {
            type Value = NodesInput<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tasks by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodesInput<'de>, A::Error> {
                let mut nodes = Vec::new();
                while let Some((name, node)) = map.next_entry::<String, &'de RawValue>()? {
                    let wrong = |error| A::Error::custom(format!("the name {name:?} {error}"));
                    nodes.push((name.parse::<Name>().map_err(wrong)?, node));
                }
                Ok(NodesInput(nodes))
            }
        }
        deserializer.deserialize_map(Nodes)
    }
}

/// A graph that passed every check that needs no broker. Each node stands behind those that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowSubmission {
    pub id: Option<Name>,
    pub nodes: Vec<NodeSubmission>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeSubmission {
    pub name: Name,
    pub submission: Submission,
    pub after: Vec<Name>,
}

impl WorkflowInput<'_> {
    /// `source` is the body that this was read from, `now` the wall clock, `payload_max` in bytes.
    pub fn check(self, source: &Bytes, now: u64, payload_max: usize) -> Result<WorkflowSubmission, Invalid> {
        let node = |(name, raw): &(Name, &RawValue)| {
            let body: SubmitBody<'_> = decode_item(raw)?;
            let after = body.after.clone().unwrap_or_default();
            let submission = body.check_node(source, now, payload_max)?;
            Ok(NodeSubmission { name: name.clone(), submission, after })
        };
        let checked = |item: &(Name, &RawValue)| {
            node(item).map_err(|invalid: Invalid| invalid.within(&format!("tasks.{}", item.0)))
        };
        size(self.tasks.0.len())?;
        let mut nodes = self.tasks.0.iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        if let Some(raw) = self.then {
            let name = Name::new(THEN).expect("a valid name");
            let then = node(&(name, raw)).map_err(|invalid| invalid.within(THEN))?;
            nodes.push(behind_all(then, &nodes)?);
        }
        check_graph(self.id, nodes)
    }
}

/// What every door checks: names, sizes, and that there is an order.
pub(crate) fn check_graph(
    id: Option<Name>,
    nodes: Vec<NodeSubmission>,
) -> Result<WorkflowSubmission, Invalid> {
    if id.as_ref().is_some_and(|id| id.as_str().len() > WORKFLOW_ID_BYTES_MAX) {
        let message = format!("must be at most {WORKFLOW_ID_BYTES_MAX} bytes long");
        return Err(Invalid::out_of_range("id", message));
    }
    size(nodes.len())?;
    let mut index: HashMap<Name, usize> = HashMap::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        check_node(node)?;
        if index.insert(node.name.clone(), i).is_some() {
            return Err(Invalid::malformed("tasks", format!("has two tasks of the name {}", node.name)));
        }
    }
    let after = nodes.iter().map(|node| parents(node, &index)).collect::<Result<Vec<_>, _>>()?;
    let edges: usize = nodes.iter().map(|node| node.after.len() + outside(node)).sum();
    if edges > WORKFLOW_EDGES_MAX {
        let message = format!("have {edges} dependencies in all, {WORKFLOW_EDGES_MAX} are allowed");
        return Err(Invalid::out_of_range("tasks", message));
    }
    let order = workflow::order(&after).map_err(|cycle| {
        let path = cycle.named(|node| &nodes[node].name);
        Invalid::out_of_range("tasks", format!("depend on each other in a cycle: {path}"))
    })?;
    let mut nodes: Vec<Option<NodeSubmission>> = nodes.into_iter().map(Some).collect();
    let nodes = order.into_iter().filter_map(|node| nodes[node].take()).collect();
    Ok(WorkflowSubmission { id, nodes })
}

fn size(tasks: usize) -> Result<(), Invalid> {
    match tasks {
        0 => Err(Invalid::malformed("tasks", "must not be empty")),
        1..=WORKFLOW_TASKS_MAX => Ok(()),
        _ => {
            let message = format!("has {tasks} tasks, {WORKFLOW_TASKS_MAX} are allowed");
            Err(Invalid::new(Fault::TooLarge, "tasks", message))
        }
    }
}

fn check_node(node: &NodeSubmission) -> Result<(), Invalid> {
    let field = |field: &str| format!("tasks.{}{field}", node.name);
    if node.name.as_str().len() > NODE_NAME_BYTES_MAX {
        let message = format!("the name must be at most {NODE_NAME_BYTES_MAX} bytes long");
        return Err(Invalid::out_of_range(field(""), message));
    }
    if node.name.as_str().contains(':') {
        return Err(Invalid::malformed(field(""), "the name may not contain a colon"));
    }
    if node.submission.id.is_some() {
        let message = "is made of the id of the workflow and the name of the task";
        return Err(Invalid::new(Fault::NotSupported, field(".id"), message));
    }
    if node.submission.unique.is_some() {
        let message = "is not possible in a workflow, whose tasks are all new";
        return Err(Invalid::new(Fault::NotSupported, field(".unique_key"), message));
    }
    let count = node.after.len() + outside(node);
    if count > DEPENDENCIES_MAX {
        let message = format!("depends on {count} tasks, {DEPENDENCIES_MAX} are allowed");
        return Err(Invalid::out_of_range(field(".after"), message));
    }
    Ok(())
}

/// How many tasks outside of the graph a node depends on.
fn outside(node: &NodeSubmission) -> usize {
    node.submission.links.as_ref().map_or(0, |links| links.dependencies.len())
}

/// The nodes that a node depends on, by index, each once.
fn parents(node: &NodeSubmission, index: &HashMap<Name, usize>) -> Result<Vec<usize>, Invalid> {
    let mut parents = Vec::with_capacity(node.after.len());
    for name in &node.after {
        let field = || format!("tasks.{}.after", node.name);
        let parent = index.get(name).ok_or_else(|| {
            Invalid::out_of_range(field(), format!("there is no task {name} in this workflow"))
        })?;
        parents.push(*parent);
    }
    let mut once = parents.clone();
    once.sort_unstable();
    once.dedup();
    match once.len() == parents.len() {
        true => Ok(parents),
        false => Err(Invalid::malformed(format!("tasks.{}.after", node.name), "names a task twice")),
    }
}

/// The completion task waits for every node that no other waits for, and so for all.
pub(crate) fn behind_all(then: NodeSubmission, nodes: &[NodeSubmission]) -> Result<NodeSubmission, Invalid> {
    if !then.after.is_empty() {
        return Err(Invalid::malformed("then.after", "it runs after all others"));
    }
    let waited_for: std::collections::HashSet<&Name> = nodes.iter().flat_map(|node| &node.after).collect();
    let last = nodes.iter().map(|node| &node.name).filter(|name| !waited_for.contains(name));
    Ok(NodeSubmission { after: last.cloned().collect(), ..then })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::decode;

    fn check(text: &str) -> Result<WorkflowSubmission, Invalid> {
        let source = Bytes::copy_from_slice(text.as_bytes());
        decode::<WorkflowInput<'_>>(&source)?.check(&source, 1_800_000_000_000, 1000)
    }

    fn names(submission: &WorkflowSubmission) -> Vec<&str> {
        submission.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn nodes_stand_behind_what_they_depend_on() {
        let text = r#"{"id":"nightly","tasks":{
            "load":{"type":"load","after":["clean","fetch"]},
            "clean":{"type":"clean","after":["fetch"],"dependencies":["outside"]},
            "fetch":{"type":"fetch","payload":{"n" : 1}}}}"#;
        let checked = check(text).unwrap();
        assert_eq!(names(&checked), ["fetch", "clean", "load"]);
        assert_eq!(checked.id.as_ref().map(Name::as_str), Some("nightly"));
        assert_eq!(checked.nodes[0].submission.payload.bytes(), &r#"{"n" : 1}"#);
        assert_eq!(checked.nodes[2].after.iter().map(Name::as_str).collect::<Vec<_>>(), ["clean", "fetch"]);
        assert!(checked.nodes[1].submission.links.is_some());
    }

    #[test]
    fn a_completion_task_waits_for_the_last() {
        let text = r#"{"tasks":{"a":{"type":"t"},"b":{"type":"t","after":["a"]},"c":{"type":"t"}},"then":{"type":"end"}}"#;
        let checked = check(text).unwrap();
        let then = checked.nodes.last().unwrap();
        assert_eq!(then.name.as_str(), "then");
        assert_eq!(then.after.iter().map(Name::as_str).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn every_mistake_has_its_status_and_field() {
        let long = "x".repeat(65);
        let table = [
            (r#"{"tasks":{}}"#.to_owned(), 400, "tasks"),
            (r#"{}"#.to_owned(), 400, "tasks"),
            (r#"{"tasks":{"a b":{"type":"t"}}}"#.to_owned(), 400, "tasks"),
            (r#"{"tasks":{"a:b":{"type":"t"}}}"#.to_owned(), 400, "tasks.a:b"),
            (format!(r#"{{"tasks":{{"{long}":{{"type":"t"}}}}}}"#), 422, &*format!("tasks.{long}")),
            (format!(r#"{{"id":"{long}","tasks":{{"a":{{"type":"t"}}}}}}"#), 422, "id"),
            (r#"{"tasks":{"a":{}}}"#.to_owned(), 400, "tasks.a.type"),
            (r#"{"tasks":{"a":{"type":"t","priority":300}}}"#.to_owned(), 422, "tasks.a.priority"),
            (r#"{"tasks":{"a":{"type":"t","id":"x"}}}"#.to_owned(), 422, "tasks.a.id"),
            (r#"{"tasks":{"a":{"type":"t","unique_key":"x"}}}"#.to_owned(), 422, "tasks.a.unique_key"),
            (r#"{"tasks":{"a":{"type":"t","after":["b"]}}}"#.to_owned(), 422, "tasks.a.after"),
            (r#"{"tasks":{"a":{"type":"t","after":"b"}}}"#.to_owned(), 400, "tasks.a.after"),
            (
                r#"{"tasks":{"a":{"type":"t"},"b":{"type":"t","after":["a","a"]}}}"#.to_owned(),
                400,
                "tasks.b.after",
            ),
            (r#"{"tasks":{"a":{"type":"t"},"a":{"type":"t"}}}"#.to_owned(), 400, "tasks"),
            (r#"{"tasks":{"then":{"type":"t"}},"then":{"type":"t"}}"#.to_owned(), 400, "tasks"),
            (
                r#"{"tasks":{"a":{"type":"t"}},"then":{"type":"t","after":["a"]}}"#.to_owned(),
                400,
                "then.after",
            ),
        ];
        for (text, status, field) in table {
            let invalid = check(&text).expect_err(&text);
            assert_eq!((invalid.fault.status(), invalid.field.as_deref()), (status, Some(field)), "{text}");
        }
    }

    #[test]
    fn a_cycle_is_refused_by_name() {
        let text = r#"{"tasks":{"a":{"type":"t"},"b":{"type":"t","after":["a","d"]},"c":{"type":"t","after":["b"]},
            "d":{"type":"t","after":["c"]}}}"#;
        let invalid = check(text).unwrap_err();
        assert_eq!(invalid.message, "depend on each other in a cycle: b → c → d → b");
        assert_eq!(invalid.fault.status(), 422);
    }

    #[test]
    fn a_graph_has_a_largest_size() {
        let nodes = |count: usize| {
            let nodes: Vec<String> = (0..count).map(|i| format!(r#""n{i}":{{"type":"t"}}"#)).collect();
            format!(r#"{{"tasks":{{{}}}}}"#, nodes.join(","))
        };
        assert_eq!(check(&nodes(WORKFLOW_TASKS_MAX)).unwrap().nodes.len(), WORKFLOW_TASKS_MAX);
        assert_eq!(check(&nodes(WORKFLOW_TASKS_MAX + 1)).unwrap_err().fault.status(), 413);
        let ids: Vec<String> = (0..DEPENDENCIES_MAX).map(|i| format!(r#""t{i}""#)).collect();
        let wide = |count: usize| {
            let node = |i| format!(r#""n{i}":{{"type":"t","dependencies":[{}]}}"#, ids.join(","));
            let nodes: Vec<String> = (0..count).map(node).collect();
            format!(r#"{{"tasks":{{"first":{{"type":"t"}},{}}}}}"#, nodes.join(","))
        };
        let most = WORKFLOW_EDGES_MAX / DEPENDENCIES_MAX;
        assert_eq!(check(&wide(most)).unwrap().nodes.len(), most + 1);
        let one_more = wide(most).replacen(r#""n0":{"#, r#""more":{"type":"t","after":["first"]},"n0":{"#, 1);
        let invalid = check(&one_more).unwrap_err();
        assert_eq!((invalid.fault.status(), invalid.field.as_deref()), (422, Some("tasks")));
    }
}
