//! The scripts, each with what all of them share in front of it.

use std::sync::LazyLock;

use windlass_core::limits::{PLACES_OPENED_MAX, SHARES_TURNED_MAX, SHUT_MET_MAX};

#[derive(Debug)]
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) source: String,
    pub(super) hash: String,
}

impl Script {
    fn new(name: &'static str, own: &str) -> Script {
        let shared = [
            include_str!("lua/row.lua"),
            include_str!("lua/held.lua"),
            include_str!("lua/numbers.lua"),
            include_str!("lua/gates.lua"),
            include_str!("lua/lanes.lua"),
            include_str!("lua/task.lua"),
        ];
        let choice = match name {
            "claim" => concat!(include_str!("lua/choice.lua"), "\n", include_str!("lua/fronts.lua")),
            _ => "",
        };
        let source = format!("{}{}\n{choice}\n{own}", bounds(), shared.join("\n"));
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Script { name, source, hash }
    }

    /// Whether somebody relies on what it did. What is lost of the others is made good by itself.
    pub(super) fn promises(&self) -> bool {
        matches!(self.name, "commit" | "home" | "insert" | "limit" | "pause" | "transact")
    }
}

/// What a call may do at most of what has no other bound.
fn bounds() -> String {
    format!(
        "local PLACES_MAX, SHARES_TURNED_MAX, SHUT_MET_MAX = {PLACES_OPENED_MAX}, {SHARES_TURNED_MAX}, {SHUT_MET_MAX}\n"
    )
}

macro_rules! scripts {
    ($($constant:ident = $file:literal;)*) => {
        $(
            pub(super) static $constant: LazyLock<Script> =
                LazyLock::new(|| Script::new($file, include_str!(concat!("lua/", $file, ".lua"))));
        )*
        pub(super) fn all() -> Vec<&'static Script> {
            vec![$(&$constant),*]
        }
    };
}

scripts! {
    CLAIM = "claim";
    CLOCK = "clock";
    COMMIT = "commit";
    DUE = "due";
    ENDINGS = "endings";
    EXPIRE = "expire";
    EXTEND = "extend";
    GONE = "gone";
    HOLDERS = "holders";
    HOME = "home";
    IDS = "ids";
    INSERT = "insert";
    LEAD = "lead";
    LIMIT = "limit";
    LIMITS = "limits";
    NAMES = "names";
    OBSERVE = "observe";
    PAGE = "page";
    PAUSE = "pause";
    QUEUES = "queues";
    READ = "read";
    RELEASE = "release";
    ROLLCALL = "rollcall";
    SLOTS = "slots";
    TOKENS = "tokens";
    TRANSACT = "transact";
    WORKFLOWS = "workflows";
}
