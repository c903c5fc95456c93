//! The command line of the proofs. That there is such a test also has `cargo test` build the program, in the one pass that
//! builds everything else, for `cargo xtask test` to run afterwards.

use std::process::{Command, Output};

fn prove(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-prove"));
    command.args(arguments).env_remove("WINDLASS_BIN").output().expect("it starts")
}

#[test]
fn every_proof_is_listed_with_what_it_shows() {
    let listed = prove(&["--list"]);
    assert!(listed.status.success());
    let text = String::from_utf8(listed.stdout).expect("text");
    assert!(text.lines().count() >= 16, "{text}");
    for line in text.lines() {
        let (name, title) = line.split_once(' ').expect("a name and a title");
        let number = name.strip_prefix('G').and_then(|number| number.parse::<u32>().ok());
        assert!(number.is_some() && title.trim().len() > 10, "{line}");
    }
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    for (arguments, complaint) in
        [(&["G99"][..], "no proof G99"), (&["--sort"], "--sort"), (&["g1", "--short"], "WINDLASS_BIN")]
    {
        let refused = prove(arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(complaint), "{arguments:?}: {said}");
        assert!(refused.stdout.is_empty());
    }
}
