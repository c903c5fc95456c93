//! Frames of AMQP 0-9-1: `u8` kind, `u16` channel, `u32` length, the body, and an end byte.

use anyhow::{Context, Result, bail};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xCE;
/// The class of everything about messages.
const BASIC: u16 = 60;

#[derive(Debug)]
pub(super) enum Frame {
    Method { id: (u16, u16), arguments: Vec<u8> },
    Content(Vec<u8>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    kind: u8,
    pub(super) bytes: usize,
}

impl Head {
    pub(super) fn parse(head: &[u8]) -> Result<Head> {
        let &[kind, _, _, a, b, c, d] = head else { bail!("a frame has no head") };
        Ok(Head { kind, bytes: u32::from_be_bytes([a, b, c, d]) as usize })
    }

    /// Nothing for a frame that says nothing new: the header of a message, a heartbeat.
    pub(super) fn read(&self, body: &[u8]) -> Result<Option<Frame>> {
        let Some((&END, body)) = body.split_last() else { bail!("a frame of RabbitMQ has no end") };
        match (self.kind, body) {
            (METHOD, [a, b, c, d, arguments @ ..]) => Ok(Some(Frame::Method {
                id: (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])),
                arguments: arguments.to_vec(),
            })),
            (BODY, body) => Ok(Some(Frame::Content(body.to_vec()))),
            (HEADER | 8, _) => Ok(None),
            (kind, _) => bail!("RabbitMQ sent a frame of kind {kind}"),
        }
    }
}

/// A method and its arguments, in the order of the specification.
#[derive(Debug)]
pub(super) struct Method(Vec<u8>);

impl Method {
    pub(super) fn new(class: u16, method: u16) -> Method {
        Method(Vec::with_capacity(64)).u16(class).u16(method)
    }

    pub(super) fn u8(mut self, value: u8) -> Method {
        self.0.push(value);
        self
    }

    pub(super) fn u16(mut self, value: u16) -> Method {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Method {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Method {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A string of at most 255 bytes.
    pub(super) fn short(mut self, text: &str) -> Method {
        self.0.push(u8::try_from(text.len()).expect("names in this file are short"));
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn long(self, bytes: &[u8]) -> Method {
        let mut method = self.u32(u32::try_from(bytes.len()).expect("strings in this file are short"));
        method.0.extend_from_slice(bytes);
        method
    }

    /// A table with one string in it.
    pub(super) fn table(self, name: &str, value: &str) -> Method {
        let entry = Method(Vec::new()).short(name).u8(b'S').long(value.as_bytes());
        self.long(&entry.0)
    }

    pub(super) fn frame(&self, channel: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() + 8);
        write(&mut bytes, METHOD, channel, &self.0);
        bytes
    }
}

/// The header and the body of a message that is published.
pub(super) fn content(bytes: &mut Vec<u8>, body: &[u8], persistent: bool) {
    // One property, the delivery mode: 2 is kept on disk.
    let header = Method(Vec::with_capacity(15)).u16(BASIC).u16(0).u64(body.len() as u64);
    let header = header.u16(1 << 12).u8(if persistent { 2 } else { 1 });
    write(bytes, HEADER, 1, &header.0);
    write(bytes, BODY, 1, body);
}

fn write(bytes: &mut Vec<u8>, kind: u8, channel: u16, body: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(&channel.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(body.len()).expect("frames are small").to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.push(END);
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    /// This tag and all before it.
    pub(super) multiple: bool,
}

impl Ack {
    pub(super) fn parse(arguments: &[u8]) -> Result<Ack> {
        let multiple = arguments.get(8).context("an acknowledgement is too short")? & 1 == 1;
        Ok(Ack { tag: tag(arguments)?, multiple })
    }
}

/// The tag of a delivery, behind the name of the consumer.
pub(super) fn delivery_tag(arguments: &[u8]) -> Result<u64> {
    let name = usize::from(*arguments.first().context("a delivery is empty")?);
    tag(arguments.get(1 + name..).context("a delivery is too short")?)
}

fn tag(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.first_chunk().context("a tag is too short")?;
    Ok(u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_comes_back_as_it_was_sent() {
        let bytes = Method::new(60, 80).u64(7).u8(1).frame(1);
        let head = Head::parse(&bytes[..7]).unwrap();
        assert_eq!(head.bytes, 4 + 8 + 1);
        let Some(Frame::Method { id, arguments }) = head.read(&bytes[7..]).unwrap() else { panic!() };
        assert_eq!(id, (60, 80));
        assert_eq!(Ack::parse(&arguments).unwrap(), Ack { tag: 7, multiple: true });
    }

    #[test]
    fn content_is_a_header_and_a_body() {
        let mut bytes = Vec::new();
        content(&mut bytes, b"hello", true);
        let header = Head::parse(&bytes[..7]).unwrap();
        let end = 7 + header.bytes + 1;
        assert!(header.read(&bytes[7..end]).unwrap().is_none());
        let body = Head::parse(&bytes[end..end + 7]).unwrap();
        let Some(Frame::Content(body)) = body.read(&bytes[end + 7..]).unwrap() else { panic!() };
        assert_eq!(body, b"hello");
    }

    #[test]
    fn a_delivery_has_its_tag_behind_a_name() {
        let arguments = Method(Vec::new()).short("me").u64(9).u8(0);
        assert_eq!(delivery_tag(&arguments.0).unwrap(), 9);
        assert!(delivery_tag(b"\x05abc").is_err());
    }

    #[test]
    fn a_frame_without_its_end_is_refused() {
        let head = Head { kind: BODY, bytes: 2 };
        assert!(head.read(b"abc").is_err());
    }
}
