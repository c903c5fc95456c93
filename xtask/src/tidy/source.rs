//! A Rust file reduced to what the rules ask about: paths, macro calls, attributes and module names, each with its
//! line. It knows tokens, not grammar, so it also sees into the arguments of macros.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use super::{Finding, tree::Tree};

#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) paths: Vec<Path>,
    pub(super) macros: Vec<Named>,
    pub(super) modules: Vec<Named>,
    pub(super) attributes: Vec<Attribute>,
}

/// `a::b::c` anywhere in the code. The tree of a `use` declaration is spread out into one path per leaf.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    /// Whether arguments in parentheses follow. A method call is not a path.
    pub(super) called: bool,
}

#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) tokens: TokenStream,
    pub(super) line: usize,
}

impl Path {
    /// Whether these segments occur next to each other in the path.
    pub(super) fn contains(&self, segments: &[&str]) -> bool {
        self.segments.windows(segments.len()).any(|window| window == segments)
    }

    pub(super) fn ends_with(&self, segments: &[&str]) -> bool {
        self.segments.len() >= segments.len()
            && self.segments[self.segments.len() - segments.len()..] == *segments
    }
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            format!("cannot be read as Rust from line {} on", error.span().start().line)
        })?;
        let mut source = Self::default();
        source.walk(tokens, &[]);
        Ok(source)
    }

    /// `prefix` is the path in front of the braces when the tokens are a group of a `use` tree.
    fn walk(&mut self, tokens: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += match &tokens[at] {
                TokenTree::Ident(ident) => {
                    self.ident(ident, &tokens[at..], at.checked_sub(1).map(|p| &tokens[p]), prefix)
                }
                TokenTree::Punct(mark) if mark.as_char() == '#' => self.attribute(&tokens[at..]),
                TokenTree::Group(group) => {
                    self.walk(group.stream(), &[]);
                    1
                }
                _ => 1,
            };
        }
    }

    /// Takes in what starts with this identifier and returns how many tokens it covers.
    fn ident(
        &mut self,
        ident: &Ident,
        tokens: &[TokenTree],
        before: Option<&TokenTree>,
        prefix: &[String],
    ) -> usize {
        let line = ident.span().start().line;
        if ident == "mod"
            && let Some(TokenTree::Ident(name)) = tokens.get(1)
        {
            self.modules.push(Named { name: name.to_string(), line });
            return 2;
        }
        // The new name in `a as b` is no place in the crate graph.
        if ident == "as" && !prefix.is_empty() {
            return 2;
        }
        if is_punct(tokens.get(1), '!') && !is_punct(tokens.get(2), '=') {
            self.macros.push(Named { name: ident.to_string(), line });
            return 2;
        }
        if before.is_some_and(|token| is_punct(Some(token), '.')) {
            return 1;
        }
        self.path(tokens, line, prefix)
    }

    fn path(&mut self, tokens: &[TokenTree], line: usize, prefix: &[String]) -> usize {
        let mut segments = prefix.to_vec();
        segments.push(tokens[0].to_string());
        let mut at = 1;
        while is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':') {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(next)) if !is_punct(tokens.get(at + 3), '!') => {
                    segments.push(next.to_string());
                    at += 3;
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.walk(group.stream(), &segments);
                    return at + 3;
                }
                // A glob, a turbofish, or the last word before `!`, which the walk sees next.
                _ => break,
            }
        }
        self.paths.push(Path { segments, line, called: is_parenthesis(tokens.get(at)) });
        at
    }

    fn attribute(&mut self, tokens: &[TokenTree]) -> usize {
        let inner = usize::from(is_punct(tokens.get(1), '!'));
        match tokens.get(1 + inner) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
                let line = tokens[0].span().start().line;
                self.attributes.push(Attribute { tokens: group.stream(), line });
                self.walk(group.stream(), &[]);
                2 + inner
            }
            _ => 1,
        }
    }
}

/// A file that cannot be read would pass every other rule.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let unread = tree.files.iter().filter_map(|file| match &file.source {
        Some(Err(error)) => Some(Finding::in_file(&file.path, error.clone())),
        _ => None,
    });
    unread.collect()
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn is_parenthesis(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn paths(text: &str) -> Vec<String> {
        Source::parse(text).unwrap().paths.iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn a_use_tree_is_spread_out() {
        assert_eq!(
            paths("use std::{fmt, time::{Duration as Span, Instant}};"),
            ["use", "std::fmt", "std::time::Duration", "std::time::Instant"]
        );
    }

    #[test]
    fn paths_inside_macros_are_seen_and_words_in_text_are_not() {
        assert_eq!(paths("select! { _ = a::b(c) => {} } // d::e\n"), ["_", "a::b", "c"]);
        assert_eq!(paths("/// d::e\nlet x = \"f::g\";"), ["doc", "let", "x"]);
        assert_eq!(paths("a.b::<C>()"), ["a", "C"]);
    }

    #[test]
    fn calls_macros_and_modules_carry_their_lines() {
        let source =
            Source::parse("mod tests {\n  fn f() { if a != b { std::todo!() } }\n  now::then()\n}").unwrap();
        assert_eq!(source.modules[0].name, "tests");
        let macros: Vec<_> = source.macros.iter().map(|call| (call.name.as_str(), call.line)).collect();
        assert_eq!(macros, [("todo", 2)]);
        let then = source.paths.iter().find(|path| path.ends_with(&["now", "then"])).unwrap();
        assert!(then.called && then.line == 3);
    }

    #[test]
    fn an_unreadable_file_is_a_finding() {
        assert_eq!(findings(check, &[("a.rs", "fn f() {\n")]).len(), 1);
        assert!(findings(check, &[("a.rs", "fn f() {}\n"), ("b.md", "fn f() {")]).is_empty());
    }
}
