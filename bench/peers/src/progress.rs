//! What people see while it runs.

use std::io::{IsTerminal, Write};

/// A line of its own.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    // When nobody listens any more there is nobody to tell.
    writeln!(out, "{}{text}", if out.is_terminal() { "\r\x1b[K" } else { "" }).ok();
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
