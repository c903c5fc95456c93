//! Live events, over connections that may break.
//!
//! A listener that was once connected stays one: when the connection ends it says so, comes back after a pause that grows and goes
//! on behind the last event. What the broker cannot give it any more is told as a `gap`, an event like the others.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Response, Url};
use tokio::time::timeout;
use windlass_core::{Name, TaskId};
use windlass_proto::rest::EventBody;

use super::{ANSWER_TIMEOUT, Client, send};
use crate::error::Error;

/// The broker writes something at least every fifteen seconds.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// One event is much smaller.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// The first pause before it comes back, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Which events; what is empty does not filter.
#[derive(Debug, Clone, Default)]
pub struct Listen {
    /// As `task.completed` or `task.*`.
    pub types: Vec<String>,
    pub queues: Vec<Name>,
    pub tasks: Vec<TaskId>,
    /// The last event that was seen: what came after it is told first.
    pub after: Option<u64>,
}

#[derive(Debug)]
pub enum Said {
    Event(EventBody),
    /// The connection ended; the next call comes back.
    Lost(Error),
}

/// What is said on one broker, see [`Client::events`].
#[derive(Debug)]
pub struct Events {
    client: Client,
    listen: Listen,
    connection: Option<Response>,
    /// What came and is not a whole event yet.
    rest: Vec<u8>,
    ready: VecDeque<EventBody>,
    /// Ends in a row without an event between them.
    failures: u32,
}

impl Client {
    /// Listens to events. A broker that cannot be reached or refuses is an error.
    pub async fn events(&self, listen: Listen) -> Result<Events, Error> {
        let mut events = Events {
            client: self.clone(),
            listen,
            connection: None,
            rest: Vec::new(),
            ready: VecDeque::new(),
            failures: 0,
        };
        events.connection = Some(events.connect().await?);
        Ok(events)
    }
}

impl Events {
    /// The next event, or that the connection ended. Only a refusal that time will not change is an error.
    pub async fn next(&mut self) -> Result<Said, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.failures = 0;
                self.listen.after = Some(event.id);
                if event.kind != "closed" {
                    return Ok(Said::Event(event));
                }
                self.connection = None;
                let reason = event.data["reason"].as_str().unwrap_or("no reason").to_owned();
                return Ok(self.lost(format!("the broker ended it: {reason}")));
            }
            let Some(connection) = &mut self.connection else {
                self.come_back().await?;
                continue;
            };
            match timeout(SILENCE_MAX, connection.chunk()).await {
                Ok(Ok(Some(bytes))) => self.take(&bytes)?,
                Ok(Ok(None)) => return Ok(self.lost("the connection ended".to_owned())),
                Ok(Err(error)) => return Ok(self.lost(error.to_string())),
                Err(_) => return Ok(self.lost("nothing was heard for too long".to_owned())),
            }
        }
    }

    /// The last event that was heard.
    pub fn last_id(&self) -> Option<u64> {
        self.listen.after
    }

    fn lost(&mut self, detail: String) -> Said {
        self.connection = None;
        self.rest.clear();
        Said::Lost(Error::Unreachable { detail })
    }

    async fn come_back(&mut self) -> Result<(), Error> {
        loop {
            let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(6)).min(PAUSE_MAX);
            self.failures += 1;
            // sleep: the pause before the next try, half of it random, so that many do not come back together.
            tokio::time::sleep(pause.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
            match self.connect().await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                Err(error) if error.may_pass() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&self) -> Result<Response, Error> {
        let unreachable = |_| Error::Unreachable { detail: "no answer came in time".to_owned() };
        let request = self.client.http.get(self.address());
        timeout(ANSWER_TIMEOUT, send(request)).await.map_err(unreachable)?
    }

    fn address(&self) -> Url {
        let mut url = self.client.base.clone();
        let mut path = url.path_segments_mut().expect("checked when the client was made");
        path.pop_if_empty().extend(["api", "v1", "events"]);
        drop(path);
        let names = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(",");
        let tasks = self.listen.tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(",");
        let after = self.listen.after.map(|id| id.to_string()).unwrap_or_default();
        let all = [
            ("type", self.listen.types.join(",")),
            ("queue", names(&self.listen.queues)),
            ("task", tasks),
            ("last_id", after),
        ];
        let given = all.iter().filter(|(_, text)| !text.is_empty());
        url.query_pairs_mut().extend_pairs(given);
        url
    }

    /// Takes the whole events out of what came.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = self.rest[begin..].windows(2).position(|pair| pair == b"\n\n") {
            let block = &self.rest[begin..begin + length];
            begin += length + 2;
            let field =
                |name: &[u8]| block.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
            match (field(b"data: "), field(b"id: ")) {
                (Some(data), _) => {
                    let event = serde_json::from_slice(data)
                        .map_err(|error| Error::Answer(format!("an event is not understood: {error}")))?;
                    self.ready.push_back(event);
                }
                // Where it is, though there was nothing to hear. What came before has been taken already.
                (None, Some(id)) if self.ready.is_empty() => {
                    let id = std::str::from_utf8(id).ok().and_then(|text| text.parse().ok());
                    self.listen.after = id.or(self.listen.after);
                }
                _ => {}
            }
        }
        self.rest.drain(..begin);
        if self.rest.len() > EVENT_BYTES_MAX {
            return Err(Error::Answer("an event does not end".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(listen: Listen) -> Events {
        Events {
            client: Client::new("http://127.0.0.1:1/under/").unwrap(),
            listen,
            connection: None,
            rest: Vec::new(),
            ready: VecDeque::new(),
            failures: 0,
        }
    }

    #[test]
    fn events_are_put_together_from_pieces() {
        let text = "id: 5\nretry: 1000\n\nid: 6\n: still here\n\nid: 7\ndata: {\"id\":7,\"type\":\"queue.paused\",\
            \"timestamp\":\"2030-01-31T08:30:00.000Z\",\"data\":{\"queue\":\"a\"}}\n\nid: 8\nda";
        for size in [1, 3, 1000] {
            let mut events = events(Listen::default());
            for piece in text.as_bytes().chunks(size) {
                events.take(piece).unwrap();
            }
            let event = events.ready.pop_front().unwrap();
            assert_eq!(
                (event.id, &*event.kind, event.data["queue"].as_str()),
                (7, "queue.paused", Some("a"))
            );
            assert!(events.ready.is_empty());
            assert_eq!(events.last_id(), Some(6), "until the next is heard");
            assert_eq!(events.rest, b"id: 8\nda");
        }
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let mut events = events(Listen::default());
        let piece = vec![b'x'; EVENT_BYTES_MAX + 1];
        assert!(matches!(events.take(&piece), Err(Error::Answer(_))));
    }

    #[test]
    fn the_address_says_what_is_wanted() {
        let listen = Listen {
            types: vec!["task.*".to_owned(), "queue.paused".to_owned()],
            queues: vec![Name::new("a").unwrap()],
            tasks: Vec::new(),
            after: Some(9),
        };
        let address = events(listen).address();
        assert_eq!(
            address.as_str(),
            "http://127.0.0.1:1/under/api/v1/events?type=task.*%2Cqueue.paused&queue=a&last_id=9"
        );
    }
}
