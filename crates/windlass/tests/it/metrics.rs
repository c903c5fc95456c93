//! The metrics page and the recorded figures of the running binary.

mod load;
mod scan;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::Client;
use crate::python;
use scan::{Expected, scraped};

const RANGE: &str = "/api/v1/metrics/range";

#[test]
fn the_figures_agree_with_a_scan_of_the_store_after_everything_that_can_happen() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    let facts = load::run(&mut client);
    let expected = Expected::scan(&mut client, &facts);
    let page = scraped(&mut client);
    expected.check_counters(&page);
    expected.check_gauges(&page, 1.0);
    let ledger = client.get("/api/v1/stats").expect(200)["ledger"].clone();
    expected.check_ledger(&ledger);

    // What is counted begins anew; what is there is there.
    broker.kill_and_restart();
    let mut client = broker.client();
    let expected = Expected::scan(&mut client, &facts);
    let page = scraped(&mut client);
    expected.check_gauges(&page, 0.0);
    assert!(!page.keys().any(|sample| sample.starts_with("taskqueue_tasks_submitted_total")));
}

#[test]
fn a_real_parser_and_its_lint_accept_the_page_and_everything_that_the_dashboard_and_the_alerts_use_is_there()
{
    let broker = BrokerProcess::start();
    load::run(&mut broker.client());
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let done = std::process::Command::new(python::interpreter())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/metrics.py"))
        .arg(broker.address.to_string())
        .arg(deploy)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(said.lines().collect::<Vec<_>>(), ["lint", "dashboard", "alerts", "scrape"]);
}

/// Asks until the answer is as wanted.
fn range_until(client: &mut Client, query: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let range = client.get(&format!("{RANGE}?{query}")).expect(200);
        if wanted(&range) {
            return range;
        }
        assert!(Instant::now() < patience, "{range}");
        // sleep: nothing announces that a second was recorded.
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn figures(range: &Value, series: &str) -> Vec<Option<f64>> {
    range["series"][series].as_array().unwrap().iter().map(Value::as_f64).collect()
}

fn total(range: &Value, series: &str) -> f64 {
    let step = range["step_seconds"].as_f64().unwrap();
    figures(range, series).into_iter().flatten().sum::<f64>() * step
}

#[test]
fn what_happened_is_recorded_and_kept_over_a_restart() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    for _ in 0..20 {
        client.post("/api/v1/tasks", r#"{"type":"t","queue":"mail"}"#).expect(201);
    }
    let claim = r#"{"worker_id":"w","queues":["mail"],"max":5}"#;
    for task in client.post("/api/v1/claim", claim).expect(200)["tasks"].as_array().unwrap() {
        let path = format!("/api/v1/tasks/{}/complete", task["id"].as_str().unwrap());
        client.post(&path, &json!({"lease": task["lease"]}).to_string()).expect(200);
    }
    let near = |found: f64, real: f64| (found - real).abs() < 0.2 * real;
    let seen = range_until(&mut client, "series=submitted,completed,run_p50,pending,memory_bytes", |range| {
        // What waits is looked at less often than what happens is counted.
        near(total(range, "submitted"), 20.0)
            && near(total(range, "completed"), 5.0)
            && figures(range, "pending").contains(&Some(15.0))
    });
    assert_eq!(seen["step_seconds"], 1);
    assert!(figures(&seen, "run_p50").iter().any(Option::is_some), "{seen}");
    assert!(figures(&seen, "memory_bytes").iter().flatten().all(|bytes| *bytes > 1e6), "{seen}");
    let points = figures(&seen, "pending").len();
    assert!(seen["series"].as_object().unwrap().values().all(|row| row.as_array().unwrap().len() == points));
    let of_queue = "queue=mail&series=submitted,pending";
    let seen = range_until(&mut client, of_queue, |range| near(total(range, "submitted"), 20.0));
    assert_eq!(seen["queue"], "mail");

    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    broker.kill_and_restart();
    let mut client = broker.client();
    let kept = range_until(&mut client, of_queue, |_| true);
    assert!(near(total(&kept, "submitted"), 20.0), "{kept}");
    assert!(near(total(&range_until(&mut client, "series=completed", |_| true), "completed"), 5.0));
}

#[test]
fn a_damaged_file_of_figures_does_not_stop_the_start() {
    let mut broker = BrokerProcess::start();
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let file = broker.data_dir().join("metrics.ring");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&file, bytes).unwrap();
    broker.kill_and_restart();
    assert_eq!(broker.client().get("/readyz").status, 200);
    assert!(file.with_extension("damaged").exists());
}

#[test]
fn a_mistake_in_a_question_names_its_field() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    client.post("/api/v1/tasks", r#"{"type":"t"}"#).expect(201);
    let table = [
        ("series=submits", 400, "malformed", "series"),
        ("series=workers&queue=default", 422, "invalid", "series"),
        ("from=yesterday", 400, "malformed", "from"),
        ("to=1", 400, "malformed", "to"),
        ("step=soon", 400, "malformed", "step"),
        ("queue=a%20b", 400, "malformed", "queue"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 422, "invalid", "from"),
    ];
    for (query, status, code, field) in table {
        let problem = client.get(&format!("{RANGE}?{query}")).refused(status, code);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    client.get(&format!("{RANGE}?queue=nowhere")).refused(404, "not_found");
    client.get(&format!("{RANGE}?serie=workers")).refused(400, "malformed");
    let week = client.get(&format!("{RANGE}?from=1971-01-01T00:00:00Z&series=workers")).expect(200);
    assert_eq!(week["step_seconds"], 900);
    let points = week["series"]["workers"].as_array().unwrap();
    assert!(points.len() <= 1000 && points.iter().all(|point| point.is_null() || point.is_number()));
    let document = client.get("/api/openapi.json").expect(200);
    assert!(document["paths"][RANGE]["get"].is_object());
}
