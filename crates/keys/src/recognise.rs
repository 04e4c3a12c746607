//! Recognises a format from the first bytes of a file, without a key.

use evener_format::{Cobblestone, OpensslEnc};

use super::age_text::is_encrypted;
use super::{PipeHead, plain_text};

/// The format of a file by its first bytes. Variants that begin with `Perhaps` are uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guess {
    /// It begins with `Salted__`, like files of `openssl enc` with a passphrase. (A file of random
    /// bytes begins so once in 2⁶⁴.)
    OpensslEnc,
    /// It begins like files of `openssl enc -a`: [`Guess::OpensslEnc`] in base64.
    OpensslBase64,
    /// It holds an unencrypted key: a key line, or a Tink keyset.
    Key,
    /// It is encrypted with age: a wrapped key, or other data.
    Age,
    /// It begins with a wrapped key, as `evener encrypt --recipient` writes it to a pipe.
    Pipe,
    /// Its first byte is the header length of a Tink stream, 24 or 40. One in 128 Cobblestone files
    /// begins so, and any other file may: only a key can tell.
    PerhapsTink,
    /// It is at least as long as a header, and does not begin like the other formats. A Cobblestone
    /// file begins with random bytes; so does a file of `openssl enc` with a raw key, and an
    /// unencrypted file may begin with any bytes.
    PerhapsCobblestone,
    /// The file is shorter than the shortest file of any format, except `openssl enc` with a raw
    /// key, whose files may begin with any bytes.
    Unknown,
}

/// Guesses the format of a file from its first bytes: 72, or the whole file.
pub fn recognise(first_bytes: &[u8]) -> Guess {
    let holds = |header: usize| first_bytes.len() >= header + TAG_LENGTH;
    match first_bytes {
        _ if first_bytes.starts_with(OpensslEnc::MAGIC) => Guess::OpensslEnc,
        _ if first_bytes.starts_with(SALTED_IN_BASE64) => Guess::OpensslBase64,
        _ if first_bytes.starts_with(PipeHead::MAGIC) => Guess::Pipe,
        _ if is_encrypted(first_bytes) => Guess::Age,
        _ if is_key(first_bytes) => Guess::Key,
        &[header @ (24 | 40), ..] if holds(usize::from(header)) => Guess::PerhapsTink,
        _ if holds(Cobblestone::HEADER_LENGTH) => Guess::PerhapsCobblestone,
        _ => Guess::Unknown,
    }
}

/// Returns whether the bytes begin like a key line, or a Tink keyset in JSON.
fn is_key(first_bytes: &[u8]) -> bool {
    let name = b"\"primaryKeyId\"";
    // Ignores bytes that editors and other systems put before the key.
    let text = plain_text(first_bytes).unwrap_or_default().trim_ascii_start();
    text.starts_with(b"evener-key:")
        || text.starts_with(b"{") && text.windows(name.len()).any(|window| window == name)
}

/// The part of [`OpensslEnc::MAGIC`] in base64 that does not depend on the following bytes.
const SALTED_IN_BASE64: &[u8] = b"U2FsdGVkX1";

/// The shortest authenticated file has a header and one chunk that is only its tag.
const TAG_LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_told_is_told() {
        let starting = |first: u8, length: usize| {
            let mut bytes = vec![0xEE; length];
            bytes[0] = first;
            recognise(&bytes)
        };
        assert_eq!(recognise(b"Salted__12345678"), Guess::OpensslEnc);
        assert_eq!(recognise(b"Salted_"), Guess::Unknown);
        assert_eq!(recognise(b"U2FsdGVkX19oZWxsbw==\n"), Guess::OpensslBase64);
        assert_eq!(recognise(b"evener-key:v1:cobblestone-256:AAAA\n"), Guess::Key);
        assert_eq!(recognise(b"{\n  \"primaryKeyId\": 1,"), Guess::Key);
        assert_eq!(recognise(b"\xEF\xBB\xBF\n evener-key:v1:"), Guess::Key);
        assert_eq!(recognise(b"\xEF\xBB\xBF{\r\n  \"primaryKeyId\": 1,"), Guess::Key);
        assert_eq!(recognise(b"{ \"anything\": 1 }"), Guess::Unknown);
        assert_eq!(recognise(b"age-encryption.org/v1\n-> X25519 "), Guess::Age);
        assert_eq!(recognise(b"-----BEGIN AGE ENCRYPTED FILE-----\n"), Guess::Age);
        assert_eq!(recognise(b"\xEF\xBB\xBF\r\n-----BEGIN AGE ENCRYPTED FILE-----"), Guess::Age);
        assert_eq!(recognise(b"evener-pipe:v1:200\nage-encryption.org/v1\n"), Guess::Pipe);
        assert_eq!(recognise(b""), Guess::Unknown);
        assert_eq!(starting(24, 40), Guess::PerhapsTink);
        assert_eq!(starting(24, 39), Guess::Unknown);
        assert_eq!(starting(40, 56), Guess::PerhapsTink);
        assert_eq!(starting(40, 55), Guess::Unknown);
        assert_eq!(starting(1, 72), Guess::PerhapsCobblestone);
        assert_eq!(starting(1, 71), Guess::Unknown);
    }
}
