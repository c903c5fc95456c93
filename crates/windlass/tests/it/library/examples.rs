//! Every example is run, and every piece of code in the guide is part of one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::process::{Dev, terminate};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// `cargo test` builds the examples of the package beside its binaries.
fn example(name: &str) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = binaries.join("examples").join(name);
    assert!(path.exists(), "{name} is not built; `cargo build -p windlass --examples` does it");
    Command::new(path)
}

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    out.into_owned()
}

#[test]
fn examples_without_a_broker_run() {
    assert_eq!(output(&mut example("embedded")), "the sum is 6\n");
    assert_eq!(output(&mut example("testing")), "reminded ada, a day and two hours later\n");
}

#[test]
fn examples_with_a_broker_run() {
    let dev = Dev::start(&["--store", "memory"]);
    let with = |name: &str| {
        let mut command = example(name);
        command.env("WINDLASS_GRPC_SERVER", &dev.grpc);
        command
    };
    assert_eq!(output(&mut with("blocking")), "the echo said hello\n");
    let workflow = output(&mut with("workflow"));
    assert!(workflow.starts_with("tea costs 60 at market\n"), "{workflow}");
    assert!(workflow.contains(r#"best is completed, after ["corner", "market"]"#), "{workflow}");
    let administered = output(&mut with("administer"));
    assert!(administered.starts_with("nightly is scheduled\nno_worker: "), "{administered}");
    assert!(
        administered.ends_with("1 waits\n1 would be cancelled\ncancel began, and the report is cancelled\n")
    );
    assert_eq!(
        output(&mut with("middleware"))
            .lines()
            .map(|line| line.split(' ').next_back().unwrap())
            .collect::<Vec<_>>(),
        ["Ada", "tenant?", "passed"]
    );
    let mut worker = with("worker").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(worker.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.next().unwrap().ends_with(" works"));
    let produced = output(&mut with("producer"));
    assert!(produced.contains("cat.png is 64000 bytes now\n100 thumbnails, 505000 bytes\n"), "{produced}");
    assert!(produced.contains("3 of 5 pages were left for the second attempt"), "{produced}");
    assert!(produced.contains("is on it") && produced.contains("dead_letter"), "{produced}");
    terminate(&worker);
    assert_eq!(said.next().as_deref(), Some("all done"));
    assert!(worker.wait().unwrap().success());
    let fast = output(with("throughput").arg("2000"));
    assert_eq!(fast.matches("2000 tasks").count(), 2, "{fast}");
}

#[test]
fn the_guide_shows_what_the_examples_run() {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let folder = root().join("examples");
    let sources: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect();
    assert_eq!(sources.len(), 9);
    let code: Vec<String> =
        sources.iter().map(|path| squeeze(&std::fs::read_to_string(path).unwrap())).collect();
    let guides = ["client", "running", "unique"].map(|name| root().join(format!("docs/{name}.md")));
    let guide = guides.map(|path| std::fs::read_to_string(path).unwrap()).concat();
    let shown: Vec<&str> =
        guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert!(shown.len() >= 8, "the guide shows how to use the library");
    for block in shown {
        // A line of three dots stands for what is left out.
        for part in block.split("\n// …\n") {
            assert!(code.iter().any(|code| code.contains(&squeeze(part))), "no example runs this:\n{part}");
        }
    }
}
