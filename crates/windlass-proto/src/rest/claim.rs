//! Asking for work.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::{
    CLAIM_NAMES_MAX, CLAIM_PAIRS_MAX, CLAIM_TASKS_MAX, CLAIM_WEIGHT_MAX, LEASE_MS_MAX, LEASE_MS_MIN,
    WAIT_MS_MAX,
};
use windlass_core::{Name, Task};

use super::invalid::Invalid;
#[cfg(feature = "openapi")]
use super::schema;
use super::task::{Shown, TaskBody};
use super::text;
use super::time::Seconds;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClaimBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub worker_id: Name,
    /// A list, or a map of names and weights; `["default"]` unless given.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ClaimQueues))]
    pub queues: ClaimQueues,
    /// Serve the queues in the order given instead of by weight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Only these types; all unless given.
    #[serde(default, with = "text::option_list", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ClaimTypes>))]
    pub types: Option<Vec<Name>>,
    /// At most this many tasks, 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ClaimCount>))]
    pub max: Option<u64>,
    /// How long to wait for the first task; at most 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WaitSeconds>))]
    pub wait_seconds: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::LeaseSeconds>))]
    pub lease_seconds: Option<Seconds>,
}

/// A claim that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Claiming {
    pub worker: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    pub types: Option<Vec<Name>>,
    pub max: u32,
    pub wait_ms: u64,
    pub lease_ms: Option<u64>,
}

impl ClaimBody {
    pub fn new(worker_id: Name) -> Self {
        Self {
            worker_id,
            queues: ClaimQueues::default(),
            strict: false,
            types: None,
            max: None,
            wait_seconds: None,
            lease_seconds: None,
        }
    }

    pub fn check(self) -> Result<Claiming, Invalid> {
        let max = self.max.unwrap_or(1);
        if !(1..=u64::from(CLAIM_TASKS_MAX)).contains(&max) {
            return Err(Invalid::out_of_range("max", format!("must be between 1 and {CLAIM_TASKS_MAX}")));
        }
        if self.types.as_ref().is_some_and(|types| types.is_empty() || types.len() > CLAIM_NAMES_MAX) {
            return Err(Invalid::out_of_range("types", format!("must name 1 to {CLAIM_NAMES_MAX} types")));
        }
        let queues = self.queues.check()?;
        if queues.len() * self.types.as_ref().map_or(1, Vec::len) > CLAIM_PAIRS_MAX {
            let message = format!("times the number of queues must be at most {CLAIM_PAIRS_MAX}");
            return Err(Invalid::out_of_range("types", message));
        }
        // A wait that is longer than allowed ends earlier, as any wait may; a negative one is a mistake.
        let wait_ms = match self.wait_seconds {
            Some(Seconds(wait)) if wait > WAIT_MS_MAX as f64 / 1000.0 => WAIT_MS_MAX,
            Some(wait) => wait.check("wait_seconds", 0..=WAIT_MS_MAX)?,
            None => 0,
        };
        let lease = |lease: Seconds| lease.check("lease_seconds", LEASE_MS_MIN..=LEASE_MS_MAX);
        Ok(Claiming {
            worker: self.worker_id,
            queues,
            mode: if self.strict { Mode::Strict } else { Mode::Weighted },
            types: self.types,
            max: max as u32,
            wait_ms,
            lease_ms: self.lease_seconds.map(lease).transpose()?,
        })
    }
}

/// Queues in the order given, each with a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimQueues(pub Vec<(Name, u64)>);

impl Default for ClaimQueues {
    fn default() -> Self {
        Self(vec![(Name::new("default").expect("the default queue has a valid name"), 1)])
    }
}

impl ClaimQueues {
    fn check(self) -> Result<Vec<Queue>, Invalid> {
        if self.0.is_empty() || self.0.len() > CLAIM_NAMES_MAX {
            return Err(Invalid::out_of_range("queues", format!("must name 1 to {CLAIM_NAMES_MAX} queues")));
        }
        let mut queues: Vec<Queue> = Vec::with_capacity(self.0.len());
        for (name, weight) in self.0 {
            if !(1..=u64::from(CLAIM_WEIGHT_MAX)).contains(&weight) {
                let message = format!("the weight of {name} must be between 1 and {CLAIM_WEIGHT_MAX}");
                return Err(Invalid::out_of_range("queues", message));
            }
            if queues.iter().any(|queue| queue.name == name) {
                return Err(Invalid::out_of_range("queues", format!("{name} is named twice")));
            }
            queues.push(Queue { name, weight: weight as u32 });
        }
        Ok(queues)
    }
}

impl Serialize for ClaimQueues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.iter().all(|(_, weight)| *weight == 1) {
            serializer.collect_seq(self.0.iter().map(|(name, _)| name.as_str()))
        } else {
            serializer.collect_map(self.0.iter().map(|(name, weight)| (name.as_str(), weight)))
        }
    }
}

impl<'de> Deserialize<'de> for ClaimQueues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Input;
        impl<'de> Visitor<'de> for Input {
            type Value = ClaimQueues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of queues or a map of queues and weights")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ClaimQueues, A::Error> {
                let mut queues = Vec::new();
                while let Some(name) = list.next_element::<String>()? {
                    queues.push((name.parse().map_err(A::Error::custom)?, 1));
                }
                Ok(ClaimQueues(queues))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ClaimQueues, A::Error> {
                let mut queues = Vec::new();
                while let Some((name, weight)) = map.next_entry::<String, u64>()? {
                    queues.push((name.parse().map_err(A::Error::custom)?, weight));
                }
                Ok(ClaimQueues(queues))
            }
        }
        deserializer.deserialize_any(Input)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claimed {
    /// Each with its `lease`; empty when the wait was over.
    pub tasks: Vec<TaskBody>,
}

impl Claimed {
    /// Adds the JSON of an answer with these tasks to `out`: what serde writes, in less time.
    pub fn write(tasks: &[Task], out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"tasks\":[");
        for (index, task) in tasks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            Shown::leased(task).write(out)?;
        }
        out.extend_from_slice(b"]}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::decode;

    fn check(text: &str) -> Result<Claiming, Invalid> {
        decode::<ClaimBody>(text.as_bytes())?.check()
    }

    #[test]
    fn queues_come_as_list_or_map_in_order() {
        let names = |text: &str| {
            let queues = check(text).unwrap().queues;
            queues.into_iter().map(|queue| (queue.name.to_string(), queue.weight)).collect::<Vec<_>>()
        };
        let want =
            |pairs: &[(&str, u32)]| pairs.iter().map(|(n, w)| ((*n).to_owned(), *w)).collect::<Vec<_>>();
        assert_eq!(names(r#"{"worker_id":"w"}"#), want(&[("default", 1)]));
        assert_eq!(names(r#"{"worker_id":"w","queues":["z","a"]}"#), want(&[("z", 1), ("a", 1)]));
        assert_eq!(names(r#"{"worker_id":"w","queues":{"z":6,"a":3}}"#), want(&[("z", 6), ("a", 3)]));
    }

    #[test]
    fn every_mistake_has_its_status_and_field() {
        let table = [
            (r#"{"worker_id":"w","queues":[]}"#, 422, "queues"),
            (r#"{"worker_id":"w","queues":["a","a"]}"#, 422, "queues"),
            (r#"{"worker_id":"w","queues":{"a":0}}"#, 422, "queues"),
            (r#"{"worker_id":"w","queues":["../a"]}"#, 400, "queues"),
            (r#"{"worker_id":"w","types":[]}"#, 422, "types"),
            (r#"{"worker_id":"w","max":0}"#, 422, "max"),
            (r#"{"worker_id":"w","max":1001}"#, 422, "max"),
            (r#"{"worker_id":"w","wait_seconds":-1}"#, 422, "wait_seconds"),
            (r#"{"worker_id":"w","lease_seconds":0}"#, 422, "lease_seconds"),
            (r#"{"worker_id":"w","who":1}"#, 400, "who"),
            (r#"{"worker_id":"a b"}"#, 400, "worker_id"),
        ];
        for (text, status, field) in table {
            let invalid = check(text).expect_err(text);
            assert_eq!((invalid.fault.status(), invalid.field.as_deref()), (status, Some(field)), "{text}");
        }
        for long in ["1e9", "1e300"] {
            let text = format!(r#"{{"worker_id":"w","wait_seconds":{long}}}"#);
            assert_eq!(check(&text).unwrap().wait_ms, WAIT_MS_MAX);
        }
    }
}
