//! Files of the `openssl enc` program: with a passphrase, with or without `-pbkdf2`, or with `-K`
//! and `-iv`.
//!
//! Documents: the manual pages openssl-enc(1) and EVP_BytesToKey(3); PBKDF2 in RFC 8018, section
//! 5.2.

use std::fmt;
use std::str::FromStr;

use blake2::{Blake2b512, Blake2s256};
use evener_core::{Cipher, Iv, Key, Mode, wipe_stack};
use hmac::digest::generic_array::GenericArray;
use hmac::{Hmac, SimpleHmac};
use md5::Md5;
use pbkdf2::pbkdf2;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_256};
use sha3::{Sha3_256, Sha3_384, Sha3_512};
use zeroize::Zeroizing;

use super::FormatError;
use super::file_cipher::{FileCipher, Ivs};
use super::geometry::{Ending, Geometry};
use super::header::{Header, random};

/// The secret of an `openssl enc` file.
pub enum OpensslSecret {
    /// `-pass` with `-pbkdf2`: each file has salt in a header, and a key and an IV of its own.
    Passphrase {
        /// The passphrase, without its line ending.
        passphrase: Zeroizing<Vec<u8>>,
        /// `-md`
        digest: Digest,
        /// `-iter`, at least 1. A file does not record its number. New files should use
        /// [`OpensslSecret::RECOMMENDED_ITERATIONS`].
        iterations: u32,
    },
    /// `-K` and `-iv`: no header; see [`Recipe::repeats_ivs`](super::Recipe::repeats_ivs).
    Raw {
        /// `-K`
        key: Key,
        /// `-iv`
        iv: Iv,
    },
}

impl OpensslSecret {
    /// The default number of iterations of PBKDF2 in `openssl enc`.
    pub const DEFAULT_ITERATIONS: u32 = 10_000;

    /// The minimum number of PBKDF2 iterations that makes guessing a passphrase slow enough
    /// (OWASP's Password Storage Cheat Sheet, for HMAC-SHA-256). They take some tenths of a second
    /// for each file.
    pub const RECOMMENDED_ITERATIONS: u32 = 600_000;
}

impl fmt::Debug for OpensslSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpensslSecret::Passphrase { digest, iterations, .. } => f
                .debug_struct("Passphrase")
                .field("digest", digest)
                .field("iterations", iterations)
                .finish_non_exhaustive(),
            OpensslSecret::Raw { key, .. } => {
                f.debug_struct("Raw").field("key", key).finish_non_exhaustive()
            }
        }
    }
}

/// A cipher and a secret of `openssl enc`.
///
/// With a passphrase, a file is `Salted__ ‖ salt(8) ‖ ciphertext`; otherwise, or without salt, it
/// is the ciphertext alone. The ciphertext is one message, divided into chunks so that several
/// workers can share it.
#[derive(Debug)]
pub struct OpensslEnc {
    cipher: Cipher,
    secret: OpensslSecret,
    kdf: Kdf,
    has_salt: bool,
}

/// The function that derives the key and the IV from a passphrase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kdf {
    /// `-pbkdf2`
    #[default]
    Pbkdf2,
    /// `EVP_BytesToKey` with one round of the digest, which `openssl enc` uses without `-pbkdf2`.
    /// It makes passphrases quick to guess. It ignores the iterations.
    Legacy,
}

impl OpensslEnc {
    pub(super) const FORMAT: &'static str = "openssl enc";

    /// The first bytes of a file with salt.
    pub const MAGIC: &'static [u8; 8] = b"Salted__";

    /// Takes a cipher in ECB, CBC, CFB, OFB or CTR mode, or ChaCha20, and a secret.
    ///
    /// # Errors
    /// [`FormatError::NoSuchCipher`], [`FormatError::Length`] for a raw key or IV, and
    /// [`FormatError::Parameters`] for iterations that OpenSSL can't count.
    pub fn new(cipher: Cipher, secret: OpensslSecret) -> Result<OpensslEnc, FormatError> {
        use Mode::{Cbc, Cfb, Ctr, Ecb, Ofb, Stream};
        if !matches!(cipher.mode(), Ecb | Cbc | Ctr | Cfb | Ofb | Stream) {
            return Err(FormatError::NoSuchCipher(cipher));
        }
        match &secret {
            OpensslSecret::Passphrase { iterations: 1..=MOST_ITERATIONS, .. } => {}
            OpensslSecret::Passphrase { .. } => {
                let reason = "PBKDF2 takes from 1 to 2147483647 iterations";
                return Err(FormatError::Parameters(reason));
            }
            OpensslSecret::Raw { key, iv } => {
                check(cipher, "a key", cipher.key_length(), key.len())?;
                check(cipher, "an IV", cipher.iv_length(), iv.bytes().len())?;
            }
        }
        Ok(OpensslEnc { cipher, secret, kdf: Kdf::default(), has_salt: true })
    }

    /// Selects the function that derives the key from a passphrase.
    #[must_use]
    pub fn kdf(self, kdf: Kdf) -> OpensslEnc {
        OpensslEnc { kdf, ..self }
    }

    /// Creates and reads files without salt and header (`-nosalt`), which share a key and an IV.
    #[must_use]
    pub fn without_salt(self) -> OpensslEnc {
        OpensslEnc { has_salt: false, ..self }
    }

    pub(super) fn cipher(&self) -> Cipher {
        self.cipher
    }

    pub(super) fn header_length(&self) -> usize {
        match self.repeats_ivs() {
            false => Self::MAGIC.len() + SALT_LENGTH,
            true => 0,
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        let ending = match self.cipher.mode() {
            Mode::Ecb | Mode::Cbc => Ending::Padded { block: self.cipher.block_length() as u64 },
            _ => Ending::Exact,
        };
        Geometry {
            header: self.header_length() as u64,
            first: CHUNK_LENGTH,
            chunk: CHUNK_LENGTH,
            overhead: 0,
            ending,
            most_chunks: u64::MAX,
        }
    }

    pub(super) fn repeats_ivs(&self) -> bool {
        matches!(self.secret, OpensslSecret::Raw { .. }) || !self.has_salt
    }

    pub(super) fn has_legacy_kdf(&self) -> bool {
        matches!(self.secret, OpensslSecret::Passphrase { .. }) && self.kdf == Kdf::Legacy
    }

    pub(super) fn iterations(&self) -> Option<u32> {
        match self.secret {
            OpensslSecret::Passphrase { iterations, .. } => {
                (self.kdf == Kdf::Pbkdf2).then_some(iterations)
            }
            OpensslSecret::Raw { .. } => None,
        }
    }

    pub(super) fn create(&self) -> Result<(FileCipher, Header), FormatError> {
        if self.repeats_ivs() {
            return Ok((self.derive(&[])?, Header::new(&[])));
        }
        let salt = random::<SALT_LENGTH>()?;
        Ok((self.derive(&salt)?, Header::new(&[Self::MAGIC, &salt])))
    }

    pub(super) fn open(&self, header: &[u8]) -> Result<FileCipher, FormatError> {
        if self.repeats_ivs() {
            return self.derive(&[]);
        }
        let seen = header.len().min(Self::MAGIC.len());
        if header[..seen] != Self::MAGIC[..seen] {
            let reason = "it does not begin with `Salted__`";
            return Err(FormatError::OtherFormat { format: Self::FORMAT, reason });
        }
        let salt = header[seen..].first_chunk::<SALT_LENGTH>().ok_or(FormatError::Truncated)?;
        self.derive(salt)
    }

    /// The key and IV: `key ‖ IV = PBKDF2(digest, passphrase, salt, iterations)`, those of the
    /// legacy KDF, or the raw ones. `salt` is empty for files without salt.
    fn derive(&self, salt: &[u8]) -> Result<FileCipher, FormatError> {
        let (key, iv) = match &self.secret {
            OpensslSecret::Raw { key, iv } => (key.clone(), *iv),
            OpensslSecret::Passphrase { passphrase, digest, iterations } => {
                let mut output = Zeroizing::new([0; Key::MAX_LENGTH + Iv::MAX_LENGTH]);
                let output = &mut output[..self.cipher.key_length() + self.cipher.iv_length()];
                let legacy = self.kdf == Kdf::Legacy;
                derive_with(*digest, passphrase, salt, (!legacy).then_some(*iterations), output)?;
                wipe_stack::<STACK>();
                let (key, iv) = output.split_at(self.cipher.key_length());
                let pair = Key::new(key).ok().zip(Iv::new(iv).ok());
                pair.ok_or(FormatError::NoSuchCipher(self.cipher))?
            }
        };
        Ok(FileCipher::new(self.cipher, key, self.geometry(), Ivs::Single { iv }))
    }
}

/// PBKDF2 with this many iterations, or the legacy KDF. A separate function, so that the caller can
/// wipe its stack.
#[inline(never)]
fn derive_with(
    digest: Digest,
    passphrase: &[u8],
    salt: &[u8],
    iterations: Option<u32>,
    output: &mut [u8],
) -> Result<(), FormatError> {
    macro_rules! with {
        ($hmac:ident, $digest:ty) => {
            match iterations {
                Some(iterations) => pbkdf2::<$hmac<$digest>>(passphrase, salt, iterations, output)
                    .map_err(|error| FormatError::Derivation(error.to_string())),
                None => Ok(bytes_to_key::<$digest>(passphrase, salt, output)),
            }
        };
    }
    match digest {
        Digest::Md5 => with!(Hmac, Md5),
        Digest::Sha1 => with!(Hmac, Sha1),
        Digest::Sha224 => with!(Hmac, Sha224),
        Digest::Sha256 => with!(Hmac, Sha256),
        Digest::Sha384 => with!(Hmac, Sha384),
        Digest::Sha512 => with!(Hmac, Sha512),
        Digest::Sha512_256 => with!(Hmac, Sha512_256),
        Digest::Sha3_256 => with!(Hmac, Sha3_256),
        Digest::Sha3_384 => with!(Hmac, Sha3_384),
        Digest::Sha3_512 => with!(Hmac, Sha3_512),
        Digest::Blake2b512 => with!(SimpleHmac, Blake2b512),
        Digest::Blake2s256 => with!(SimpleHmac, Blake2s256),
    }
}

/// `EVP_BytesToKey` with a count of 1: `D₁ ‖ D₂ ‖ …` where `Dᵢ = digest(Dᵢ₋₁ ‖ passphrase ‖ salt)`.
fn bytes_to_key<D: md5::Digest>(passphrase: &[u8], salt: &[u8], output: &mut [u8]) {
    let mut block = Zeroizing::new([0; LONGEST_DIGEST]);
    let size = <D as md5::Digest>::output_size();
    let mut length = 0;
    for part in output.chunks_mut(size) {
        let mut hasher = D::new();
        hasher.update(&block[..length]);
        hasher.update(passphrase);
        hasher.update(salt);
        hasher.finalize_into(GenericArray::from_mut_slice(&mut block[..size]));
        length = size;
        part.copy_from_slice(&block[..part.len()]);
    }
}

fn check(
    cipher: Cipher,
    what: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), FormatError> {
    if actual == expected {
        return Ok(());
    }
    Err(FormatError::Length { cipher, what, expected, actual })
}

/// The digest of PBKDF2, as users give it to `openssl enc -md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum Digest {
    Md5,
    Sha1,
    Sha224,
    #[default]
    Sha256,
    Sha384,
    Sha512,
    Sha512_256,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Blake2b512,
    Blake2s256,
}

impl Digest {
    /// Every digest that Evener supports.
    pub const ALL: &'static [Digest] = &[
        Digest::Md5,
        Digest::Sha1,
        Digest::Sha224,
        Digest::Sha256,
        Digest::Sha384,
        Digest::Sha512,
        Digest::Sha512_256,
        Digest::Sha3_256,
        Digest::Sha3_384,
        Digest::Sha3_512,
        Digest::Blake2b512,
        Digest::Blake2s256,
    ];

    /// The OpenSSL name, such as `sha256`.
    pub fn name(self) -> &'static str {
        match self {
            Digest::Md5 => "md5",
            Digest::Sha1 => "sha1",
            Digest::Sha224 => "sha224",
            Digest::Sha256 => "sha256",
            Digest::Sha384 => "sha384",
            Digest::Sha512 => "sha512",
            Digest::Sha512_256 => "sha512-256",
            Digest::Sha3_256 => "sha3-256",
            Digest::Sha3_384 => "sha3-384",
            Digest::Sha3_512 => "sha3-512",
            Digest::Blake2b512 => "blake2b512",
            Digest::Blake2s256 => "blake2s256",
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Digest {
    type Err = UnknownDigest;

    /// Reads an OpenSSL name in any case, such as `SHA256`.
    fn from_str(name: &str) -> Result<Self, UnknownDigest> {
        let mut all = Digest::ALL.iter().copied();
        all.find(|digest| digest.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownDigest(name.to_owned()))
    }
}

/// A digest name that Evener does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown digest `{0}`; `sha256` is the default of `openssl enc`")]
pub struct UnknownDigest(pub String);

const SALT_LENGTH: usize = 8;

/// The number of stack bytes that may hold remains of a key's derivation.
const STACK: usize = 16 << 10;

/// The length in bytes of SHA-512's digest.
const LONGEST_DIGEST: usize = 64;

/// Four chunks fill a typical 256 KiB second-level cache, and a file of some megabytes still has
/// enough chunks for many workers. A multiple of every block length.
const CHUNK_LENGTH: u64 = 65_536;

/// OpenSSL counts iterations in an `int`.
const MOST_ITERATIONS: u32 = i32::MAX as u32;
