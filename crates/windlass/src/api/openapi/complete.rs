//! Completes the document with what holds for many operations, so that no handler repeats it: the refusals that follow from
//! what an operation takes, and the headers of every answer.

use serde_json::{Map, Value, json};

pub(super) const PROBLEM: &str = "application/problem+json";

/// A refusal: its status, its name in the document, what it means, and which operations can answer with it.
type Refusal = (&'static str, &'static str, &'static str, fn(&Operation<'_>) -> bool);

const REFUSALS: [Refusal; 12] = [
    ("400", "Malformed", "`malformed`: the request cannot be read; the field is named", |_| true),
    ("403", "ForeignOrigin", "`foreign_origin`: a page of another origin asks", |operation| {
        operation.changes()
    }),
    ("404", "NotFound", "`not_found`", |operation| operation.takes("path")),
    ("408", "BodyTimeout", "`body_timeout`: the body came too slowly", |operation| operation.has_body()),
    ("413", "TooLarge", "`too_large`: the body or a field has too many bytes or items", |operation| {
        operation.has_body()
    }),
    (
        "415",
        "UnsupportedMediaType",
        "`unsupported_media_type`: the body must be JSON that is not compressed",
        |operation| operation.has_body(),
    ),
    ("421", "UnknownHost", "`unknown_host`: a broker on loopback is asked by a public name", |_| true),
    (
        "422",
        "OutOfRange",
        "`out_of_range`, `not_supported` or `invalid`: a value that is not possible; the field is named",
        |operation| operation.has_body() || operation.takes("query"),
    ),
    ("500", "Internal", "`internal`: the server made a mistake", |_| true),
    ("501", "NotImplemented", "The store of this broker cannot do this", |operation| operation.changes()),
    (
        "503",
        "Unavailable",
        "`overloaded`, `queue_full`, `stopping`, `timeout` or `store_failed`: try again later",
        |_| true,
    ),
    ("507", "NoSpace", "`no_space`: the disk is full", |operation| operation.changes()),
];

/// Answers before the request is read, without a body: their status, name and meaning.
type Bare = (&'static str, &'static str, &'static str);

const BARE: [Bare; 2] = [
    ("414", "UriTooLong", "The address has more than 65,534 bytes"),
    ("431", "HeadTooLarge", "The address and the headers are too large together"),
];

struct Operation<'a> {
    method: &'a str,
    value: &'a Value,
}

impl Operation<'_> {
    fn changes(&self) -> bool {
        self.method != "get"
    }

    fn has_body(&self) -> bool {
        self.value["requestBody"].is_object()
    }

    fn takes(&self, place: &str) -> bool {
        let parameters = self.value["parameters"].as_array();
        parameters.into_iter().flatten().any(|parameter| parameter["in"] == place)
    }
}

pub(super) fn complete(document: &utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).expect("the document is made of strings and numbers");
    for (_, item) in members(&mut document["paths"]) {
        for (method, operation) in members(item) {
            let refusals = refusals(&Operation { method, value: operation });
            answers(&mut operation["responses"], &refusals);
            for parameter in
                operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
            {
                without_null(&mut parameter["schema"]);
            }
        }
    }
    let problem = |refusal: &Refusal| (refusal.1.to_owned(), answer(refusal));
    let bare = |(_, name, description): &Bare| ((*name).to_owned(), json!({"description": description}));
    let responses: Map<_, _> = REFUSALS.iter().map(problem).chain(BARE.iter().map(bare)).collect();
    document["components"]["responses"] = responses.into();
    document["components"]["headers"] = json!({
        "RequestId": {
            "description": "The id of the request: what the client sent as `X-Request-Id`, or a random one",
            "required": true,
            "schema": {"$ref": "#/components/schemas/Name"},
        },
        "RetryAfter": {
            "description": "Seconds after which to try again",
            "required": true,
            "schema": {"type": "integer", "minimum": 0},
        },
    });
    document
}

/// The refusals that an operation can answer with.
fn refusals(operation: &Operation<'_>) -> Vec<&'static Refusal> {
    REFUSALS.iter().filter(|(.., applies)| applies(operation)).collect()
}

/// Adds the refusals, and the headers that every answer has.
fn answers(responses: &mut Value, refusals: &[&Refusal]) {
    for (status, answer) in members(responses) {
        answer["headers"] = headers(status);
    }
    for (status, name, _) in BARE {
        responses[status] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    for refusal @ (status, name, ..) in refusals {
        match responses.get_mut(status) {
            None => responses[status] = json!({"$ref": format!("#/components/responses/{name}")}),
            // The handler says more about it. Its own body is an answer of the operation, and not the only one.
            Some(own) => {
                if own["content"].get(PROBLEM).is_none() {
                    own["content"][PROBLEM] = answer(refusal)["content"][PROBLEM].take();
                }
            }
        }
    }
}

fn answer((status, _, description, _): &Refusal) -> Value {
    let content = json!({PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}});
    json!({"description": description, "headers": headers(status), "content": content})
}

fn headers(status: &str) -> Value {
    let mut headers = json!({"X-Request-Id": {"$ref": "#/components/headers/RequestId"}});
    if matches!(status, "429" | "503") {
        headers["Retry-After"] = json!({"$ref": "#/components/headers/RetryAfter"});
    }
    headers
}

/// A parameter that is not given is left out; there is no null in a query.
fn without_null(schema: &mut Value) {
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
        if let [only] = &choices[..] {
            *schema = only.clone();
        }
    }
}

fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}
