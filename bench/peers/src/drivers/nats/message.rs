//! The line that announces a message.

use anyhow::{Result, bail};

use crate::wire::number;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) reply: Option<String>,
    /// Bytes of headers before the body.
    pub(super) headers: usize,
    pub(super) bytes: usize,
    /// Of an answer that is no message: 404 nothing there, 408 the time is over, 503 nobody listens.
    pub(super) status: Option<u16>,
}

impl Message {
    pub(super) fn parse(line: &[u8]) -> Result<Message> {
        let words: Vec<&[u8]> =
            line.split(|&byte| byte == b' ').filter(|word: &&[u8]| !word.is_empty()).collect();
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        match words.as_slice() {
            [b"MSG", _, _, bytes] => Ok(Message { bytes: number(bytes)?, ..Message::default() }),
            [b"MSG", _, _, reply, bytes] => {
                Ok(Message { reply: Some(text(reply)), bytes: number(bytes)?, ..Message::default() })
            }
            [b"HMSG", _, _, headers, total] => Message::with_headers(None, headers, total),
            [b"HMSG", _, _, reply, headers, total] => {
                Message::with_headers(Some(text(reply)), headers, total)
            }
            _ => bail!("NATS answered {}", String::from_utf8_lossy(line)),
        }
    }

    fn with_headers(reply: Option<String>, headers: &[u8], total: &[u8]) -> Result<Message> {
        let (headers, total): (usize, usize) = (number(headers)?, number(total)?);
        let Some(bytes) = total.checked_sub(headers) else { bail!("a message is shorter than its headers") };
        Ok(Message { reply, headers, bytes, status: None })
    }

    /// The status in the first line of some headers.
    pub(super) fn status(headers: &[u8]) -> Option<u16> {
        let digits = headers.strip_prefix(b"NATS/1.0 ")?.get(..3)?;
        number(digits).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_understood() {
        let plain = Message { bytes: 30, ..Message::default() };
        assert_eq!(Message::parse(b"MSG _INBOX.x 1 30").unwrap(), plain);
        let task = Message { reply: Some("$JS.ACK.1".to_owned()), bytes: 200, ..Message::default() };
        assert_eq!(Message::parse(b"MSG bench 1 $JS.ACK.1 200").unwrap(), task);
        let head = Message { headers: 28, ..Message::default() };
        assert_eq!(Message::parse(b"HMSG _INBOX.x 1  28 28").unwrap(), head);
    }

    #[test]
    fn a_status_is_read_from_the_headers() {
        assert_eq!(Message::status(b"NATS/1.0 408 Request Timeout\r\n\r\n"), Some(408));
        assert_eq!(Message::status(b"NATS/1.0\r\nkey: value\r\n\r\n"), None);
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["-ERR 'Slow Consumer'", "MSG a", "HMSG a 1 9 3", "MSG a 1 x", ""] {
            assert!(Message::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
