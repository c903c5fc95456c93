//! The scripts, each with what all of them share in front of it.

use std::sync::LazyLock;

#[derive(Debug)]
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) source: String,
    pub(super) hash: String,
}

impl Script {
    fn new(name: &'static str, own: &str) -> Script {
        let source = format!("{}\n{own}", include_str!("lua/task.lua"));
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Script { name, source, hash }
    }
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
    COMMIT = "commit";
    DUE = "due";
    ENDINGS = "endings";
    EXPIRE = "expire";
    EXTEND = "extend";
    IDS = "ids";
    INSERT = "insert";
    LEAD = "lead";
    NAMES = "names";
    OBSERVE = "observe";
    PAGE = "page";
    PAUSE = "pause";
    QUEUES = "queues";
    READ = "read";
    SLOTS = "slots";
    TRANSACT = "transact";
    WORKFLOWS = "workflows";
}
