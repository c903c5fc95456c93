//! Raw Redis, as a careful program would use it: a task that a worker takes stays in Redis until it is reported done.

mod lists;
mod plain;
mod resp;
mod streams;

pub(crate) use lists::Lists;
pub(crate) use plain::Plain;
pub(crate) use resp::Resp;
pub(crate) use streams::Streams;
