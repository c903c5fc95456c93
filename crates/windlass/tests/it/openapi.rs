//! The OpenAPI document as other programs read it: a validator, and schemathesis, which sends requests that the document allows
//! and forbids and compares the answers with it.

use std::process::Command;

use crate::broker_process::BrokerProcess;
use crate::python;

/// The same requests in every run, so that a failure can be repeated. `WINDLASS_OPENAPI_SEED` overrides it; a failure prints it.
const SEED: &str = "1";
/// Requests that a run sends at least.
const CASES_MIN: u64 = 2000;

#[test]
fn the_document_is_valid() {
    let broker = BrokerProcess::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, broker.client().get("/api/openapi.json").expect(200).to_string()).unwrap();
    let validator = ["-m", "openapi_spec_validator", "--subschema-errors", "all"];
    let output = Command::new(python::interpreter()).args(validator).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn the_broker_answers_as_the_document_says() {
    // Many of the requests are worth a warning.
    let broker = BrokerProcess::start_with(&[("WINDLASS_LOG", "error")]);
    let folder = tempfile::tempdir().unwrap();
    let settings = |file: &str| format!("{}/tests/python/openapi/{file}", env!("CARGO_MANIFEST_DIR"));
    let seed = std::env::var("WINDLASS_OPENAPI_SEED").unwrap_or_else(|_| SEED.to_owned());
    let url = format!("http://{}", broker.address);
    let output = Command::new(python::interpreter())
        .args(["-m", "schemathesis.cli", "--config-file", &settings("schemathesis.toml"), "run"])
        .arg(format!("{url}/api/openapi.json"))
        .args(["--seed", &seed])
        .env("SCHEMATHESIS_HOOKS", settings("hooks.py"))
        .env("WINDLASS_URL", &url)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = shown(&output);
    assert!(output.status.success(), "{text}");
    let cases = text.lines().find_map(|line| line.trim().split_once(" generated")?.0.parse::<u64>().ok());
    assert!(cases.is_some_and(|cases| cases >= CASES_MIN), "{cases:?} of {CASES_MIN} requests\n{text}");
}

fn shown(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
