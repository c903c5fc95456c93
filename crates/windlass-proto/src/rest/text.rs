//! Domain values that are plain text on the wire, for serde's `with`.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use windlass_core::StateName;

pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    Word::deserialize(deserializer).map(|word| word.0)
}

/// `T` wrapped so that serde reads and writes its text.
struct Word<T>(T);

impl<T: Display> Serialize for Word<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse<T>(PhantomData<T>);
        impl<T: FromStr<Err: Display>> Visitor<'_> for Parse<T> {
            type Value = Word<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word<T>, E> {
                text.parse().map(Word).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Parse(PhantomData))
    }
}

pub(super) mod option {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Word).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        Ok(Option::<Word<T>>::deserialize(deserializer)?.map(|word| word.0))
    }
}

pub(super) mod list {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Word))
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<Word<T>>::deserialize(deserializer)?.into_iter().map(|word| word.0).collect())
    }
}

pub(super) mod option_list {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &Option<Vec<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match values {
            Some(values) => list::serialize(values, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let words = Option::<Vec<Word<T>>>::deserialize(deserializer)?;
        Ok(words.map(|words| words.into_iter().map(|word| word.0).collect()))
    }
}

/// The exact name of a state; the aliases of filters are not answers.
pub(super) mod state {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(state: &StateName, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(state.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StateName, D::Error> {
        let word = String::deserialize(deserializer)?;
        let known = StateName::ALL.into_iter().find(|state| state.as_str() == word);
        known.ok_or_else(|| D::Error::custom(format!("unknown state {word:?}")))
    }
}

pub(super) mod option_state {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        state: &Option<StateName>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        state.map(StateName::as_str).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<StateName>, D::Error> {
        #[derive(Deserialize)]
        struct Known(#[serde(with = "super::state")] StateName);
        Ok(Option::<Known>::deserialize(deserializer)?.map(|known| known.0))
    }
}
