//! `windlass schedule …`.

mod show;

use std::time::Duration;

use windlass_core::{Name, Priority};
use windlass_proto::rest::{ScheduleBody, ScheduleInput, Seconds, SubmitBody, Time};

use super::args::{self, ListPage, One};
use super::error::Failure;
use super::output::Output;
use super::submit;

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass schedule add nightly --cron '0 2 * * *' --timezone Europe/Berlin \\
    --type report '{\"day\":\"{{scheduled_at}}\"}'
  windlass schedule next nightly --count 3
  windlass schedule fires nightly")]
pub(crate) enum Command {
    /// List schedules
    List(ListPage),
    /// Show a schedule and what it is about to do
    Get(One),
    /// Make a schedule
    #[command(visible_alias = "create")]
    Add(Box<AddArgs>),
    /// Forget a schedule; tasks that it made stay
    #[command(visible_alias = "delete")]
    Remove(One),
    /// Make a task of it now
    Run(One),
    /// Let it fire no more
    Pause(One),
    /// Let it fire again, from now on
    Resume(One),
    /// Show the next slots
    Next(NextArgs),
    /// Show the last fires and what became of them
    Fires(FiresArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    one: One,
    /// How many
    #[arg(long, short = 'n', default_value_t = 5)]
    count: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FiresArgs {
    #[command(flatten)]
    one: One,
    /// How many
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    one: One,
    /// JSON, @FILE, or -; {{scheduled_at}} in a string becomes the slot
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<String>,
    /// When: a pattern, @daily and its like, or '@every 90s'
    #[arg(long, value_name = "CRON")]
    cron: String,
    /// The clock the pattern is read by, like Europe/Berlin; UTC by default
    #[arg(long, value_name = "NAME")]
    timezone: Option<String>,
    /// What to run
    #[arg(long = "type", short = 't', value_name = "NAME", value_parser = args::name)]
    kind: Name,
    /// Where its tasks wait
    #[arg(long, short = 'q', value_name = "NAME", value_parser = args::name)]
    queue: Option<Name>,
    /// Whose share and limit they count towards, like a tenant
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    key: Option<Name>,
    /// 0-255, or critical, high, normal, low
    #[arg(long, short = 'p', value_parser = submit::priority)]
    priority: Option<Priority>,
    /// Attempts after the first one
    #[arg(long, value_name = "N")]
    max_retries: Option<u64>,
    /// The handler's time limit, like 5m
    #[arg(long, allow_hyphen_values = true, value_parser = args::duration)]
    timeout: Option<Duration>,
    /// If the last one is not finished: allow, skip, queue_one, cancel_running
    #[arg(long, value_name = "RULE")]
    overlap: Option<String>,
    /// If slots were missed: skip, one, all
    #[arg(long, value_name = "RULE")]
    catch_up: Option<String>,
    /// How far back missed slots are caught up with, like 1h
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = args::duration)]
    catch_up_window: Option<Duration>,
    /// Start up to this much after the slot, like 30s
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = args::duration)]
    jitter: Option<Duration>,
    /// No slot before this, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME")]
    starts_at: Option<Time>,
    /// No slot after this
    #[arg(long, value_name = "TIME")]
    ends_at: Option<Time>,
    /// Fire only when it is resumed
    #[arg(long)]
    paused: bool,
    /// Replace the definition of one that is there already
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => {
            let page = args.connect.client()?.schedules(args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show::list(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Get(one) => show_one(one.connect.client()?.schedule(&one.id).await?, output),
        Command::Add(args) => add(*args, output).await?,
        Command::Remove(one) => {
            one.connect.client()?.remove_schedule(&one.id).await?;
            output.value(&serde_json::json!({ "id": one.id.as_str(), "removed": true }), || {
                format!("{} removed", one.id)
            });
        }
        Command::Run(one) => {
            let task = one.connect.client()?.run_schedule(&one.id).await?;
            output.value(&task, || task.id.to_string());
        }
        Command::Pause(one) => show_one(one.connect.client()?.pause_schedule(&one.id).await?, output),
        Command::Resume(one) => show_one(one.connect.client()?.resume_schedule(&one.id).await?, output),
        Command::Next(args) => {
            let slots = args.one.connect.client()?.next_slots(&args.one.id, args.count).await?;
            output.value(&slots, || show::slots(&slots.items));
        }
        Command::Fires(args) => {
            let fires = args.one.connect.client()?.schedule_fires(&args.one.id, args.limit).await?;
            output.value(&fires, || show::fires(&fires.items));
        }
    }
    Ok(())
}

async fn add(args: AddArgs, output: &Output) -> Result<(), Failure> {
    let client = args.one.connect.client()?;
    let payload = submit::payload(args.payload.as_deref())?;
    let seconds = |length: Duration| Seconds::from_ms(length.as_millis() as u64);
    let mut task = SubmitBody::new(args.kind);
    if let Some(bytes) = &payload {
        task.payload = Some(submit::json(bytes)?);
    }
    task.queue = args.queue;
    task.key = args.key;
    task.priority = args.priority.map(Into::into);
    task.max_retries = args.max_retries;
    task.timeout_seconds = args.timeout.map(seconds);
    let input = ScheduleInput {
        id: Some(args.one.id.clone()),
        cron: args.cron,
        timezone: args.timezone,
        task,
        overlap: args.overlap,
        catch_up: args.catch_up,
        catch_up_window_seconds: args.catch_up_window.map(seconds),
        jitter_seconds: args.jitter.map(seconds),
        starts_at: args.starts_at,
        ends_at: args.ends_at,
        paused: args.paused,
    };
    let schedule = match args.replace {
        true => client.put_schedule_of(&args.one.id, &input).await?,
        false => client.create_schedule_of(&input).await?,
    };
    show_one(schedule, output);
    Ok(())
}

fn show_one(schedule: ScheduleBody, output: &Output) {
    output.value(&schedule, || show::schedule(&schedule));
}
