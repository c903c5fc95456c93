//! Which errors are the same error.
//!
//! Two failures with one cause differ in what they name: an id, a time, an address, a quoted value. A fingerprint is a
//! hash of the text in which all of that is written alike, so it is the same for both. What counts as such a part:
//! - quoted text, between `"…"`, `'…'` or `` `…` `` in one line;
//! - a word that begins with a digit, with what joins it to the next one: `404`, `1.5s`, `10.0.0.7:8080`,
//!   `2026-11-16T12:30:45Z`, `0x7ffe`;
//! - a UUID, and a word that is a hexadecimal number or looks drawn at random;
//! - the digits inside any other word (`worker7`), and how wide a gap between two words is.
//!
//! The rules and the hash are part of what people write down (`fingerprint:…` in a filter), so a change of either is
//! a change that users see. Every rule looks at each byte a bounded number of times: errors are what strangers send.

mod normal;

use std::fmt;
use std::str::FromStr;

/// Equal for errors that differ only in ids, numbers, times and quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    pub fn of(error: &str) -> Self {
        let mut hash = Fnv::default();
        normal::write(error, &mut |bytes: &[u8]| hash.add(bytes));
        Self(hash.sum())
    }
}

/// FNV-1a: the same on every machine and in every version. For where nothing depends on it being hard to forge.
#[derive(Debug)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shaped = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| shaped);
        number.map(Self).ok_or_else(|| "must be the 16 hexadecimal digits of a fingerprint".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Fingerprint;

    #[track_caller]
    fn same(texts: &[&str]) {
        for text in texts {
            assert_eq!(Fingerprint::of(text), Fingerprint::of(texts[0]), "{text}");
        }
    }

    #[test]
    fn what_an_error_names_does_not_matter() {
        same(&["timeout after 30s", "timeout after 1m30s", "timeout after 1.5s", "timeout  after\n250ms"]);
        same(&["connect 10.0.0.7:8080: refused", "connect 192.168.1.20:443: refused"]);
        same(&["no user \"anna\"", "no user \"bob \\ carol\"", "no user \"\""]);
        same(&["can't open 'a.txt'", "can't open 'it is b.txt'"]);
        same(&[
            "order 550e8400-e29b-41d4-a716-446655440000 is gone",
            "order aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee is gone",
            "order deadbeef00 is gone",
            "order 17 is gone",
        ]);
        same(&["at 2026-11-16T12:30:45.123Z: down", "at 2025-01-01T00:00:00+02:00: down", "at 12:30: down"]);
        same(&["panic at 0x7ffe12ab", "panic at 0xDEAD"]);
        same(&["token 01ARZ3NDEKTSV4RRFFQ69G5FAV", "token Zm9vYmFyMTIz9zAbCd8", "token 7"]);
        same(&["balance is -5", "balance is 5", "balance is 1,204.50"]);
        same(&["worker7 of pool_12 died", "worker12 of pool_3 died"]);
        same(&["status 500", "status 404"]);
    }

    #[test]
    fn what_went_wrong_matters() {
        let texts = [
            "",
            "connection refused",
            "connection reset",
            "connection \"refused\"",
            "timeout after 30s",
            "timeout",
            "can't open 'a'",
            "can't close 'a'",
            "disk full on volume #1",
            "added facade",
            "Ünïcödé",
        ];
        for (i, one) in texts.iter().enumerate() {
            for other in &texts[i + 1..] {
                assert_ne!(Fingerprint::of(one), Fingerprint::of(other), "{one} | {other}");
            }
        }
    }

    /// People write these down.
    #[test]
    fn fingerprints_stay_as_they_are() {
        let shown = |text: &str| Fingerprint::of(text).to_string();
        assert_eq!(shown(""), "cbf29ce484222325");
        assert_eq!(shown("connection refused"), "d26b3c2f193bc591");
        assert_eq!(shown("timeout after 30s"), "b6ed0197bfb709bf");
    }

    #[test]
    fn only_sixteen_digits_are_read() {
        let read = |text: &str| text.parse::<Fingerprint>().ok();
        let one = Fingerprint::of("x");
        assert_eq!(read(&one.to_string()), Some(one));
        assert_eq!(read(&one.to_string().to_uppercase()), Some(one));
        for noise in ["", "abc", "+bf29ce48422232", "cbf29ce4842223250", "cbf29ce48422232g"] {
            assert_eq!(read(noise), None, "{noise}");
        }
    }

    #[test]
    fn quotes_are_looked_for_a_bounded_number_of_times() {
        let quotes = ["\"", "'", "`"];
        let repeated = ["{q}", "a{q}", "{q}a", " {q}a", "a{q} ", "{q}\n", "({q}a", "\"'`{q}", "a{q}b {q}"];
        for (shape, quote) in repeated.iter().flat_map(|shape| quotes.map(|quote| (shape, quote))) {
            for end in ["", "\" ' ` ", "\"", "\n\""] {
                let text = shape.replace("{q}", quote).repeat(4000) + end;
                let looked_at = super::normal::write(&text, &mut |_| {});
                assert!(looked_at <= 4 * text.len(), "{shape} {quote} {end}: {looked_at} of {}", text.len());
            }
        }
    }

    proptest! {
        #[test]
        fn numbers_and_gaps_never_matter(a in any::<u32>(), b in any::<u32>(), gap in "[ \n\t]{1,4}") {
            let error = |n: u32, gap: &str| format!("row {n}{gap}of table t{n} at [{n}]");
            prop_assert_eq!(Fingerprint::of(&error(a, " ")), Fingerprint::of(&error(b, &gap)));
        }

        #[test]
        fn any_text_has_one(text in "\\PC{0,60}") {
            let one = Fingerprint::of(&text);
            prop_assert_eq!(one.to_string().parse(), Ok(one));
        }
    }
}
