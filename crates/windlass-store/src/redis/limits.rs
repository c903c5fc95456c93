//! Limits: setting them, looking at them, and saying which ones hold a task. What they do is in `lua/gates.lua` and
//! `lua/choice.lua`, where claims are decided.

use redis::Value;
use windlass_core::flow::{Ageing, Closed, Full, Gate, Limit, Rate, Scope, Status};
use windlass_core::limits::{HOLDERS_NAMED_MAX, HOLDERS_SCAN_MAX, LANES_MAX, LIMITS_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, Record, TaskId};

use super::Shared;
use super::hints::{Hint, Lane};
use super::link::Args;
use super::{reply, row, script};
use crate::store::{Error, Hold, LimitWritten, ListLimits, SetLimit};

/// The field of `meta` that changes with every limit.
pub(super) const MARK: &str = "limits_set";

/// What this process knows of the limits that bound how many wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    pub(super) text: String,
    pub(super) bounds: bool,
}

impl Shared {
    /// Something was not as it was seen: perhaps the limits.
    pub(super) async fn renew_limits_mark(&self) -> Result<(), Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.key("meta")).arg(MARK).arg("depths");
        let [mark, bounds] = reply::fixed(self.link.ask(&command).await?)?;
        let told =
            |value: Value| if matches!(value, Value::Nil) { Ok(String::new()) } else { reply::text(value) };
        let bounds = told(bounds)?;
        *self.limits_mark.lock() = Mark { text: told(mark)?, bounds: !bounds.is_empty() && bounds != "0" };
        Ok(())
    }

    /// Whether the limits are others than those of this mark: what was refused by them or in spite of them is weighed again.
    pub(super) async fn limits_moved(&self, seen: &str) -> Result<bool, Error> {
        self.renew_limits_mark().await?;
        Ok(self.limits_mark.lock().text != seen)
    }

    pub(super) async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        self.check_open()?;
        self.waits.settled().await;
        let mut hint = Hint::default();
        if !paused {
            hint.lanes.insert(Lane::Queue(queue.clone()));
        }
        loop {
            let mut args = self.args(&hint);
            args.text(queue.as_str()).flag(paused).number(LANES_MAX as u64);
            if !reply::is_text(&self.call_and_tell(&script::PAUSE, &args, &hint).await?.value, "crowded") {
                break;
            }
            if !self.make_room().await? {
                return Err(Error::TooManyLanes);
            }
        }
        self.heed(&hint);
        Ok(())
    }

    pub(super) async fn set_limit(&self, set: &SetLimit) -> Result<LimitWritten, Error> {
        let written = self.write_limit(&known_as(set.scope, &set.name), set.limit.as_ref(), 0).await?;
        Ok(written.unwrap_or(LimitWritten::TooMany))
    }

    /// Sets or removes a limit in some turn, of a store that is spread; `None` if somebody has had a later one.
    pub(super) async fn write_limit(
        &self,
        known_as: &str,
        limit: Option<&Limit>,
        turn: u64,
    ) -> Result<Option<LimitWritten>, Error> {
        self.check_open()?;
        self.waits.settled().await;
        let mut args = self.args(&Hint::default());
        args.number(self.clock.now().wall).text(known_as);
        args.text(&limit.map(write).unwrap_or_default()).number(LIMITS_MAX as u64).number(turn);
        match reply::text(self.link.run(&script::LIMIT, &args).await?)?.as_str() {
            "outdated" => Ok(None),
            "many" => Ok(Some(LimitWritten::TooMany)),
            existed => Ok(Some(LimitWritten::Done { existed: existed == "1" })),
        }
    }

    pub(super) async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        Ok(self.these_limits(&[known_as(scope, name)]).await?.pop())
    }

    pub(super) async fn limits(&self, list: &ListLimits) -> Result<Vec<Status>, Error> {
        self.check_open()?;
        let after = list.after.as_ref().map(|(scope, name)| known_as(*scope, name));
        let first = list.scope.map(|scope| format!("{}/", digit(scope)));
        let from = match (after, first) {
            (Some(after), first) if first.as_ref().is_none_or(|first| after >= *first) => format!("({after}"),
            (_, Some(first)) => format!("[{first}"),
            _ => "-".to_owned(),
        };
        // What comes behind the slash in the order of bytes.
        let until = list.scope.map_or("+".to_owned(), |scope| format!("({}0", digit(scope)));
        let mut args = Args::new("");
        args.text("page").text(&from).text(&until).number(list.limit.min(PAGE_ROWS_MAX) as u64);
        statuses(self.link.run(&script::LIMITS, &args).await?)
    }

    /// Those of some limits that there are.
    pub(super) async fn these_limits(&self, names: &[String]) -> Result<Vec<Status>, Error> {
        self.check_open()?;
        let mut args = Args::new("");
        args.text("these");
        for name in names {
            args.text(name);
        }
        statuses(self.link.run(&script::LIMITS, &args).await?)
    }

    pub(super) async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        let names: Vec<String> = scopes(&record.queue, &record.kind, record.key.as_ref())
            .map(|(scope, name)| known_as(scope, name))
            .collect();
        let now = self.clock.now().wall;
        let mut holds = Vec::new();
        for Status { scope, name, closed, .. } in self.these_limits(&names).await? {
            let Some(closed) = closed else { continue };
            let held_by = match closed {
                Closed::NoToken { until } if until <= now => continue,
                Closed::Full { .. } => self.who_runs(scope, &name).await?,
                _ => Vec::new(),
            };
            holds.push(Hold { scope, name, closed, held_by });
        }
        Ok(holds)
    }

    /// Some of the tasks that run under a limit.
    async fn who_runs(&self, scope: Scope, name: &Name) -> Result<Vec<TaskId>, Error> {
        let mut args = Args::new("");
        args.text(&known_as(scope, name)).number(HOLDERS_SCAN_MAX as u64).number(HOLDERS_NAMED_MAX as u64);
        let rows = row::rows(self.link.run(&script::HOLDERS, &args).await?)?;
        Ok(rows.into_iter().map(|row| row.record.id).collect())
    }

    /// Opens what a claim would find open now, if this process leads; who waits anywhere is told by the script.
    pub(super) async fn open_gates(&self) -> Result<Option<u64>, Error> {
        self.check_open()?;
        self.waits.settled().await;
        let Some(mark) = self.leading().await? else { return Ok(None) };
        let mut args = Args::new("");
        args.text(&mark).number(self.clock.now().wall);
        let answer = self.link.run(&script::TOKENS, &args).await?;
        if reply::is_text(&answer, "stranger") {
            self.leader.lose();
            return Ok(None);
        }
        reply::maybe_number(answer)
    }

    /// Whether the tasks of a queue gain priority by waiting.
    pub(super) async fn ages(&self, queue: &Name) -> Result<bool, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.key("limits")).arg(known_as(Scope::Queue, queue));
        match self.link.ask(&command).await? {
            Value::Nil => Ok(false),
            line => Ok(read(&reply::text(line)?)?.ageing.is_some()),
        }
    }
}

/// What a task counts towards.
pub(super) fn scopes<'a>(
    queue: &'a Name,
    kind: &'a Name,
    key: Option<&'a Name>,
) -> impl Iterator<Item = (Scope, &'a Name)> {
    let names = [(Scope::Queue, Some(queue)), (Scope::Type, Some(kind)), (Scope::Key, key)];
    names.into_iter().filter_map(|(scope, name)| Some((scope, name?)))
}

fn digit(scope: Scope) -> u8 {
    scope as u8
}

/// How scripts know a limit.
pub(super) fn known_as(scope: Scope, name: &Name) -> String {
    format!("{}/{name}", digit(scope))
}

fn damaged() -> Error {
    reply::wrong("a limit of another shape")
}

fn scope_and_name(text: &str) -> Result<(Scope, Name), Error> {
    let (digit, name) = text.split_once('/').ok_or_else(damaged)?;
    let place: usize = digit.parse().map_err(|_| damaged())?;
    let scope = *Scope::ALL.get(place).ok_or_else(damaged)?;
    Ok((scope, Name::new(name).map_err(|_| damaged())?))
}

/// The line of a limit, see `lua/gates.lua`.
pub(super) fn write(limit: &Limit) -> String {
    let maybe = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let Limit { max_concurrency, rate, weight, max_depth, paused, ageing } = limit;
    [
        maybe(max_concurrency.map(u64::from)),
        maybe(rate.map(|rate| u64::from(rate.count))),
        maybe(rate.map(|rate| rate.per_ms)),
        weight.to_string(),
        maybe(*max_depth),
        u8::from(*paused).to_string(),
        maybe(ageing.map(|ageing| ageing.every_ms)),
    ]
    .join(" ")
}

pub(super) fn read(line: &str) -> Result<Limit, Error> {
    fn number<T: std::str::FromStr>(word: &str) -> Result<Option<T>, Error> {
        if word == "-" { Ok(None) } else { word.parse().map(Some).map_err(|_| damaged()) }
    }
    let words: Vec<&str> = line.split(' ').collect();
    let [max, count, per_ms, weight, depth, paused, every_ms] = words[..] else { return Err(damaged()) };
    let rate = number(count)?.zip(number(per_ms)?).map(|(count, per_ms)| Rate { count, per_ms });
    Ok(Limit {
        max_concurrency: number(max)?,
        rate,
        weight: number(weight)?.ok_or_else(damaged)?,
        max_depth: number(depth)?,
        paused: paused == "1",
        ageing: number(every_ms)?.map(|every_ms| Ageing { every_ms }),
    })
}

/// What `lua/limits.lua` answers.
fn statuses(answer: Value) -> Result<Vec<Status>, Error> {
    let status = |row: Value| {
        let [name, line, drained, waiting, running] = reply::fixed(row)?;
        let (scope, name) = scope_and_name(&reply::text(name)?)?;
        let running = reply::number(running)?;
        let limit = read(&reply::text(line)?)?;
        let gate = Gate { limit, drained_until: reply::maybe_number(drained)?, ..Gate::default() };
        let waiting = reply::number(waiting)?;
        Ok(Status { scope, name, limit, waiting, running, closed: gate.closed(running) })
    };
    reply::list(answer)?.into_iter().map(status).collect()
}

/// The limit that refused a task, by what `lua/insert.lua` says of it.
pub(super) fn full(words: Vec<Value>) -> Result<Full, Error> {
    let [_, limit, max] = reply::fixed(Value::Array(words))?;
    let (scope, name) = scope_and_name(&reply::text(limit)?)?;
    Ok(Full { scope, name, max: reply::number(max)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_was_written() {
        let full = Limit {
            max_concurrency: Some(2),
            rate: Some(Rate { count: 3, per_ms: 1000 }),
            weight: 4,
            max_depth: Some(5),
            paused: true,
            ageing: Some(Ageing { every_ms: 60 }),
        };
        assert_eq!(write(&full), "2 3 1000 4 5 1 60");
        assert_eq!(write(&Limit::default()), "- - - 1 - 0 -");
        for limit in [full, Limit::default()] {
            assert_eq!(read(&write(&limit)).unwrap(), limit);
        }
        assert!(read("1 2").is_err());
        assert_eq!(known_as(Scope::Key, &Name::new("k").unwrap()), "2/k");
        assert_eq!(scope_and_name("1/t:1").unwrap(), (Scope::Type, Name::new("t:1").unwrap()));
    }
}
