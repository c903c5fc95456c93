//! What must hold for every operation of the document.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::tests::{app, get, send};
use super::complete::PROBLEM;

async fn document() -> Value {
    send(&app(), get("/api/openapi.json")).await.1
}

/// Every operation, by method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect()
}

/// Every `$ref` below a value.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn operations_have_ids_of_their_own() {
    let document = document().await;
    let operations = operations(&document);
    let ids: BTreeSet<&str> = operations.iter().map(|(_, it)| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len(), "{ids:?}");
}

#[tokio::test]
async fn references_lead_somewhere_and_components_are_used() {
    let document = document().await;
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').expect("references stay in the document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for (kind, components) in document["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(found.contains(reference.as_str()), "nothing refers to {reference}");
        }
    }
}

#[tokio::test]
async fn operations_name_the_refusals_that_follow_from_what_they_take() {
    let document = document().await;
    let takes = |operation: &Value, place: &str| {
        operation["parameters"].as_array().into_iter().flatten().any(|parameter| parameter["in"] == place)
    };
    for (name, operation) in operations(&document) {
        let mut wanted = vec!["400", "421", "500", "503"];
        if takes(operation, "path") {
            wanted.push("404");
        }
        if takes(operation, "query") {
            wanted.push("422");
        }
        if operation["requestBody"].is_object() {
            wanted.extend(["408", "413", "415", "422"]);
        }
        if !name.starts_with("get ") {
            wanted.extend(["403", "507"]);
        }
        for status in wanted {
            let mut answer = &operation["responses"][status];
            if let Some(reference) = answer["$ref"].as_str() {
                answer = document.pointer(&reference[1..]).unwrap();
            }
            assert!(answer["content"][PROBLEM].is_object(), "{name} does not describe {status}");
            assert!(answer["headers"]["X-Request-Id"].is_object(), "{name} {status}");
            assert_eq!(answer["headers"]["Retry-After"].is_object(), status == "503", "{name} {status}");
        }
    }
}

#[tokio::test]
async fn requests_have_no_other_fields_than_those_described() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    for name in ["SubmitBody", "WorkflowTask", "ScheduleTask", "RetryBody", "LeaseRef", "ProgressBody"] {
        assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
    }
    assert!(schemas["SubmitBody"]["properties"]["after"].is_null());
    assert!(schemas["WorkflowTask"]["properties"]["after"].is_object());
    assert!(schemas["ScheduleTask"]["properties"]["id"].is_null());
}
