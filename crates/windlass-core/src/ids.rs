//! Names and tokens. A value of these types is valid by construction.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrayvec::ArrayString;

use crate::limits::NAME_BYTES_MAX;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("must not be empty")]
    Empty,
    #[error("must be at most {NAME_BYTES_MAX} bytes long")]
    TooLong,
    #[error("may contain only A-Z a-z 0-9 . _ : -")]
    Character,
    #[error("must not be . or .., because clients remove these from the path of a URL")]
    Dots,
}

fn check(text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(InvalidName::TooLong);
    }
    // Without a way out in between: short texts are through before a branch would have paid.
    let allowed = text.bytes().fold(true, |all, byte| all & ALLOWED[usize::from(byte)]);
    if allowed { Ok(()) } else { Err(InvalidName::Character) }
}

/// By byte. Every task has several names, so each byte is a look and no comparison.
const ALLOWED: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < allowed.len() {
        let it = byte as u8;
        allowed[byte] = it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b':' | b'-');
        byte += 1;
    }
    allowed
};

/// Kept in place up to a length that most have, and shared beyond. A task has several of these, which are made by one thread
/// and dropped by another: without memory of their own there is none to give back, and no count that cores wait for each other at.
#[derive(Clone)]
enum Text<const N: usize> {
    Short(ArrayString<N>),
    Long(Arc<str>),
}

impl<const N: usize> Text<N> {
    fn new(text: &str) -> Self {
        ArrayString::from(text).map_or_else(|_| Text::Long(Arc::from(text)), Text::Short)
    }

    fn as_str(&self) -> &str {
        match self {
            Text::Short(text) => text,
            Text::Long(text) => text,
        }
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $short:literal) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Text<$short>);

        impl $name {
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                check(text)?;
                Ok(Self(Text::new(text)))
            }

            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.as_str() == other.as_str()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.as_str().cmp(other.as_str())
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_str().hash(state);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidName;

            /// For text from outside. Stores may hold names that are refused here, because earlier versions accepted them.
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                match text {
                    "." | ".." => Err(InvalidName::Dots),
                    _ => Self::new(text),
                }
            }
        }
    };
}

name_type! {
    /// The id of a task: a UUID v7, or what the client chose. Cheap to clone.
    TaskId, 36
}
name_type! {
    /// A queue, a type or a worker. Cheap to clone.
    Name, 24
}

/// The proof of a claim. `number` grows with every claim of a store, so it fences: of two tokens for one task the
/// larger is the newer. `secret` keeps others from guessing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    pub number: u64,
    pub secret: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.number, self.secret)
    }
}

/// A lease text that no claim can have produced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a lease that a claim returned")]
pub struct InvalidToken;

impl std::str::FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let (number, secret) = text.split_once('-').ok_or(InvalidToken)?;
        let hex = |part: &str, len: std::ops::RangeInclusive<usize>| {
            let plain = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !plain || !len.contains(&part.len()) {
                return Err(InvalidToken);
            }
            u64::from_str_radix(part, 16).map_err(|_| InvalidToken)
        };
        Ok(Self { number: hex(number, 1..=16)?, secret: hex(secret, 16..=16)? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(Name::new("email.send_v2:eu-1").is_ok());
        assert_eq!(Name::new(""), Err(InvalidName::Empty));
        assert_eq!(Name::new("../etc"), Err(InvalidName::Character));
        assert_eq!(Name::new("ü"), Err(InvalidName::Character));
        assert_eq!(Name::new(&"x".repeat(129)), Err(InvalidName::TooLong));
        assert!(TaskId::new(&"x".repeat(128)).is_ok());
        for dots in [".", ".."] {
            assert_eq!(dots.parse::<TaskId>(), Err(InvalidName::Dots));
            assert!(TaskId::new(dots).is_ok(), "an earlier version may have stored it");
        }
        assert!("...".parse::<Name>().is_ok());
    }

    #[test]
    fn short_and_long_names_are_the_same_text() {
        let texts: Vec<String> = (1..=128).map(|length| "n".repeat(length)).collect();
        let names: Vec<Name> = texts.iter().map(|text| Name::new(text).unwrap()).collect();
        assert!(
            names.iter().zip(&texts).all(|(name, text)| name.as_str() == text && name.to_string() == *text)
        );
        assert!(names.is_sorted());
        let by_name: HashSet<Name> = names.iter().cloned().collect();
        assert!(texts.iter().all(|text| by_name.contains(text.as_str())), "they hash as text does");
        assert_eq!(format!("{:?} {:?}", names[0], names[30]), format!("{:?} {:?}", texts[0], texts[30]));
    }

    #[test]
    fn tokens_round_trip_and_reject_noise() {
        let token = Token { number: 77, secret: 0xfeed };
        assert_eq!(token.to_string().parse(), Ok(token));
        for noise in [
            "",
            "-",
            "4d",
            "4d-",
            "4D-000000000000feed",
            "4d-feed",
            "+1-000000000000feed",
            "x-000000000000feed",
        ] {
            assert_eq!(noise.parse::<Token>(), Err(InvalidToken), "{noise}");
        }
    }
}
