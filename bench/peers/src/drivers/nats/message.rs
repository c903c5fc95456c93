//! The line that announces a message.

use anyhow::{Result, bail};

use crate::wire::number;

/// One more than the longest line has.
const WORDS_MAX: usize = 7;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Bytes of headers before the body.
    pub(super) headers: usize,
    pub(super) bytes: usize,
    /// Of an answer that is no message: 404 nothing there, 408 the time is over, 503 nobody listens.
    pub(super) status: Option<u16>,
}

impl Message {
    /// Puts the subject of the acknowledgement into `reply`, nothing if there is none.
    pub(super) fn parse(line: &[u8], reply: &mut Vec<u8>) -> Result<Message> {
        let mut words = [&b""[..]; WORDS_MAX];
        let mut count = 0;
        for word in line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).take(WORDS_MAX) {
            words[count] = word;
            count += 1;
        }
        reply.clear();
        match &words[..count] {
            [b"MSG", _, _, bytes] => Ok(Message { bytes: number(bytes)?, ..Message::default() }),
            [b"MSG", _, _, to, bytes] => {
                reply.extend_from_slice(to);
                Ok(Message { bytes: number(bytes)?, ..Message::default() })
            }
            [b"HMSG", _, _, headers, total] => Message::with_headers(headers, total),
            [b"HMSG", _, _, to, headers, total] => {
                reply.extend_from_slice(to);
                Message::with_headers(headers, total)
            }
            _ => bail!("NATS answered {}", String::from_utf8_lossy(line)),
        }
    }

    fn with_headers(headers: &[u8], total: &[u8]) -> Result<Message> {
        let (headers, total): (usize, usize) = (number(headers)?, number(total)?);
        let Some(bytes) = total.checked_sub(headers) else { bail!("a message is shorter than its headers") };
        Ok(Message { headers, bytes, status: None })
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

    fn check(line: &str) -> Result<(Message, String)> {
        let mut reply = b"of the message before".to_vec();
        let message = Message::parse(line.as_bytes(), &mut reply)?;
        Ok((message, String::from_utf8(reply)?))
    }

    #[test]
    fn messages_are_understood() {
        let plain = Message { bytes: 30, ..Message::default() };
        assert_eq!(check("MSG _INBOX.x 1 30").unwrap(), (plain, String::new()));
        let task = Message { bytes: 200, ..Message::default() };
        assert_eq!(check("MSG bench 1 $JS.ACK.1 200").unwrap(), (task, "$JS.ACK.1".to_owned()));
        let head = Message { headers: 28, ..Message::default() };
        assert_eq!(check("HMSG _INBOX.x 1  28 28").unwrap(), (head, String::new()));
    }

    #[test]
    fn a_status_is_read_from_the_headers() {
        assert_eq!(Message::status(b"NATS/1.0 408 Request Timeout\r\n\r\n"), Some(408));
        assert_eq!(Message::status(b"NATS/1.0\r\nkey: value\r\n\r\n"), None);
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["-ERR 'Slow Consumer'", "MSG a", "HMSG a 1 9 3", "MSG a 1 x", "", "MSG a b c d e f g"] {
            assert!(check(line).is_err(), "{line}");
        }
    }
}
