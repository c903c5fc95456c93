//! The part of a task that never changes, as it is kept.

use bytes::Bytes;
use prost::Message;
use prost::encoding::encoded_len_varint;
use windlass_core::{Body, Links, Payload, retry};

use super::field::{HEAD_BYTES_MAX, bytes, number};
use super::{Result, id, name, wrong};

#[derive(Clone, PartialEq, Message)]
struct BodyMessage {
    #[prost(bytes = "bytes", tag = "1")]
    payload: Bytes,
    #[prost(bool, tag = "2")]
    binary: bool,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<PairMessage>,
    #[prost(uint64, tag = "4")]
    timeout_ms: u64,
    #[prost(uint32, tag = "5")]
    max_retries: u32,
    #[prost(uint32, tag = "6")]
    max_crashes: u32,
    /// Absent for the default policy.
    #[prost(message, optional, tag = "7")]
    retry: Option<PolicyMessage>,
    #[prost(bytes = "vec", tag = "8")]
    fingerprint: Vec<u8>,
    #[prost(message, optional, boxed, tag = "9")]
    links: Option<Box<LinksMessage>>,
}

#[derive(Clone, PartialEq, Message)]
struct LinksMessage {
    #[prost(string, repeated, tag = "1")]
    dependencies: Vec<String>,
    #[prost(string, optional, tag = "2")]
    workflow: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PairMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct PolicyMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint64, tag = "2")]
    initial_ms: u64,
    #[prost(double, tag = "3")]
    factor: f64,
    #[prost(uint64, tag = "4")]
    max_ms: u64,
    #[prost(double, tag = "5")]
    jitter: f64,
}

fn body_message(body: &Body) -> BodyMessage {
    let policy = PolicyMessage {
        kind: body.retry.kind as u32,
        initial_ms: body.retry.initial_ms,
        factor: body.retry.factor,
        max_ms: body.retry.max_ms,
        jitter: body.retry.jitter,
    };
    let pair = |(key, value): &(String, String)| PairMessage { key: key.clone(), value: value.clone() };
    BodyMessage {
        payload: body.payload.bytes().clone(),
        binary: matches!(body.payload, Payload::Binary(_)),
        metadata: body.metadata.iter().map(pair).collect(),
        timeout_ms: body.timeout_ms,
        max_retries: body.max_retries,
        max_crashes: body.max_crashes,
        retry: (body.retry != retry::Policy::default()).then_some(policy),
        fingerprint: body.fingerprint.map(|digest| digest.to_vec()).unwrap_or_default(),
        links: body.links.as_deref().map(|links| Box::new(links_message(links))),
    }
}

fn links_message(links: &Links) -> LinksMessage {
    LinksMessage {
        dependencies: links.dependencies.iter().map(|id| id.as_str().to_owned()).collect(),
        workflow: links.workflow.as_ref().map(|name| name.as_str().to_owned()),
    }
}

fn links(message: &LinksMessage) -> Result<Links> {
    Ok(Links {
        dependencies: message.dependencies.iter().map(|text| id(text)).collect::<Result<_>>()?,
        workflow: message.workflow.as_deref().map(name).transpose()?,
    })
}

pub(crate) fn encode_body(body: &Body) -> Bytes {
    let mut out = Vec::with_capacity(body_len(body) + HEAD_BYTES_MAX);
    write_body(body, &mut out);
    out.into()
}

/// Most bodies are a payload, three numbers and perhaps a fingerprint, and are written from where they are.
fn is_plain(body: &Body) -> bool {
    body.metadata.is_empty() && body.links.is_none() && body.retry == retry::Policy::default()
}

pub(super) fn body_len(body: &Body) -> usize {
    if !is_plain(body) {
        return body_message(body).encoded_len();
    }
    let payload = body.payload.bytes().len();
    let payload = if payload == 0 { 0 } else { 1 + encoded_len_varint(payload as u64) + payload };
    let binary = if matches!(body.payload, Payload::Binary(_)) { 2 } else { 0 };
    let number = |(_, number): (u32, u64)| if number == 0 { 0 } else { 1 + encoded_len_varint(number) };
    let fingerprint = body.fingerprint.map_or(0, |digest| 2 + digest.len());
    payload + binary + numbers(body).into_iter().map(number).sum::<usize>() + fingerprint
}

/// The fields of [`BodyMessage`], in their order.
pub(super) fn write_body(body: &Body, out: &mut Vec<u8>) {
    if !is_plain(body) {
        return body_message(body).encode_raw(out);
    }
    let payload = body.payload.bytes();
    if !payload.is_empty() {
        bytes(1, payload, out);
    }
    number(2, u64::from(matches!(body.payload, Payload::Binary(_))), out);
    numbers(body).into_iter().for_each(|(tag, it)| number(tag, it, out));
    if let Some(digest) = &body.fingerprint {
        bytes(8, digest, out);
    }
}

fn numbers(body: &Body) -> [(u32, u64); 3] {
    [(4, body.timeout_ms), (5, u64::from(body.max_retries)), (6, u64::from(body.max_crashes))]
}

pub(crate) fn decode_body(bytes: Bytes) -> Result<Body> {
    let message = BodyMessage::decode(bytes)?;
    let retry = match message.retry {
        None => retry::Policy::default(),
        Some(policy) => retry::Policy {
            kind: *retry::Kind::ALL
                .iter()
                .find(|kind| **kind as u32 == policy.kind)
                .ok_or_else(|| wrong("unknown retry policy"))?,
            initial_ms: policy.initial_ms,
            factor: policy.factor,
            max_ms: policy.max_ms,
            jitter: policy.jitter,
        },
    };
    let fingerprint = match message.fingerprint.len() {
        0 => None,
        _ => Some(
            message.fingerprint.as_slice().try_into().map_err(|_| wrong("fingerprint of a wrong length"))?,
        ),
    };
    Ok(Body {
        payload: if message.binary {
            Payload::Binary(message.payload)
        } else {
            Payload::Json(message.payload)
        },
        metadata: message.metadata.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        timeout_ms: message.timeout_ms,
        max_retries: message.max_retries,
        max_crashes: message.max_crashes,
        retry,
        fingerprint,
        links: message.links.as_deref().map(links).transpose()?.map(Box::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_without_a_message_is_the_message() {
        let payloads = [0, 1, 127, 128, 20_000].map(|len| Bytes::from(vec![b'7'; len]));
        let numbers = [0, 1, 127, 128, 300_000, u64::from(u32::MAX), u64::MAX];
        for (i, payload) in payloads.iter().enumerate() {
            for (j, &number) in numbers.iter().enumerate() {
                let body = Body {
                    payload: if j % 2 == 0 {
                        Payload::Json(payload.clone())
                    } else {
                        Payload::Binary(payload.clone())
                    },
                    metadata: Vec::new(),
                    timeout_ms: number,
                    max_retries: number as u32,
                    max_crashes: (number >> 7) as u32,
                    retry: retry::Policy::default(),
                    fingerprint: ((i + j) % 3 == 0).then_some([0; 16]),
                    links: None,
                };
                assert!(is_plain(&body));
                let written = encode_body(&body);
                assert_eq!(written, body_message(&body).encode_to_vec());
                assert_eq!(written.len(), body_len(&body));
                assert_eq!(decode_body(written).unwrap(), body);
            }
        }
    }
}
