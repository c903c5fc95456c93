//! Things that have a name and a revision of their own: schedules and operations. Each kind has a hash of values, one of
//! revisions, and a set of names in order.

use bytes::Bytes;
use windlass_core::Name;
use windlass_core::limits::PAGE_ROWS_MAX;

use super::Shared;
use super::link::Args;
use super::transact::Transaction;
use super::{reply, script};
use crate::store::Error;

impl Shared {
    pub(super) async fn named(&self, kind: &str, id: &Name) -> Result<Option<Bytes>, Error> {
        self.check_open()?;
        match self.link.ask(redis::cmd("HGET").arg(self.key(kind)).arg(id.as_str())).await? {
            redis::Value::Nil => Ok(None),
            value => reply::bytes(value).map(Some),
        }
    }

    /// How many there are.
    pub(super) async fn count_named(&self, kind: &str) -> Result<usize, Error> {
        Ok(reply::number(self.link.ask(redis::cmd("HLEN").arg(self.key(kind))).await?)? as usize)
    }

    pub(super) async fn page_of_named(
        &self,
        kind: &str,
        up: bool,
        beyond: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Bytes)>, Error> {
        self.check_open()?;
        let mut args = Args::new("");
        args.text(kind).text(if up { "up" } else { "down" }).text(beyond.map_or("", Name::as_str));
        args.number(limit.min(PAGE_ROWS_MAX) as u64);
        pairs(self.link.run(&script::NAMES, &args).await?)
    }
}

/// Names and values.
pub(super) fn pairs(value: redis::Value) -> Result<Vec<(Name, Bytes)>, Error> {
    let pair = |pair: redis::Value| {
        let [name, value] = reply::fixed(pair)?;
        let name = Name::new(&reply::text(name)?).map_err(|_| reply::wrong("a wrong name"))?;
        Ok((name, reply::bytes(value)?))
    };
    reply::list(value)?.into_iter().map(pair).collect()
}

impl Transaction {
    /// The thing is still at the revision that was seen, or still not there.
    pub(super) fn guard_named(&mut self, kind: &str, id: &Name, seen: Option<u64>) {
        let seen = seen.map_or(String::new(), |revision| revision.to_string());
        self.guard("is", &[&format!("{kind}_revisions"), id.as_str(), &seen]);
    }

    pub(super) fn put_named(&mut self, kind: &str, id: &Name, revision: u64, value: Vec<u8>) {
        self.put(kind, id.as_str(), value);
        self.put(&format!("{kind}_revisions"), id.as_str(), revision.to_string().into_bytes());
        self.act("rank", &[&format!("{kind}_names"), "0", id.as_str()]);
    }

    pub(super) fn take_named(&mut self, kind: &str, id: &Name) {
        self.act("take", &[kind, id.as_str()]);
        self.act("take", &[&format!("{kind}_revisions"), id.as_str()]);
        self.act("unrank", &[&format!("{kind}_names"), id.as_str()]);
    }
}
