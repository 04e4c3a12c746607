//! The word of completion: a secret of this run, how the program ends, and its document.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Status(u8),
    /// As if this signal had ended it.
    Signal(u8),
}

/// Random bytes that both processes know, so that bytes that code writes to a descriptor by mistake
/// are no word.
#[derive(Clone)]
pub(super) struct Secret([u8; Secret::LENGTH]);

impl Secret {
    const LENGTH: usize = 16;

    pub(super) fn new() -> io::Result<Secret> {
        let mut bytes = [0; Secret::LENGTH];
        // This few bytes always arrive in one call.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Secret(bytes))
    }

    /// Returns the bytes before a document of `length` bytes.
    pub(super) fn head(&self, ending: Ending, length: usize) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let (secret, rest) = head.split_at_mut(Secret::LENGTH);
        secret.copy_from_slice(&self.0);
        let (kind, number) = match ending {
            Ending::Status(number) => (STATUS, number),
            Ending::Signal(number) => (SIGNAL, number),
        };
        rest[..2].copy_from_slice(&[kind, number]);
        rest[2..].copy_from_slice(&(length as u64).to_le_bytes());
        head
    }

    /// Interprets the bytes received so far.
    pub(super) fn read<'a>(&self, heard: &'a [u8]) -> Heard<'a> {
        let known = heard.len().min(Secret::LENGTH);
        if heard[..known] != self.0[..known] {
            return Heard::Noise;
        }
        let Some((head, rest)) = heard.split_first_chunk::<HEAD>() else { return Heard::Part };
        let [kind, number] = [head[Secret::LENGTH], head[Secret::LENGTH + 1]];
        let length = u64::from_le_bytes(head[Secret::LENGTH + 2..].try_into().unwrap_or_default());
        let ending = match kind {
            STATUS => Ending::Status(number),
            SIGNAL => Ending::Signal(number),
            _ => return Heard::Noise,
        };
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(document) => Heard::Word(ending, document),
            None => Heard::Part,
        }
    }
}

/// The meaning of the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    /// The beginning of a word.
    Part,
    /// The word, with the document. Bytes after it do not count.
    Word(Ending, &'a [u8]),
    /// Bytes that can't become a word any more.
    Noise,
}

/// The number of bytes before the document: the secret, two for how the program ends, and a length.
pub(super) const HEAD: usize = Secret::LENGTH + 2 + size_of::<u64>();

const STATUS: u8 = 0;
const SIGNAL: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_word_only_when_it_is_whole() {
        let secret = Secret::new().unwrap();
        for ending in [Ending::Status(0), Ending::Status(130), Ending::Signal(13)] {
            let mut sent = secret.head(ending, 3).to_vec();
            sent.extend(b"{}\n");
            for length in 0..sent.len() {
                assert_eq!(secret.read(&sent[..length]), Heard::Part, "{length}");
            }
            assert_eq!(secret.read(&sent), Heard::Word(ending, b"{}\n"));
            sent.extend(b"and more");
            assert_eq!(secret.read(&sent), Heard::Word(ending, b"{}\n"));
        }
    }

    #[test]
    fn takes_nothing_else_for_a_word() {
        let secret = Secret::new().unwrap();
        let mut sent = secret.head(Ending::Status(0), 0);
        assert_eq!(Secret::new().unwrap().read(&sent), Heard::Noise);
        assert_eq!(secret.read(&[b"\n", &sent[..]].concat()), Heard::Noise);
        for byte in 0..=Secret::LENGTH {
            sent[byte] ^= 2;
            assert_eq!(secret.read(&sent), Heard::Noise, "{byte}");
            sent[byte] ^= 2;
        }
        let endless = secret.head(Ending::Status(0), usize::MAX);
        assert_eq!(secret.read(&endless), Heard::Part);
    }
}
