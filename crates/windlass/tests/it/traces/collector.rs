//! A collector that keeps what it is sent. It reads OTLP by messages of its own, so that a mistake in those of the broker
//! cannot hide.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use prost::Message;

#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

/// A span in words.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for the first of a trace.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) status: i32,
    pub(crate) error: String,
    pub(crate) attributes: HashMap<String, String>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let keep = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let keep = keep.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &keep));
            }
        });
        Self { url, received }
    }

    /// What came, in the order of beginnings.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let resources = received.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans);
        let mut spans: Vec<Span> = spans.map(Span::of).collect();
        spans.sort_by_key(|span| span.begin);
        spans
    }

    pub(crate) fn service(&self) -> String {
        let received = self.received.lock().unwrap();
        let resource = received[0].resource_spans[0].resource.clone().unwrap();
        words(&resource.attributes)["service.name"].clone()
    }
}

fn serve(stream: TcpStream, keep: &Mutex<Vec<ExportTraceServiceRequest>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim_end().is_empty() {
                break;
            }
            head.push(line.trim_end().to_ascii_lowercase());
        }
        assert_eq!(head[0], "post /v1/traces http/1.1");
        assert!(head.iter().any(|line| line == "content-type: application/x-protobuf"), "{head:?}");
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        keep.lock().unwrap().push(ExportTraceServiceRequest::decode(&*body).unwrap());
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
    }
}

impl Span {
    fn of(span: &WireSpan) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        let status = span.status.clone().unwrap_or_default();
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name.clone(),
            kind: span.kind,
            begin: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
            status: status.code,
            error: status.message,
            attributes: words(&span.attributes),
        }
    }
}

fn words(attributes: &[KeyValue]) -> HashMap<String, String> {
    let word = |attribute: &KeyValue| {
        let value = attribute.value.clone().unwrap_or_default();
        let number = value.int_value.map(|number| number.to_string());
        (attribute.key.clone(), value.string_value.or(number).unwrap_or_default())
    };
    attributes.iter().map(word).collect()
}

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<WireSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct WireSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
    #[prost(int64, optional, tag = "3")]
    int_value: Option<i64>,
}
