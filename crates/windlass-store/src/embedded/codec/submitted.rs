//! New tasks as the log carries them: the head for the index, the body as it is kept.
//!
//! Submits are what there is most of, so they are written field by field from where they are, into one buffer that is
//! the entry of the log and of which every body is a part: nothing usual is copied into messages of its own first. What is read
//! back are ordinary messages, and a test holds the two against each other.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{self, WireType, encoded_len_varint, key_len};
use windlass_core::{Counted, NewTask, OnConflict, Unique};

use super::body::{body_len, decode_body, write_body};
use super::field::{head, present, text, zigzag};
use super::{Result, id, key, name, priority, wrong};

/// A submitted task as the log carries it: the head for the index, the body as encoded bytes.
#[derive(Clone, PartialEq, Message)]
pub(in crate::embedded) struct NewTaskMessage {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    queue: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(uint32, tag = "4")]
    priority: u32,
    #[prost(uint64, tag = "5")]
    created_at: u64,
    #[prost(uint64, optional, tag = "6")]
    scheduled_at: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    expires_at: Option<u64>,
    #[prost(uint64, tag = "8")]
    retention_ms: u64,
    #[prost(bytes = "bytes", tag = "9")]
    body: Bytes,
    #[prost(string, optional, tag = "10")]
    key: Option<String>,
    #[prost(message, optional, tag = "12")]
    unique: Option<UniqueMessage>,
    #[prost(sint64, tag = "13")]
    ahead: i64,
    #[prost(bool, tag = "14")]
    delayed: bool,
}

#[derive(Clone, PartialEq, Message)]
struct UniqueMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(uint64, optional, tag = "2")]
    for_ms: Option<u64>,
    /// The place in [`OnConflict::ALL`].
    #[prost(uint32, tag = "3")]
    on_conflict: u32,
}

impl From<&Unique> for UniqueMessage {
    fn from(unique: &Unique) -> Self {
        let Unique { key, for_ms, on_conflict } = unique;
        Self { key: key.as_str().to_owned(), for_ms: *for_ms, on_conflict: *on_conflict as u32 }
    }
}

fn unique(message: UniqueMessage) -> Result<Box<Unique>> {
    let rule = OnConflict::ALL.into_iter().find(|rule| *rule as u32 == message.on_conflict);
    Ok(Box::new(Unique {
        key: key(&message.key)?,
        for_ms: message.for_ms,
        on_conflict: rule.ok_or_else(|| wrong("unknown rule for a unique key"))?,
    }))
}

impl NewTaskMessage {
    /// For the few that are part of another message.
    pub(in crate::embedded) fn new(task: &NewTask, body: Bytes) -> Self {
        Self {
            id: task.id.as_str().to_owned(),
            queue: task.queue.as_str().to_owned(),
            kind: task.kind.as_str().to_owned(),
            priority: u32::from(task.priority.0),
            created_at: task.created_at,
            scheduled_at: task.scheduled_at,
            expires_at: task.expires_at,
            retention_ms: task.retention_ms,
            body,
            key: task.key.as_ref().map(|key| key.as_str().to_owned()),
            unique: task.unique.as_deref().map(Into::into),
            ahead: task.counted.ahead,
            delayed: task.counted.delayed,
        }
    }

    pub(in crate::embedded) fn into_parts(self) -> Result<(NewTask, Bytes)> {
        let body = decode_body(self.body.clone())?;
        let task = NewTask {
            id: id(&self.id)?,
            queue: name(&self.queue)?,
            kind: name(&self.kind)?,
            priority: priority(self.priority)?,
            created_at: self.created_at,
            scheduled_at: self.scheduled_at,
            expires_at: self.expires_at,
            retention_ms: self.retention_ms,
            counted: Counted { ahead: self.ahead, delayed: self.delayed },
            key: self.key.as_deref().map(name).transpose()?,
            unique: self.unique.map(unique).transpose()?,
            body,
        };
        Ok((task, self.body))
    }
}

/// Writes new tasks one after the other, each as a field of the message around it.
#[derive(Debug)]
pub(in crate::embedded) struct Writer<'a> {
    tasks: &'a [NewTask],
    lengths: Vec<Lengths>,
    tag: u32,
}

#[derive(Debug, Clone, Copy)]
struct Lengths {
    body: usize,
    task: usize,
}

impl<'a> Writer<'a> {
    pub(in crate::embedded) fn new(tag: u32, tasks: &'a [NewTask]) -> Self {
        let measured = |task: &NewTask| {
            let body = body_len(&task.body);
            Lengths { body, task: task_len(task, body) }
        };
        Self { lengths: tasks.iter().map(measured).collect(), tasks, tag }
    }

    pub(in crate::embedded) fn encoded_len(&self) -> usize {
        let field = |len: usize| key_len(self.tag) + encoded_len_varint(len as u64) + len;
        self.lengths.iter().map(|len| field(len.task)).sum()
    }

    /// Returns where in the buffer each body stands.
    pub(in crate::embedded) fn encode(self, buffer: &mut Vec<u8>) -> Vec<Range<usize>> {
        let mut bodies = Vec::with_capacity(self.tasks.len());
        for (task, len) in self.tasks.iter().zip(self.lengths) {
            head(self.tag, WireType::LengthDelimited, len.task as u64, buffer);
            encode_head(task, buffer);
            head(BODY_TAG, WireType::LengthDelimited, len.body as u64, buffer);
            let start = buffer.len();
            write_body(&task.body, buffer);
            bodies.push(start..buffer.len());
            if let Some(key) = &task.key {
                text(KEY_TAG, key.as_str(), buffer);
            }
            if let Some(unique) = &task.unique {
                encoding::message::encode(UNIQUE_TAG, &UniqueMessage::from(&**unique), buffer);
            }
            for (tag, number) in counted(task) {
                present(tag, number, buffer);
            }
        }
        bodies
    }
}

const BODY_TAG: u32 = 9;
const KEY_TAG: u32 = 10;
const UNIQUE_TAG: u32 = 12;

fn texts(task: &NewTask) -> [(u32, &str); 3] {
    [(1, task.id.as_str()), (2, task.queue.as_str()), (3, task.kind.as_str())]
}

/// Numbers that are written: zero and absent are not.
fn numbers(task: &NewTask) -> impl Iterator<Item = (u32, u64)> {
    let given = |number: u64| (number != 0).then_some(number);
    [
        (4, given(u64::from(task.priority.0))),
        (5, given(task.created_at)),
        (6, task.scheduled_at),
        (7, task.expires_at),
        (8, given(task.retention_ms)),
    ]
    .into_iter()
    .filter_map(|(tag, number)| Some((tag, number?)))
}

/// The fields of [`Counted`]. Zeros, which are the usual case, are not written.
fn counted(task: &NewTask) -> impl Iterator<Item = (u32, u64)> {
    let Counted { ahead, delayed } = task.counted;
    [(13, zigzag(ahead)), (14, u64::from(delayed))].into_iter().filter(|(_, number)| *number != 0)
}

fn task_len(task: &NewTask, body: usize) -> usize {
    let field = |len: usize| 1 + encoded_len_varint(len as u64) + len;
    let texts: usize = texts(task).into_iter().map(|(_, text)| field(text.len())).sum();
    let numbers: usize =
        numbers(task).chain(counted(task)).map(|(_, number)| 1 + encoded_len_varint(number)).sum();
    let key = task.key.as_ref().map_or(0, |key| field(key.as_str().len()));
    let unique = |unique: &Unique| encoding::message::encoded_len(UNIQUE_TAG, &UniqueMessage::from(unique));
    texts + numbers + field(body) + key + task.unique.as_deref().map_or(0, unique)
}

fn encode_head(task: &NewTask, buffer: &mut Vec<u8>) {
    for (tag, given) in texts(task) {
        text(tag, given, buffer);
    }
    for (tag, number) in numbers(task) {
        present(tag, number, buffer);
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Body, Links, Name, Payload, Priority, TaskId, UniqueKey, retry};

    use super::super::encode_body;
    use super::*;

    fn payload(fields: u64) -> Payload {
        let bytes = Bytes::from(vec![b'7'; if fields & 32 != 0 { 300 } else { 0 }]);
        if fields & 8 != 0 { Payload::Binary(bytes) } else { Payload::Json(bytes) }
    }

    fn task(fields: u64) -> NewTask {
        let some = |bit: u64, value: u64| (fields & bit != 0).then_some(value);
        NewTask {
            id: TaskId::new("an-id").unwrap(),
            queue: Name::new("queue").unwrap(),
            kind: Name::new("kind").unwrap(),
            priority: Priority(some(1, 200).unwrap_or(0) as u8),
            created_at: some(2, 1_790_000_000_000).unwrap_or(0),
            scheduled_at: some(4, if fields & 128 != 0 { 0 } else { 300 }),
            expires_at: some(8, 0),
            retention_ms: some(16, 127).unwrap_or(0),
            counted: Counted { ahead: some(32, 1).map_or(0, |_| -70), delayed: fields & 4 != 0 },
            key: some(128, 1).map(|_| Name::new("tenant").unwrap()),
            unique: some(256, fields & 15).map(|bits| {
                Box::new(Unique {
                    key: UniqueKey::new("a key").unwrap(),
                    for_ms: (bits & 1 != 0).then_some(bits & 2),
                    on_conflict: OnConflict::ALL[bits as usize % 3],
                })
            }),
            body: Body {
                payload: payload(fields),
                metadata: some(64, 1).map(|_| ("key".to_owned(), "value".to_owned())).into_iter().collect(),
                timeout_ms: 5,
                max_retries: 3,
                max_crashes: 0,
                retry: retry::Policy::default(),
                fingerprint: some(64, 1).map(|_| [9; 16]),
                links: some(512, 1).map(|_| {
                    let dependencies = vec![TaskId::new("first").unwrap(), TaskId::new("second").unwrap()];
                    Box::new(Links { dependencies, workflow: Name::new("flow").ok() })
                }),
            },
        }
    }

    /// A message around the tasks, as the log has one.
    #[derive(Clone, PartialEq, Message)]
    struct Around {
        #[prost(message, repeated, tag = "3")]
        tasks: Vec<NewTaskMessage>,
    }

    #[test]
    fn what_is_written_field_by_field_is_the_message() {
        let tasks: Vec<NewTask> = (0..1024).map(task).collect();
        let writer = Writer::new(3, &tasks);
        let len = writer.encoded_len();
        let mut buffer = Vec::new();
        let bodies = writer.encode(&mut buffer);
        assert_eq!(buffer.len(), len);
        let read = Around::decode(&buffer[..]).unwrap();
        assert_eq!(read.encode_to_vec(), buffer);
        for ((task, message), body) in tasks.into_iter().zip(read.tasks).zip(bodies) {
            let (read, kept) = message.into_parts().unwrap();
            assert_eq!(read, task);
            assert_eq!(kept, buffer[body]);
            assert_eq!(encode_body(&read.body), kept);
        }
    }
}
