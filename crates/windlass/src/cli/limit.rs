//! `windlass limit …`.

use windlass_core::Name;
use windlass_core::flow::Scope;
use windlass_proto::rest::{AgeingBody, LimitBody, LimitInput, RateBody, Seconds};

use super::args::{self, Connect};
use super::error::Failure;
use super::output::{Output, table};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass limit set key tenant-7 --max-concurrency 5 --weight 3
  windlass limit set type email.send --rate 100/1m
  windlass limit set queue imports --paused
  windlass limit set queue reports --ageing 10s
  windlass limit list --scope key")]
pub(crate) enum Command {
    /// List limits with what waits and runs under them
    List(ListArgs),
    /// Show a limit
    Get(One),
    /// Set or replace the limit of a queue, a type or a key
    Set(SetArgs),
    /// Remove a limit
    #[command(visible_alias = "delete")]
    Remove(One),
}

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    /// queue, type or key
    #[arg(value_parser = scope)]
    scope: Scope,
    #[arg(value_parser = args::name)]
    name: Name,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only of this: queue, type or key
    #[arg(long, value_parser = scope)]
    scope: Option<Scope>,
    /// How many
    #[arg(long, short = 'n', default_value_t = 50)]
    limit: usize,
    /// Continue where the last list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    one: One,
    /// Tasks that may run at once
    #[arg(long, value_name = "N")]
    max_concurrency: Option<u64>,
    /// Tasks that may start in any stretch of time, like 100/1m
    #[arg(long, value_name = "COUNT/SPAN", value_parser = rate)]
    rate: Option<RateBody>,
    /// The share of a key beside other keys, 1-1000
    #[arg(long, value_name = "N")]
    weight: Option<u64>,
    /// Tasks that may wait; more are refused
    #[arg(long, value_name = "N")]
    max_depth: Option<u64>,
    /// Nothing starts
    #[arg(long)]
    paused: bool,
    /// Tasks of the queue gain a step of priority for every SPAN that they wait, like 10s
    #[arg(long, value_name = "SPAN", value_parser = ageing)]
    ageing: Option<AgeingBody>,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => {
            let page = args.connect.client()?.limits(args.scope, args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Get(one) => show_one(one.connect.client()?.limit(one.scope, &one.name).await?, output),
        Command::Set(args) => {
            let limit = LimitInput {
                max_concurrency: args.max_concurrency,
                rate: args.rate,
                weight: args.weight,
                max_depth: args.max_depth,
                paused: args.paused,
                ageing: args.ageing,
            };
            let client = args.one.connect.client()?;
            show_one(client.set_limit(args.one.scope, &args.one.name, &limit).await?, output);
        }
        Command::Remove(one) => {
            one.connect.client()?.remove_limit(one.scope, &one.name).await?;
            let value = serde_json::json!({
                "scope": one.scope.as_str(), "name": one.name.as_str(), "removed": true
            });
            output.value(&value, || format!("{} {} removed", one.scope.as_str(), one.name));
        }
    }
    Ok(())
}

fn show_one(limit: LimitBody, output: &Output) {
    output.value(&limit, || show(std::slice::from_ref(&limit)));
}

fn show(limits: &[LimitBody]) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let rate = |rate: RateBody| format!("{}/{} s", rate.count, rate.per_seconds.0);
    let rows = limits.iter().map(|limit| {
        vec![
            limit.scope.clone(),
            limit.name.to_string(),
            number(limit.max_concurrency.map(u64::from)),
            limit.rate.map(rate).unwrap_or_default(),
            number(limit.weight.map(u64::from)),
            number(limit.max_depth),
            limit.ageing.map(|ageing| format!("{} s", ageing.every_seconds.0)).unwrap_or_default(),
            limit.running.to_string(),
            limit.waiting.to_string(),
            limit.blocked.as_ref().map(|reason| reason.text.clone()).unwrap_or_default(),
        ]
    });
    let header =
        ["SCOPE", "NAME", "CONCURRENCY", "RATE", "WEIGHT", "DEPTH", "AGEING", "RUNNING", "WAITING", ""];
    table(&header, rows.collect())
}

fn scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).ok_or_else(|| "must be queue, type or key".to_owned())
}

/// `100/1m`: a hundred in any minute.
fn rate(text: &str) -> Result<RateBody, String> {
    let (count, span) = text.split_once('/').ok_or("must be a count and a span, like 100/1m")?;
    let count = count.parse().map_err(|_| "must begin with a whole number, like 100/1m".to_owned())?;
    let span = args::duration(span)?;
    Ok(RateBody { count, per_seconds: Seconds::from_ms(span.as_millis() as u64) })
}

fn ageing(span: &str) -> Result<AgeingBody, String> {
    let span = args::duration(span)?;
    Ok(AgeingBody { every_seconds: Seconds::from_ms(span.as_millis() as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let read = |text: &str| rate(text).ok().map(|rate| (rate.count, rate.per_seconds.as_ms()));
        assert_eq!(read("100/1m"), Some((100, 60_000)));
        assert_eq!(read("5/500ms"), Some((5, 500)));
        for noise in ["", "100", "/1m", "x/1m", "5/", "5/fast"] {
            assert_eq!(read(noise), None, "{noise}");
        }
    }
}
