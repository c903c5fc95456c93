//! Words of a filter on the command line.
//!
//! `-queue:slow` means all other queues. To the parser it looks like `-q` with a value, or like an option that is not
//! there. A space in front keeps it a word, and means nothing to a filter.

use std::ffi::OsString;

/// The commands that take filters.
const COMMANDS: [&str; 3] = ["task", "dlq", "operation"];

pub(super) fn guarded(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if !command(&words).is_some_and(|command| COMMANDS.contains(&command)) {
        return words;
    }
    for word in words.iter_mut().skip(1).take_while(|word| *word != "--") {
        if let Some(text) = word.to_str().filter(|text| is_negated(text)) {
            *word = format!(" {text}").into();
        }
    }
    words
}

/// The first word that is no option; the only option with a value that may stand before it is the output.
fn command(words: &[OsString]) -> Option<&str> {
    let mut words = words.iter().skip(1).map(|word| word.to_str().unwrap_or_default());
    loop {
        match words.next()? {
            "-o" | "--output" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return Some(word),
        }
    }
}

/// `-field:…` and `-"…`.
fn is_negated(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-') else { return false };
    let field = rest.bytes().take_while(|b| b.is_ascii_alphabetic() || *b == b'_').count();
    rest.starts_with('"') || (field > 0 && rest[field..].starts_with(':'))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::guarded;
    use crate::cli::Cli;

    fn check(line: &str, same: &str) {
        let read = |line: &str| {
            let words = guarded(line.split('|').map(Into::into).collect::<Vec<_>>().into_iter());
            let matches = Cli::command().try_get_matches_from(words);
            matches.and_then(|matches| Cli::from_arg_matches(&matches)).map(|cli| format!("{cli:?}"))
        };
        let expected = match read(same) {
            Ok(read) => read.replace("@-", " -"),
            Err(error) => panic!("{same}: {error}"),
        };
        assert_eq!(read(line).unwrap_or_else(|error| panic!("{line}: {error}")), expected);
    }

    #[test]
    fn negated_words_are_words() {
        let moved = "windlass|operation|run|move|state:pending|--queue|slow|--yes";
        check(&format!("{moved}|-queue:slow"), &format!("{moved}|@-queue:slow"));
        check(&format!("{moved}|-o|json|-p:x|-n:1"), &format!("{moved}|-o|json|@-p:x|@-n:1"));
        check("windlass|task|list|-type:a|-\"b c\"|-n|3", "windlass|task|list|@-type:a|@-\"b c\"|-n|3");
        check(
            "windlass|-o|json|dlq|list|--filter|-queue:a b",
            "windlass|-o|json|dlq|list|--filter|@-queue:a b",
        );
    }

    #[test]
    fn a_word_never_becomes_the_value_of_an_option() {
        let refused = |line: &str| {
            let words = guarded(line.split('|').map(Into::into).collect::<Vec<_>>().into_iter());
            Cli::command().try_get_matches_from(words).unwrap_err();
        };
        for word in ["-queue:slow", "-queue", "-qslow", "-pending"] {
            refused(&format!("windlass|operation|run|move|state:pending|--queue|{word}"));
        }
        for word in ["-queue", "-qslow", "-pending", "-p9"] {
            refused(&format!("windlass|operation|run|move|state:pending|{word}"));
        }
        for word in ["-queue", "-timeout", "-foo", "-stuck"] {
            refused(&format!("windlass|task|list|{word}"));
            refused(&format!("windlass|dlq|clear|{word}"));
        }
        refused("windlass|dlq|clear|-queue:slow");
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in ["windlass|submit|task|-x:1", "windlass|worker|exec|--type|a|--|task|-x:1"] {
            let words: Vec<_> = line.split('|').map(Into::into).collect();
            assert_eq!(guarded(words.clone().into_iter()), words);
        }
    }
}
