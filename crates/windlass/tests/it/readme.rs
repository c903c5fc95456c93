//! The README's shell blocks, run as written against a running `windlass dev`.

use std::path::Path;
use std::process::Command;

use crate::cli::process::Dev;

#[test]
fn the_readme_runs_as_written() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let blocks: Vec<&str> =
        text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert!(blocks.len() >= 4, "the README shows how to use it");
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    let binaries = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut shown = String::new();
    for block in blocks {
        let script = block.replace("127.0.0.1:8080", dev.url.trim_start_matches("http://"));
        let done = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env("PATH", &path)
            .env("WINDLASS_SERVER", &dev.url)
            .env("WINDLASS_GRPC_SERVER", &dev.grpc)
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{block}\n{out}\n{err}");
        shown.push_str(&out);
    }
    // What the README says next to the commands.
    for said in [r#"{"hello":"world"}"#, "No worker listens", "waits for its time", "QUIET", "lease"] {
        assert!(shown.contains(said), "{said} is missing in\n{shown}");
    }
    assert_eq!(dev.stop(), Some(0));
}
