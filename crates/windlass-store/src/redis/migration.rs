//! The mark of a store that a migration is filling: a field next to its format.
//!
//! The mark is written before the first task is copied, and is removed when the copy was compared with its source and found
//! equal. Until then the store has a part of the tasks but looks complete, so only a migration may open it. A spread store
//! has one mark for all of its parts.

use super::link::{Link, failed};
use super::{Options, reply};
use crate::store::Error;

const FIELD: &str = "migrating";

/// The source of the migration that is filling a store, if there is one.
pub async fn source(options: &Options) -> Result<Option<String>, Error> {
    read(&link(options).await?, &options.base()).await
}

/// Marks a store. It must have no tasks, and the caller must be its only user.
pub async fn begin(options: &Options, source: &str) -> Result<(), Error> {
    let meta = meta(&options.base());
    link(options).await?.ask(redis::cmd("HSET").arg(meta).arg(FIELD).arg(source)).await.map(drop)
}

/// Removes the mark, because the copy is complete.
pub async fn end(options: &Options) -> Result<(), Error> {
    let meta = meta(&options.base());
    link(options).await?.ask(redis::cmd("HDEL").arg(meta).arg(FIELD)).await.map(drop)
}

/// Refuses a store whose migration did not finish, unless it is opened to finish it.
pub(super) async fn check(link: &Link, options: &Options) -> Result<(), Error> {
    if options.unfinished {
        return Ok(());
    }
    match read(link, &options.base()).await? {
        Some(source) => {
            let discard = format!("delete all keys of its prefix, {}", options.prefix);
            Err(Error::Unfinished { from: source, discard })
        }
        None => Ok(()),
    }
}

async fn read(link: &Link, base: &str) -> Result<Option<String>, Error> {
    match link.ask(redis::cmd("HGET").arg(meta(base)).arg(FIELD)).await? {
        redis::Value::Nil => Ok(None),
        value => reply::text(value).map(Some),
    }
}

async fn link(options: &Options) -> Result<Link, Error> {
    let wire = options.target.connect().await.map_err(|error| failed("connect", &error))?;
    Ok(Link::on(wire, &options.base(), None))
}

fn meta(base: &str) -> String {
    format!("{base}meta")
}
