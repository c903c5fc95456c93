//! Single fields of messages, for what is written without making the message first. Like prost's, they leave out what is zero or
//! empty; what is optional is asked for by the caller.

use prost::encoding::WireType;

/// The longest key and the longest number, and one to make it even.
pub(super) const HEAD_BYTES_MAX: usize = 5 + 10 + 1;

/// The key of a field and the number behind it, in one piece: byte by byte, each would have to look for room. A piece of one
/// length, of which the rest is taken back, is written without a call.
pub(in crate::embedded) fn head(tag: u32, wire: WireType, number: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; HEAD_BYTES_MAX];
    let mut len = 0;
    for mut rest in [u64::from(tag << 3 | wire as u32), number] {
        while rest >= 0x80 {
            bytes[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        bytes[len] = rest as u8;
        len += 1;
    }
    let end = out.len() + len;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

pub(super) fn number(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        present(tag, number, out);
    }
}

/// One that may be zero.
pub(super) fn present(tag: u32, number: u64, out: &mut Vec<u8>) {
    head(tag, WireType::Varint, number, out);
}

/// Encodes a signed number as protobuf's `sint64`.
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

pub(super) fn fixed(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        prost::encoding::encode_key(tag, WireType::SixtyFourBit, out);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// One that may be empty.
pub(super) fn text(tag: u32, text: &str, out: &mut Vec<u8>) {
    bytes(tag, text.as_bytes(), out);
}

/// Some that may be none.
pub(super) fn bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    head(tag, WireType::LengthDelimited, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A message inside the message. Most are short: their length is known when they are written, and the others are moved.
pub(in crate::embedded) fn nested(tag: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    head(tag, WireType::LengthDelimited, 0, out);
    let at = out.len() - 1;
    write(out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    prost::encoding::encode_varint(len as u64, &mut prefix);
    out.splice(at..=at, prefix);
}

#[cfg(test)]
mod tests {
    use prost::encoding::{encode_key, encode_varint};

    use super::*;

    #[test]
    fn a_head_is_what_prost_writes() {
        for tag in [1, 15, 16, 2047, 2048, (1 << 29) - 1] {
            for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                head(tag, WireType::Varint, number, &mut ours);
                encode_key(tag, WireType::Varint, &mut theirs);
                encode_varint(number, &mut theirs);
                assert_eq!(ours, theirs, "{tag}, {number}");
            }
        }
    }
}
