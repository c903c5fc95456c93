//! What the process takes of the machine, under the names that every exporter uses. What a system does not tell is left out.

use windlass_broker::{Process, ProcessLimits};

use super::text::Text;

pub(super) fn write(text: &mut Text, now: u64) {
    let process = Process::look();
    let limits = ProcessLimits::look(now);
    let seconds = process.cpu_us as f64 / 1e6;
    text.counter("process_cpu_seconds_total", "User and system time.", seconds);
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            text.gauge(name, help, value);
        }
    };
    let number = |value: Option<u64>| value.map(|value| value as f64);
    gauge("process_resident_memory_bytes", "Memory in use.", number(process.resident_bytes));
    gauge("process_virtual_memory_bytes", "Address space in use.", number(process.virtual_bytes));
    gauge("process_threads", "Threads.", number(process.threads));
    gauge("process_open_fds", "Open files and connections.", number(limits.open_fds));
    gauge("process_max_fds", "How many may be open.", number(limits.max_fds));
    let started = limits.started_at_ms.map(|ms| ms as f64 / 1000.0);
    gauge("process_start_time_seconds", "When the process started, since 1970.", started);
}
