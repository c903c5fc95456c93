//! Words that do not get into the tree: silenced lints without a reason, unfinished work, and printing from places
//! that have no business with the terminal.

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use super::source::{Attribute, Source};
use super::tree::{File, Tree};

const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];
/// In two pieces, so that this file is not a finding itself.
const MARK: &str = concat!("FIX", "ME");
const PRINTING: [&str; 4] = ["println", "eprintln", "print", "eprint"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(|(file, source)| check_file(file, source)).collect()
}

fn check_file(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |line: usize, message: String| findings.push(Finding::at(&file.path, line, message));
    for attribute in &source.attributes {
        if let Some(message) = judge_attribute(attribute) {
            found(attribute.line, message.to_owned());
        }
    }
    let may_print = may_print(&file.path);
    for call in &source.macros {
        if UNFINISHED.contains(&call.name.as_str()) {
            found(call.line, format!("`{}!`: finish it or leave it out", call.name));
        } else if !may_print && PRINTING.contains(&call.name.as_str()) {
            found(call.line, format!("`{}!`: use the CLI's output file, or tracing", call.name));
        }
    }
    for (index, _) in file.text.lines().enumerate().filter(|(_, line)| line.contains(MARK)) {
        found(index + 1, format!("`{MARK}`: fix it, or open an issue"));
    }
    findings
}

fn judge_attribute(attribute: &Attribute) -> Option<&'static str> {
    if mentions(&attribute.tokens, &|name, _| name == "allow") {
        return Some(
            "`allow`: write `#[expect(…, reason = \"…\")]`, which complains when it is no longer needed",
        );
    }
    let unexplained = |name: &str, arguments: &TokenStream| {
        name == "expect"
            && !arguments
                .clone()
                .into_iter()
                .any(|token| matches!(token, TokenTree::Ident(word) if word == "reason"))
    };
    mentions(&attribute.tokens, &unexplained).then_some("`expect` needs a `reason = \"…\"`")
}

/// Whether a lint level in the attribute satisfies `wanted`, given its name and arguments. `cfg_attr` may hold it too.
fn mentions(tokens: &TokenStream, wanted: &dyn Fn(&str, &TokenStream) -> bool) -> bool {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_cfg_attr = matches!(tokens.first(), Some(TokenTree::Ident(name)) if name == "cfg_attr");
    tokens.windows(2).any(|pair| match pair {
        [TokenTree::Ident(name), TokenTree::Group(arguments)] => {
            let arguments = arguments.stream();
            wanted(&name.to_string(), &arguments) || (is_cfg_attr && mentions(&arguments, wanted))
        }
        _ => false,
    })
}

fn may_print(path: &str) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    let name = folders.pop().unwrap_or_default();
    path == "crates/windlass/src/cli/output.rs"
        || path.starts_with("xtask/")
        || path.starts_with("crates/prove/")
        || ["build.rs", "tests.rs"].contains(&name)
        || folders.iter().any(|folder| ["tests", "benches", "examples"].contains(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const SOMEWHERE: &str = "crates/windlass/src/serve.rs";

    #[test]
    fn forbidden_words_fail() {
        let mark = format!("fn f() {{}} // {MARK}: later");
        for text in [
            "#[allow(dead_code)]\nfn f() {}",
            "#![allow(dead_code, reason = \"because\")]",
            "#[cfg_attr(test, allow(dead_code))]\nfn f() {}",
            "#[expect(dead_code)]\nfn f() {}",
            "fn f() { todo!() }",
            "fn f() { std::unimplemented!(\"later\") }",
            "fn f() { println!(\"x\") }",
            "fn f() { eprint!(\"x\") }",
            &mark,
        ] {
            assert_eq!(findings(check, &[(SOMEWHERE, text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn reasons_and_harmless_words_pass() {
        for text in [
            "#[expect(dead_code, reason = \"read by the test\")]\nfn f() {}",
            "#[cfg_attr(test, expect(dead_code, reason = \"read by the test\"))]\nfn f() {}",
            "#[doc = \"allow(x)\"]\nfn allow(todo: bool) { expect(todo); result.expect(\"reason\") }",
            "/// Never `println!`.\nfn f() { writeln!(out, \"todo!()\") }",
        ] {
            assert!(findings(check, &[(SOMEWHERE, text)]).is_empty(), "{text}");
        }
    }

    #[test]
    fn printing_is_allowed_where_a_terminal_is() {
        for path in [
            "crates/windlass/src/cli/output.rs",
            "crates/windlass/src/cli/tests.rs",
            "crates/windlass/tests/it/main.rs",
            "crates/windlass/examples/hello.rs",
            "crates/prove/src/main.rs",
            "crates/windlass-proto/build.rs",
            "xtask/src/main.rs",
        ] {
            assert!(findings(check, &[(path, "fn f() { println!() }")]).is_empty(), "{path}");
        }
        assert_eq!(findings(check, &[("crates/windlass/src/cli/task.rs", "fn f() { println!() }")]).len(), 1);
    }
}
