//! What a file's first bytes tell without a key.

use super::cobblestone::Cobblestone;
use super::openssl_enc::OpensslEnc;

/// What a file may be, judging by its first bytes. Only [`Guess::OpensslEnc`] is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guess {
    /// It begins with `Salted__`, as `openssl enc` with a passphrase makes it. (A file of
    /// random bytes would begin so once in 2⁶⁴.)
    OpensslEnc,
    /// Its first byte is the header length of a Tink stream, 24 or 40. One in 128 Cobblestone
    /// files begins like that, and any file may: only a key can tell.
    PerhapsTink,
    /// It has the length of a header, and does not begin like the others. A Cobblestone file
    /// begins with random bytes; so does a file of `openssl enc` with a raw key, and a file
    /// that is not encrypted may begin with anything.
    PerhapsCobblestone,
    /// None of the formats begins so, except `openssl enc` with a raw key, which may begin
    /// with anything: the file is shorter than the others' shortest.
    Unknown,
}

/// Guesses the format of a file from its first bytes: 72, or all that there are.
pub fn recognise(first_bytes: &[u8]) -> Guess {
    let holds = |header: usize| first_bytes.len() >= header + TAG_LENGTH;
    match first_bytes {
        _ if first_bytes.starts_with(OpensslEnc::MAGIC) => Guess::OpensslEnc,
        &[header @ (24 | 40), ..] if holds(usize::from(header)) => Guess::PerhapsTink,
        _ if holds(Cobblestone::HEADER_LENGTH) => Guess::PerhapsCobblestone,
        _ => Guess::Unknown,
    }
}

/// The shortest authenticated file has a header and one chunk with nothing but its tag.
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
        assert_eq!(recognise(b""), Guess::Unknown);
        assert_eq!(starting(24, 40), Guess::PerhapsTink);
        assert_eq!(starting(24, 39), Guess::Unknown);
        assert_eq!(starting(40, 56), Guess::PerhapsTink);
        assert_eq!(starting(40, 55), Guess::Unknown);
        assert_eq!(starting(1, 72), Guess::PerhapsCobblestone);
        assert_eq!(starting(1, 71), Guess::Unknown);
    }
}
