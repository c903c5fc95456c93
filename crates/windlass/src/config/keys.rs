//! The table of settings. To add one: a line here, a field in [`super::Settings`].

#[derive(Debug)]
pub(crate) struct Key {
    /// `section.key`, as in the file.
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default, about }
}

pub(crate) const KEYS: &[Key] = &[
    key("server.http_addr", "127.0.0.1:8080", "address of the REST interface; port 0 picks a free one"),
    key(
        "server.grpc_addr",
        "127.0.0.1:9090",
        "address of the gRPC interface, or none; port 0 picks a free one",
    ),
    key("server.tcp_addr", "none", "address of the TCP frames, or none; `windlass dev` has 127.0.0.1:7070"),
    key("server.max_payload_bytes", "10MB", "largest payload or result of a task"),
    key(
        "server.connections_max",
        "20000",
        "connections open at once, of each interface, as far as the limit of open files allows",
    ),
    key(
        "server.memory_budget_bytes",
        "auto",
        "memory for bodies under way, answers not taken yet and listeners, of all interfaces; auto is a quarter of the memory limit",
    ),
    key("server.listeners_max", "2000", "listeners to events at once"),
    key(
        "server.listener_stall",
        "10s",
        "how long a listener may go without reading before it is cut, at most 20s",
    ),
    key(
        "server.allowed_origins",
        "none",
        "public addresses of the broker and other origins whose pages may call it, like https://a.example, with commas, or none",
    ),
    key("server.drain", "30s", "how long a shutdown waits for requests and running tasks"),
    key(
        "store.url",
        "embedded",
        "embedded, memory or redis://host[:port][/db][?prefix=word] (also redis+sentinel://, redis+cluster://)",
    ),
    key("store.data_dir", "./windlass-data", "directory of the embedded store"),
    key("store.durability", "sync", "sync, interval:50ms or os"),
    key("store.segment_bytes", "64MiB", "size of a file of the log, and half of that of a file of blocks"),
    key(
        "store.disk_reserve_bytes",
        "256MiB",
        "below this much free space no task is accepted; at least two segments and 8MiB",
    ),
    key(
        "store.dead_letters_max",
        "none",
        "dead letters that are kept, those submitted last, or none for all",
    ),
    key("queue.max_depth", "none", "tasks that may wait in one queue, or none"),
    key("queue.lease", "30s", "length of a lease when a claim names none"),
    key("worker.dead_after", "20s", "silence after which a worker is taken for dead"),
    key(
        "traces.endpoint",
        "none",
        "OTLP collector for traces, as http://127.0.0.1:4318, or none; also OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
    key("traces.service_name", "windlass", "what traces call this broker; also OTEL_SERVICE_NAME"),
    key("log.level", "info", "error, warn, info, debug, trace, or filters as in info,windlass=debug"),
    key("log.format", "auto", "pretty, json, or auto: pretty on a terminal"),
];

pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// `did you mean …?`, or nothing if no key is near.
pub(crate) fn nearest(name: &str) -> String {
    let near = KEYS.iter().map(|key| (strsim::damerau_levenshtein(key.name, name), key.name)).min();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    // The right key in the wrong section is the commonest mistake after a typing error.
    let elsewhere = KEYS.iter().find(|key| last(key.name) == last(name)).map(|key| key.name);
    match (near, elsewhere) {
        (Some((distance, key)), _) if distance <= 3 => format!("; did you mean {key}?"),
        (_, Some(key)) => format!("; did you mean {key}?"),
        _ => String::new(),
    }
}

/// `server.http_addr` → `WINDLASS_SERVER__HTTP_ADDR`.
pub(crate) fn env_name(key: &str) -> String {
    format!("WINDLASS_{}", key.replacen('.', "__", 1).to_ascii_uppercase())
}
