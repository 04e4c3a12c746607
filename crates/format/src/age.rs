//! age's own format.
//!
//! Document: C2SP, <https://c2sp.org/age>. A file is `header ‖ nonce(16) ‖ chunks`. The header is
//! text of any length that wraps a file key of 16 bytes for each recipient; its last line is its
//! authentication code. The chunks are STREAM with ChaCha20-Poly1305.

use std::fmt;

use evener_core::{Cipher, Key};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::FormatError;
use super::file_cipher::{FileCipher, Ivs};
use super::geometry::{Ending, Geometry};
use super::header::{Header, random};

/// The secret in an age file's header, from which the payload's key is derived.
pub type AgeFileKey = Zeroizing<[u8; 16]>;

/// Writes and reads the headers of age files; this crate only finds their ends.
pub trait AgeHeaders: Send + Sync + fmt::Debug {
    /// A fresh file key, and a header that wraps it, up to the end of its last line.
    ///
    /// # Errors
    /// When a recipient can't be used.
    fn create(&self) -> Result<(AgeFileKey, Vec<u8>), FormatError>;

    /// Unwraps the file key from a whole header, whose authentication code it has checked.
    ///
    /// # Errors
    /// When the header is malformed or was changed, or wraps the key for others.
    fn open(&self, header: &[u8]) -> Result<AgeFileKey, FormatError>;

    /// Returns whether it has anything that opens headers.
    fn open_any(&self) -> bool {
        true
    }

    /// Returns whether a whole file, which it opens, holds a key of another format.
    fn holds_key(&self, _file: &[u8]) -> bool {
        false
    }

    /// The length of the longest header that it creates, in bytes.
    fn longest(&self) -> usize;

    /// The reason why it should create one file only, if there is one.
    fn for_one_file(&self) -> Option<&'static str> {
        None
    }
}

/// age's format with the secrets that write and read its headers. Every file has its own key.
#[derive(Debug)]
pub struct Age {
    headers: Box<dyn AgeHeaders>,
}

impl Age {
    pub(super) const FORMAT: &'static str = "age";

    /// The bytes with which every age file begins, unless it is in ASCII armour.
    pub const MAGIC: &'static [u8] = b"age-encryption.org/";

    /// The length of the longest header that is read, in bytes.
    pub const LONGEST_HEADER: usize = 1 << 20;

    /// Takes what writes and reads headers.
    pub fn new(headers: Box<dyn AgeHeaders>) -> Age {
        Age { headers }
    }

    /// The length of the header of a file that begins with `start`, up to the end of its first line
    /// that begins with `---`; `None` if that is not in `start`, or it is no age file. The nonce
    /// follows.
    pub fn header_length(start: &[u8]) -> Option<usize> {
        if !start.starts_with(Age::MAGIC) {
            return None;
        }
        let last = start.windows(LAST_LINE.len()).position(|line| line == LAST_LINE)?;
        let rest = &start[last + LAST_LINE.len()..];
        Some(start.len() - rest.len() + rest.iter().position(|&byte| byte == b'\n')? + 1)
    }

    /// Returns whether a file may have been written by Evener. Those who use another library, as the
    /// program `age` does, do not add a stanza of nobody's, whose name ends in `-grease`.
    pub fn may_be_ours(start: &[u8]) -> bool {
        let length = Age::header_length(start).unwrap_or_default();
        start[..length].split(|&byte| byte == b'\n').any(|line| {
            let name =
                line.strip_prefix(b"-> ").and_then(|rest| rest.split(|&it| it == b' ').next());
            name.is_some_and(|name| name.ends_with(b"-grease"))
        })
    }

    /// The division into chunks of a file whose header has this length, without the nonce.
    pub fn geometry(header: usize) -> Geometry {
        Geometry {
            header: (header + NONCE_LENGTH) as u64,
            first: CHUNK_LENGTH,
            chunk: CHUNK_LENGTH,
            overhead: 16,
            ending: Ending::MayBeFull,
            // The counter has 11 bytes.
            most_chunks: u64::MAX,
        }
    }

    /// The writer and reader of headers.
    pub(super) fn headers(&self) -> &dyn AgeHeaders {
        &*self.headers
    }

    /// The number of first bytes of a file that hold its header and nonce, as far as `start`, those
    /// read so far, shows it.
    pub fn bytes_to_open(start: &[u8]) -> usize {
        let seen = start.len().min(Age::MAGIC.len());
        let most = Age::LONGEST_HEADER + NONCE_LENGTH;
        match Age::header_length(start) {
            Some(length) => length + NONCE_LENGTH,
            None if start[..seen] != Age::MAGIC[..seen] => seen,
            None => start.len().saturating_mul(2).clamp(USUAL_HEADER, most),
        }
    }

    pub(super) fn create(&self) -> Result<(FileCipher, Header), FormatError> {
        let (file_key, header) = self.headers.create()?;
        let nonce = random()?;
        Ok((derive(&file_key, &nonce, header.len())?, Header::new(&[&header, &nonce])))
    }

    pub(super) fn open(&self, start: &[u8]) -> Result<FileCipher, FormatError> {
        if !start.starts_with(Age::MAGIC) {
            let reason = "it does not begin with `age-encryption.org/`";
            return Err(FormatError::OtherFormat { format: Age::FORMAT, reason });
        }
        // Opening a header without an end tells how it is malformed.
        let length = Age::header_length(start).unwrap_or(start.len());
        if length > Age::LONGEST_HEADER {
            return Err(FormatError::Age("its header is longer than 1 MiB".to_owned()));
        }
        let (header, rest) = start.split_at(length);
        let file_key = self.headers.open(header)?;
        let nonce = rest.first_chunk().ok_or(FormatError::Truncated)?;
        derive(&file_key, nonce, length)
    }
}

/// The payload's key is `HKDF-SHA-256(file key, salt = nonce, info = "payload")`.
fn derive(
    file_key: &AgeFileKey,
    nonce: &[u8; NONCE_LENGTH],
    header: usize,
) -> Result<FileCipher, FormatError> {
    let mut key = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(nonce), &file_key[..])
        .expand(b"payload", &mut key[..])
        .map_err(|error| FormatError::Derivation(error.to_string()))?;
    let key = Key::new(&key[..]).map_err(|_| FormatError::Parameters("the key is empty"))?;
    Ok(FileCipher::new(Cipher::ChaCha20Poly1305, key, Age::geometry(header), Ivs::Stream))
}

const LAST_LINE: &[u8] = b"\n---";
const NONCE_LENGTH: usize = 16;
const CHUNK_LENGTH: u64 = 64 << 10;
/// Enough for some recipients.
const USUAL_HEADER: usize = 1 << 10;
