//! Redis's protocol: requests as arrays of strings, answers as a flat run of tokens.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use crate::wire::{Wire, number};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Simple(&'a [u8]),
    Int(i64),
    Bulk(&'a [u8]),
    /// This many tokens or arrays follow.
    Array(usize),
    Nil,
}

#[derive(Debug)]
pub(crate) struct Resp {
    wire: Wire,
}

impl Resp {
    pub(crate) async fn open(addr: SocketAddr) -> Result<Resp> {
        Ok(Resp { wire: Wire::open(addr).await? })
    }

    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<()> {
        self.wire.send(requests).await
    }

    pub(crate) async fn token(&mut self) -> Result<Token<'_>> {
        match Head::parse(self.wire.line().await?)? {
            Head::Bulk(length) => {
                let bytes = self.wire.exact(length + 2).await?;
                Ok(Token::Bulk(&bytes[..length]))
            }
            Head::Int(number) => Ok(Token::Int(number)),
            Head::Array(count) => Ok(Token::Array(count)),
            Head::Nil => Ok(Token::Nil),
            Head::Simple => Ok(Token::Simple(b"OK")),
        }
    }

    /// An answer whose content does not matter.
    pub(crate) async fn done(&mut self) -> Result<()> {
        match self.token().await? {
            Token::Array(count) => bail!("Redis answered with an array of {count}"),
            _ => Ok(()),
        }
    }

    /// The number that a command answers with.
    pub(crate) async fn ask(&mut self, words: &[&[u8]]) -> Result<i64> {
        let mut request = Vec::new();
        command(&mut request, words);
        self.send(&request).await?;
        match self.token().await? {
            Token::Int(number) => Ok(number),
            other => bail!("Redis answered {other:?}, not a number"),
        }
    }
}

/// Adds a command to a request.
pub(crate) fn command(request: &mut Vec<u8>, words: &[&[u8]]) {
    head(request, words.len());
    for word in words {
        self::word(request, word);
    }
}

/// Begins a command of so many words.
pub(crate) fn head(request: &mut Vec<u8>, words: usize) {
    request.extend_from_slice(format!("*{words}\r\n").as_bytes());
}

pub(crate) fn word(request: &mut Vec<u8>, word: &[u8]) {
    request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    request.extend_from_slice(word);
    request.extend_from_slice(b"\r\n");
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    Simple,
    Int(i64),
    Bulk(usize),
    Array(usize),
    Nil,
}

impl Head {
    fn parse(line: &[u8]) -> Result<Head> {
        let Some((kind, rest)) = line.split_first() else { bail!("Redis answered with an empty line") };
        let size = |number: i64, some: fn(usize) -> Head| usize::try_from(number).map_or(Head::Nil, some);
        match kind {
            b'+' => Ok(Head::Simple),
            b':' => Ok(Head::Int(number(rest)?)),
            b'$' => Ok(size(number(rest)?, Head::Bulk)),
            b'*' => Ok(size(number(rest)?, Head::Array)),
            _ => bail!("Redis answered {}", String::from_utf8_lossy(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_understood() {
        for (line, head) in [
            ("+OK", Head::Simple),
            (":12", Head::Int(12)),
            ("$200", Head::Bulk(200)),
            ("$-1", Head::Nil),
            ("*2", Head::Array(2)),
            ("*-1", Head::Nil),
        ] {
            assert_eq!(Head::parse(line.as_bytes()).unwrap(), head);
        }
    }

    #[test]
    fn a_refusal_is_an_error_with_its_words() {
        let error = Head::parse(b"-OOM command not allowed").unwrap_err().to_string();
        assert!(error.contains("OOM command"), "{error}");
        assert!(Head::parse(b"").is_err());
        assert!(Head::parse(b"$x").is_err());
    }

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut request = Vec::new();
        command(&mut request, &[b"DEL", b"a key"]);
        assert_eq!(request, b"*2\r\n$3\r\nDEL\r\n$5\r\na key\r\n");
    }
}
