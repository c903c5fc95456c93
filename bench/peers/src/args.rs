//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::system::PRODUCTS;

pub(crate) const USAGE: &str = "\
Usage: bench/peers/run [options]

  --only NAME,…        windlass, library, beanstalkd, redis, nats, rabbitmq, bullmq, celery, rq, echo; all of them by default
  --rows TEXT,…        of these only the settings that contain one of the texts: 'frames (sync)', '-f50'
  --workloads W,…      w1 to w6; all of them by default
  --seconds N          length of one measurement, 0.8 by default
  --rounds N           medians of so many rounds, 3 by default
  --backlog N          tasks that wait in w6, 1,000,000 by default
  --quick              one round of short measurements and a small backlog: to see that everything works
  --output DIR         where the results go; bench/results/ for a whole run, bench/results/partial/ for any other
  --report             measure nothing: write table, charts and docs anew from the results.json of the output";

#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Help,
    Bench(Box<Options>),
    /// Be a server that does nothing but answer.
    Echo(SocketAddr),
    EchoGrpc(SocketAddr),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    pub(crate) only: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) workloads: Vec<u8>,
    pub(crate) length: Duration,
    pub(crate) rounds: usize,
    pub(crate) backlog: u64,
    pub(crate) quick: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) report: bool,
    /// Given by the script that starts this.
    pub(crate) windlass: PathBuf,
    pub(crate) home: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            only: Vec::new(),
            rows: Vec::new(),
            workloads: Vec::new(),
            length: Duration::from_millis(800),
            rounds: 3,
            backlog: 1_000_000,
            quick: false,
            output: None,
            report: false,
            windlass: PathBuf::from("windlass"),
            home: PathBuf::from("bench/peers"),
        }
    }
}

impl Options {
    /// Everything is measured, thoroughly: the results may stand for the project.
    pub(crate) fn whole(&self) -> bool {
        self.only.is_empty()
            && self.rows.is_empty()
            && self.workloads.is_empty()
            && !self.quick
            && self.rounds >= 3
    }

    pub(crate) fn wants_product(&self, product: &str) -> bool {
        // Windlass is judged by the bare echoes.
        let wanted = if product == "echo" { vec!["echo", "windlass"] } else { vec![product] };
        self.only.is_empty() || self.only.iter().any(|name| wanted.contains(&name.as_str()))
    }

    pub(crate) fn wants_row(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.rows.is_empty() || self.rows.iter().any(|text| name.contains(text.as_str()))
    }

    pub(crate) fn wants_workload(&self, workload: u8) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&workload)
    }
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Request::Help),
            Long("only") => options.only.extend(products(&parser.value()?.string()?)?),
            Long("rows") => {
                let texts = parser.value()?.string()?.to_lowercase();
                options.rows.extend(texts.split(',').map(str::to_owned));
            }
            Long("workloads") => options.workloads.extend(workloads(&parser.value()?.string()?)?),
            Long("seconds") => options.length = seconds(parser.value()?.parse()?)?,
            Long("rounds") => options.rounds = at_least_one(parser.value()?.parse()?)?,
            Long("backlog") => options.backlog = parser.value()?.parse()?,
            Long("quick") => {
                options.quick = true;
                options.length = Duration::from_millis(300);
                options.rounds = 1;
                options.backlog = 20_000;
            }
            Long("output") => options.output = Some(parser.value()?.into()),
            Long("report") => options.report = true,
            Long("windlass") => options.windlass = parser.value()?.into(),
            Long("home") => options.home = parser.value()?.into(),
            Value(word) if word == "echo" => return Ok(Request::Echo(parser.value()?.parse()?)),
            Value(word) if word == "echo-grpc" => return Ok(Request::EchoGrpc(parser.value()?.parse()?)),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Bench(Box::new(options)))
}

fn products(list: &str) -> Result<Vec<String>, lexopt::Error> {
    let check = |name: &str| match PRODUCTS.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("there is no `{name}`; there are {}", PRODUCTS.join(", "))),
    };
    Ok(list.split(',').map(check).collect::<Result<_, _>>()?)
}

fn workloads(list: &str) -> Result<Vec<u8>, lexopt::Error> {
    let check = |name: &str| match name.strip_prefix('w').and_then(|number| number.parse().ok()) {
        Some(number @ 1..=6) => Ok(number),
        _ => Err(format!("there is no workload `{name}`; there are w1 to w6")),
    };
    Ok(list.split(',').map(check).collect::<Result<_, _>>()?)
}

fn seconds(number: f64) -> Result<Duration, lexopt::Error> {
    match number {
        0.05..=600.0 => Ok(Duration::from_secs_f64(number)),
        _ => Err("a measurement takes 0.05 to 600 seconds".into()),
    }
}

fn at_least_one(rounds: usize) -> Result<usize, lexopt::Error> {
    if rounds > 0 { Ok(rounds) } else { Err("there must be a round".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Request, String> {
        parse(lexopt::Parser::from_args(line.split_whitespace())).map_err(|error| error.to_string())
    }

    fn options(line: &str) -> Options {
        match check(line) {
            Ok(Request::Bench(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_bare_run_is_whole() {
        assert!(options("").whole());
        for line in ["--quick", "--only rq", "--rows sync", "--workloads w1", "--rounds 1"] {
            assert!(!options(line).whole(), "{line}");
        }
    }

    #[test]
    fn what_is_named_is_wanted() {
        let some = options("--only beanstalkd,windlass --workloads w1,w5 --seconds 0.5");
        assert!(some.wants_product("windlass") && some.wants_product("echo"));
        assert!(!some.wants_product("rq"));
        assert!(some.wants_workload(5) && !some.wants_workload(2));
        assert_eq!(some.length, Duration::from_millis(500));
        assert!(!options("--only rq").wants_product("echo"));
        let rows = options("--rows -F50,Frames");
        assert!(rows.wants_row("beanstalkd (-b -f50)") && rows.wants_row("Windlass, TCP frames (sync)"));
        assert!(!rows.wants_row("beanstalkd (no log)") && some.wants_row("beanstalkd (no log)"));
    }

    #[test]
    fn mistakes_are_refused() {
        for line in
            ["now", "--only kafka", "--workloads w9", "--workloads 1", "--seconds 0", "--rounds 0", "echo"]
        {
            assert!(check(line).is_err(), "`{line}` was accepted");
        }
    }

    #[test]
    fn it_can_be_an_echo() {
        assert_eq!(check("echo 127.0.0.1:99"), Ok(Request::Echo("127.0.0.1:99".parse().unwrap())));
    }
}
