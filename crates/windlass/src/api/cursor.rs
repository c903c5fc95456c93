//! Where a list goes on: a number or a name of the store, wrapped so that clients neither read it nor make one up.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use windlass_core::Name;
use windlass_proto::rest::Invalid;

pub(crate) fn write(seq: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seq.to_be_bytes());
    bytes[8..].copy_from_slice(&seal(seq));
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn read(text: &str) -> Result<u64, Invalid> {
    let bytes: [u8; 16] =
        URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(refused)?;
    let (number, seal_given) = bytes.split_at(8);
    let seq = u64::from_be_bytes(number.try_into().map_err(|_| refused())?);
    if seal_given == seal(seq) { Ok(seq) } else { Err(refused()) }
}

/// For lists in order of name.
pub(crate) fn write_name(name: &Name) -> String {
    write_text(name.as_str())
}

pub(crate) fn read_name(text: &str) -> Result<Name, Invalid> {
    Name::new(&read_text(text)?).map_err(|_| refused())
}

/// For lists in another order.
pub(super) fn write_text(text: &str) -> String {
    let text = text.as_bytes();
    URL_SAFE_NO_PAD.encode([&seal_of(text)[..], text].concat())
}

pub(super) fn read_text(text: &str) -> Result<String, Invalid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| refused())?;
    let (seal_given, text) = bytes.split_at_checked(8).ok_or_else(refused)?;
    if seal_given != seal_of(text) {
        return Err(refused());
    }
    String::from_utf8(text.to_vec()).map_err(|_| refused())
}

fn refused() -> Invalid {
    Invalid::malformed("cursor", "is not a cursor of this list")
}

fn seal(seq: u64) -> [u8; 8] {
    seal_of(&seq.to_be_bytes())
}

fn seal_of(bytes: &[u8]) -> [u8; 8] {
    let digest = Sha256::new().chain_update(b"windlass list cursor 1").chain_update(bytes).finalize();
    std::array::from_fn(|i| digest[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_cursors_are_read() {
        for seq in [0, 1, 77, u64::MAX] {
            assert_eq!(read(&write(seq)), Ok(seq));
        }
        let mut forged = write(77).into_bytes();
        forged[3] ^= 1;
        for text in ["", "x", "AAAAAAAAAAAAAAAAAAAAAA", "77", &String::from_utf8(forged).unwrap()] {
            assert!(read(text).is_err(), "{text}");
            assert!(read_name(text).is_err(), "{text}");
        }
        let name = Name::new("nightly").unwrap();
        assert_eq!(read_name(&write_name(&name)), Ok(name));
    }
}
