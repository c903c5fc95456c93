//! An error with everything that varies written alike.

/// Stands for a part that varies.
const VARIES: &[u8] = b"#";
/// A hexadecimal number of at least this many digits is taken for one; shorter ones may be words (`added7`).
const HEX_MIN: usize = 6;
/// A word of at least this length, of which this many are digits, is nothing that a person wrote.
const RANDOM_MIN: usize = 16;
const RANDOM_DIGITS_MIN: usize = 3;
/// 8-4-4-4-12.
const UUID_BYTES: usize = 36;

/// Gives the text to `out`, piece by piece. Returns how often a byte was looked at in search of a closing quote.
pub(super) fn write(text: &str, out: &mut impl FnMut(&[u8])) -> usize {
    let text = text.trim().as_bytes();
    let mut quotes = Quotes::default();
    let mut at = 0;
    // What precedes says whether a quote opens and whether a number is negative.
    let mut after_word = false;
    while let Some(&byte) = text.get(at) {
        let begin = at;
        if byte.is_ascii_whitespace() {
            at += run(&text[at..], |b| b.is_ascii_whitespace());
            out(b" ");
        } else if is_word(byte) || (byte == b'-' && !after_word && digit(text, at + 1)) {
            at += word(&text[at..], out);
        } else if let Some(end) = (!after_word).then(|| quotes.end(text, at)).flatten() {
            at = end;
            out(VARIES);
        } else {
            at += 1;
            out(&text[begin..at]);
        }
        after_word = is_word(text[at - 1]);
    }
    quotes.looked_at
}

/// Writes one word and what is joined to it; returns its length.
fn word(text: &[u8], out: &mut impl FnMut(&[u8])) -> usize {
    if is_uuid(text) {
        out(VARIES);
        return UUID_BYTES;
    }
    if text[0] == b'-' || digit(text, 0) {
        out(VARIES);
        return number(text);
    }
    let length = run(text, is_word);
    let word = &text[..length];
    let digits = word.iter().filter(|b| b.is_ascii_digit()).count();
    let hex = length >= HEX_MIN && digits > 0 && word.iter().all(u8::is_ascii_hexdigit);
    if hex || (length >= RANDOM_MIN && digits >= RANDOM_DIGITS_MIN) {
        out(VARIES);
        return length;
    }
    let mut rest = word;
    while !rest.is_empty() {
        let letters = run(rest, |b| !b.is_ascii_digit());
        out(&rest[..letters]);
        rest = &rest[letters..];
        let digits = run(rest, |b| b.is_ascii_digit());
        if digits > 0 {
            out(VARIES);
        }
        rest = &rest[digits..];
    }
    length
}

/// The length of a word that begins with a digit (or a sign), with all that follow it behind a joint: dates, times, addresses.
fn number(text: &[u8]) -> usize {
    let mut end = 1 + run(&text[1..], is_word);
    while text.get(end).is_some_and(|b| b".,:/+-".contains(b)) && digit(text, end + 1) {
        end += 1 + run(&text[end + 1..], is_word);
    }
    end
}

fn is_uuid(text: &[u8]) -> bool {
    let Some(text) = text.get(..UUID_BYTES + 1).or_else(|| text.get(..UUID_BYTES)) else { return false };
    let shaped = |(at, b): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *b == b'-',
        UUID_BYTES => !is_word(*b),
        _ => b.is_ascii_hexdigit(),
    };
    text.iter().enumerate().all(shaped)
}

/// Where quoted text ends.
#[derive(Default)]
struct Quotes {
    /// For each kind of quote: nothing closes it before here, so there is no need to look again.
    open_until: [usize; 3],
    looked_at: usize,
}

impl Quotes {
    /// Behind the quote that closes the one at `at`. An apostrophe between letters closes nothing.
    fn end(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let kind = b"\"'`".iter().position(|quote| *quote == text[at])?;
        if at < self.open_until[kind] {
            return None;
        }
        let closes = |end: usize| text[end] == text[at] && text.get(end + 1).is_none_or(|b| !is_word(*b));
        // No further than the closing quote: what is found is passed over, and what is not found is not looked for again.
        let stop = (at + 1..text.len()).find(|end| text[*end] == b'\n' || closes(*end)).unwrap_or(text.len());
        self.looked_at += stop - at;
        if text.get(stop).is_none_or(|byte| *byte == b'\n') {
            self.open_until[kind] = stop;
            return None;
        }
        Some(stop + 1)
    }
}

/// Letters of every alphabet count.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn digit(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
}

fn run(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|b| belongs(**b)).count()
}
