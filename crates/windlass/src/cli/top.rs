//! `windlass top`: the broker on one screen, live.
//!
//! Three parts that know little of each other. The *feed* ([`feed`]) looks at the broker once a second, hears
//! of failures as they happen, does what was asked and says what came of it. The *model* ([`model`]) is all that is shown; keys and news change it and it has no
//! clock and no network. The *view* ([`view`]) draws a model and nothing else. This file joins them, and bounds how
//! often they are drawn: four times a second, a little more often while somebody types.
//!
//! A broker that goes away is no end: what was last seen stays on the screen, and the feed goes on trying.

mod feed;
mod figures;
mod keys;
mod model;
mod once;
mod recent;
mod snapshot;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::crossterm::event::Event;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::args::Connect;
use super::error::Failure;
use super::output::Output;
use feed::Feed;
use keys::Act;
use model::Model;
use recent::Recent;
use terminal::Screen;

/// Between two drawings.
const DRAW: Duration = Duration::from_millis(250);
/// The same after a key, so that the answer to it is seen at once.
const DRAW_KEY: Duration = Duration::from_millis(40);

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass top
  windlass top --once -o json

Keys: tab next pane, arrows select, / filter, p pause or resume, r retry,
s sort, ? help, q quit")]
pub(crate) struct Args {
    /// Print one look at the broker and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    let client = args.connect.client()?;
    if args.once {
        let snapshot = snapshot::look(&client, &mut Recent::default(), false).await?;
        output.value(&snapshot, || once::text(&snapshot));
        return Ok(());
    }
    if output.is_json() {
        return Err(Failure::usage("-o json prints one look: say --once too"));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal; --once prints one look without one"));
    }
    let model = Model::new(client.base(), output.has_colour());
    watch(model, Feed::start(client)).await
}

/// Until somebody quits, or the process is asked to end.
async fn watch(mut model: Model, mut feed: Feed) -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::error(format!("the terminal: {error}"));
    let mut screen = Screen::open().map_err(broken)?;
    let mut typed = terminal::typed();
    let mut ended = std::pin::pin!(terminal::ended());
    screen.draw(|frame| view::draw(frame, &model)).map_err(broken)?;
    let mut drawn = Instant::now();
    let mut due: Option<Instant> = None;
    let soonest = |due: Option<Instant>, at: Instant| Some(due.map_or(at, |due| due.min(at)));
    loop {
        let draw_at = due.unwrap_or_else(|| drawn + Duration::from_secs(3600));
        tokio::select! {
            () = &mut ended => return Ok(()),
            event = typed.recv() => {
                // A terminal that is gone sends nothing any more.
                let Some(event) = event else { return Ok(()) };
                if let Event::Key(key) = event {
                    match model.key(key) {
                        Some(Act::Quit) => return Ok(()),
                        Some(act) => feed.ask(act),
                        None => {}
                    }
                }
                due = soonest(due, drawn + DRAW_KEY);
            }
            news = feed.next() => {
                model.hear(news);
                due = soonest(due, drawn + DRAW);
            }
            () = tokio::time::sleep_until(draw_at), if due.is_some() => {
                screen.draw(|frame| view::draw(frame, &model)).map_err(broken)?;
                (drawn, due) = (Instant::now(), None);
            }
        }
    }
}

/// What a reader of the terminal sends; a full channel means that nobody looks.
type Typed = mpsc::Receiver<Event>;
