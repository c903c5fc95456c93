//! Single fields of messages, for what is written without making the message first. Like prost's, they leave out what is zero or
//! empty; what is optional is asked for by the caller.

use prost::encoding::{WireType, encode_key, encode_varint};

pub(super) fn number(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        present(tag, number, out);
    }
}

/// One that may be zero.
pub(super) fn present(tag: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

pub(super) fn fixed(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::SixtyFourBit, out);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// One that may be empty.
pub(super) fn text(tag: u32, text: &str, out: &mut Vec<u8>) {
    bytes(tag, text.as_bytes(), out);
}

/// Some that may be none.
pub(super) fn bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A message inside the message. Most are short: their length is known when they are written, and the others are moved.
pub(in crate::embedded) fn nested(tag: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(tag, WireType::LengthDelimited, out);
    let at = out.len();
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    encode_varint(len as u64, &mut prefix);
    out.splice(at..=at, prefix);
}
