//! The head of a pipe: the wrapped key before the encrypted data.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::age_text::{ARMOUR_START, BINARY_START, without_blanks};
use super::faults::PipeHeadFault;
use super::key_file::{Contents, LONGEST};
use super::text::BYTE_ORDER_MARK;
use super::{KeyError, KeyFile};

/// The head of a pipe: the line `evener-pipe:v1:LENGTH`, and LENGTH bytes of an age file that holds
/// the key. A file encrypted with that key follows.
pub struct PipeHead;

impl PipeHead {
    /// The first bytes of a head. A file of the other formats begins with them once in 2¹²⁰.
    pub const MAGIC: &'static [u8] = b"evener-pipe:v1:";

    /// The head that holds a wrapped key.
    pub fn of(wrapped: &[u8]) -> Vec<u8> {
        [PipeHead::MAGIC, wrapped.len().to_string().as_bytes(), b"\n", wrapped].concat()
    }

    /// Reads a head, and nothing after it; or the first bytes of an age file, which it returns
    /// without blanks before them. `path` is for errors.
    ///
    /// # Errors
    /// [`KeyError::PipeHead`] when the input does not begin with a head, or ends within it,
    /// and [`KeyError::Io`].
    pub fn read(
        source: &mut impl Read,
        path: &Path,
    ) -> Result<Result<KeyFile, &'static [u8]>, KeyError> {
        let wrong = |fault| KeyError::PipeHead { path: path.to_owned(), fault };
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::UnexpectedEof => wrong(PipeHeadFault::CutShort),
            _ => KeyError::Io { action: "read", path: path.to_owned(), cause },
        };
        // Reads only until the formats are distinct: later bytes are not for this function.
        let known = [PipeHead::MAGIC, BINARY_START, ARMOUR_START];
        let mut begins = Vec::new();
        let begun = loop {
            let mut byte = [0];
            match source.read(&mut byte) {
                Ok(0) => return Err(wrong(PipeHeadFault::Absent)),
                Ok(_) => begins.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
            let text = without_blanks(&begins);
            // Only ASCII armour may have blanks before it.
            let fits = |start: &[u8]| text.len() == begins.len() || start == ARMOUR_START;
            match known.into_iter().find(|start| start.starts_with(text) && fits(start)) {
                Some(start) if start == text => break start,
                Some(_) if begins.len() < MOST_TO_TELL => {}
                None if BYTE_ORDER_MARK.as_bytes().starts_with(&begins) => {}
                _ => return Err(wrong(PipeHeadFault::Absent)),
            }
        };
        if begun != PipeHead::MAGIC {
            return Ok(Err(begun));
        }
        let mut digits = String::new();
        loop {
            let mut byte = [0];
            source.read_exact(&mut byte).map_err(failed)?;
            match byte[0] {
                b'\n' => break,
                digit if digit.is_ascii_digit() && digits.len() < MOST_DIGITS => {
                    digits.push(digit.into());
                }
                _ => return Err(wrong(PipeHeadFault::Changed)),
            }
        }
        let length = digits.parse().ok().filter(|length| (1..=LONGEST).contains(length));
        let length = length
            .filter(|_| !digits.starts_with('0'))
            .ok_or_else(|| wrong(PipeHeadFault::Changed))?;
        let mut bytes = Zeroizing::new(vec![0; length]);
        source.read_exact(&mut bytes).map_err(failed)?;
        Ok(Ok(KeyFile { path: PathBuf::from(path), contents: Contents::of_no_file(bytes) }))
    }
}

/// The most bytes that are read to tell formats apart, as of files.
const MOST_TO_TELL: usize = 72;

/// The number of digits of [`LONGEST`].
const MOST_DIGITS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> Result<(KeyFile, usize), KeyError> {
        let head = PipeHead::read(&mut bytes, Path::new("some pipe"))?;
        let file = head.expect("it is no age file");
        Ok((file, bytes.len()))
    }

    #[cfg(feature = "age")]
    #[test]
    fn a_head_is_read_and_nothing_after_it() {
        use crate::NoUnlock;
        use crate::age::{Identity, wrap};

        let text = b"evener-key:v1:cobblestone-128:AAECAwQFBgcICQoLDA0ODw\n";
        let identity = Identity::generate();
        let wrapped = wrap(text, &[identity.recipient().unwrap()]).unwrap();
        let head = PipeHead::of(&wrapped);
        let (file, left) = read(&[&head[..], b"rest"].concat()).unwrap();
        assert_eq!(left, 4);
        assert!(matches!(file.open(&NoUnlock), Err(KeyError::IdentityNeeded { .. })));
        assert_eq!(file.open(&vec![identity]).unwrap().to_text().as_bytes(), text);
        for length in 0..head.len() {
            assert!(matches!(read(&head[..length]), Err(KeyError::PipeHead { .. })), "{length}");
        }
    }

    #[test]
    fn files_of_age_are_told_apart() {
        for text in ["age-encryption.org/v1\n", "-----BEGIN AGE ENCRYPTED FILE-----\n"] {
            let mut rest = text.as_bytes();
            let begins = PipeHead::read(&mut rest, Path::new("some pipe")).unwrap().err().unwrap();
            assert_eq!([begins, rest].concat(), text.as_bytes());
        }
        for (blanks, is_taken) in [
            ("\r\n \t\n", true),
            ("\u{FEFF}", true),
            ("\u{FEFF}\n\n", true),
            (&" ".repeat(48)[..], true),
            (&" ".repeat(49)[..], false),
            ("x", false),
        ] {
            let text = format!("{blanks}-----BEGIN AGE ENCRYPTED FILE-----\n");
            let begins = PipeHead::read(&mut text.as_bytes(), Path::new("some pipe"));
            assert_eq!(begins.is_ok(), is_taken, "{text:?}");
            assert!(
                begins.is_err() || begins.is_ok_and(|begins| begins.err() == Some(ARMOUR_START))
            );
            let other = format!("{blanks}age-encryption.org/v1\n");
            assert!(PipeHead::read(&mut other.as_bytes(), Path::new("some pipe")).is_err());
        }
        // It does not wait for bytes that do not matter.
        let mut text: &[u8] = b"-----BEGIN RSA";
        assert!(PipeHead::read(&mut text, Path::new("some pipe")).is_err());
        assert_eq!(text, b"SA");
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "",
            "evener-key:v1:cobblestone-256:x\n",
            "evener-pipe:v2:1\nx",
            "evener-pipe:v1:\n",
            "evener-pipe:v1:0\n",
            "evener-pipe:v1:01\nx",
            "evener-pipe:v1:-1\nx",
            "evener-pipe:v1:1048577\nx",
            "evener-pipe:v1:99999999\nx",
            "evener-pipe:v1:1 \nx",
        ] {
            let error = read(text.as_bytes()).map(drop).unwrap_err();
            assert!(matches!(error, KeyError::PipeHead { .. }), "{text}: {error}");
        }
    }
}
