//! Cobblestone: C2SP chunked encryption with AES-GCM and SHA-512.
//!
//! Document: <https://c2sp.org/chunked-encryption>. The suites' names, and SHA-512 for both, come
//! from the test vectors in C2SP's Wycheproof.

use std::fmt;
use std::hint::black_box;

use evener_core::{Cipher, Key};
use hmac::digest::FixedOutput;
use hmac::digest::generic_array::GenericArray;
use hmac::{Hmac, Mac};
use sha2::Sha512;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::FormatError;
use super::file_cipher::{FileCipher, Ivs};
use super::geometry::{Ending, Geometry};
use super::header::{Header, random};

/// The variants of C2SP chunked encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CobblestoneSuite {
    /// Cobblestone-256.
    Aes256Gcm,
    /// Cobblestone-128.
    Aes128Gcm,
}

impl CobblestoneSuite {
    /// Every suite.
    pub const ALL: [CobblestoneSuite; 2] =
        [CobblestoneSuite::Aes256Gcm, CobblestoneSuite::Aes128Gcm];

    /// Length in bytes.
    pub const LONGEST_KEY: usize = 32;

    /// The name, such as `cobblestone-256`.
    pub fn name(self) -> &'static str {
        match self {
            CobblestoneSuite::Aes256Gcm => "cobblestone-256",
            CobblestoneSuite::Aes128Gcm => "cobblestone-128",
        }
    }

    /// The cipher of the chunks.
    pub fn cipher(self) -> Cipher {
        match self {
            CobblestoneSuite::Aes256Gcm => Cipher::Aes256Gcm,
            CobblestoneSuite::Aes128Gcm => Cipher::Aes128Gcm,
        }
    }

    /// The length in bytes of the input key that files are encrypted with, and of the key derived
    /// from it for each file.
    pub fn key_length(self) -> usize {
        self.cipher().key_length()
    }
}

/// A Cobblestone input key and context, ready to derive each file's key.
///
/// A file is `salt(24) ‖ commitment(32) ‖ chunks`. The salt gives each file its own key, base nonce
/// and commitment.
pub struct Cobblestone {
    suite: CobblestoneSuite,
    /// HMAC that has absorbed the input key, which saves two compressions per file. It is as secret
    /// as the key, and boxed so that moving this value leaves no copy behind.
    keyed: Box<Hmac<Sha512>>,
    context: Box<[u8]>,
}

impl Cobblestone {
    /// The division of every Cobblestone file into chunks, which needs no key.
    pub const GEOMETRY: Geometry = Geometry {
        header: Cobblestone::HEADER_LENGTH as u64,
        first: CHUNK_LENGTH,
        chunk: CHUNK_LENGTH,
        overhead: 16,
        ending: Ending::Shorter,
        most_chunks: 1 << 38,
    };

    /// The length of salt and commitment, in bytes.
    pub const HEADER_LENGTH: usize = SALT_LENGTH + COMMITMENT_LENGTH;

    /// Takes an input key, which must be uniformly random, and a context, which may be empty; files
    /// open only with the same context.
    ///
    /// # Errors
    /// [`FormatError::Length`] when the key's length is not the suite's.
    pub fn new(
        suite: CobblestoneSuite,
        key: &Key,
        context: &[u8],
    ) -> Result<Cobblestone, FormatError> {
        let (expected, actual) = (suite.cipher().key_length(), key.len());
        if actual != expected {
            let cipher = suite.cipher();
            return Err(FormatError::Length { cipher, what: "a key", expected, actual });
        }
        let keyed = Box::new(hmac_sha512(key.bytes())?);
        Ok(Cobblestone { suite, keyed, context: context.into() })
    }

    /// The suite.
    pub fn suite(&self) -> CobblestoneSuite {
        self.suite
    }

    pub(super) fn create(&self) -> Result<(FileCipher, Header), FormatError> {
        let salt = random::<SALT_LENGTH>()?;
        let (file, commitment) = self.derive(&salt)?;
        Ok((file, Header::new(&[&salt, &commitment])))
    }

    pub(super) fn open(&self, header: &[u8]) -> Result<FileCipher, FormatError> {
        let (salt, rest) = header.split_first_chunk().ok_or(FormatError::Truncated)?;
        let committed = rest.first_chunk::<COMMITMENT_LENGTH>().ok_or(FormatError::Truncated)?;
        let (file, commitment) = self.derive(salt)?;
        if bool::from(commitment.ct_eq(committed)) { Ok(file) } else { Err(FormatError::WrongKey) }
    }

    /// The file's cipher and commitment:
    /// `key ‖ base nonce ‖ commitment = HKDF-Expand(prk = input key, info)`.
    fn derive(
        &self,
        salt: &[u8; SALT_LENGTH],
    ) -> Result<(FileCipher, [u8; COMMITMENT_LENGTH]), FormatError> {
        let output = self.expand(salt);
        let (key, rest) = output.split_at(self.suite.cipher().key_length());
        let (base, rest) = rest.split_first_chunk().ok_or(TOO_SHORT)?;
        let commitment = rest.first_chunk().ok_or(TOO_SHORT)?;
        let key = Key::new(key).map_err(|_| TOO_SHORT)?;
        let ivs = Ivs::Counter { base: *base };
        let file = FileCipher::new(self.suite.cipher(), key, Self::GEOMETRY, ivs);
        Ok((file, *commitment))
    }

    /// The first two blocks of HKDF-Expand with SHA-512 (RFC 5869, section 2.3), with the
    /// unmodified input key as the PRK. The `hkdf` crate takes no PRK shorter than the hash.
    fn expand(&self, salt: &[u8; SALT_LENGTH]) -> Zeroizing<[u8; 2 * HASH_LENGTH]> {
        let mut output = Zeroizing::new([0; 2 * HASH_LENGTH]);
        let (first, second) = output.split_at_mut(HASH_LENGTH);
        self.expand_block(&[], salt, 1, first);
        self.expand_block(first, salt, 2, second);
        output
    }

    fn expand_block(&self, before: &[u8], salt: &[u8], number: u8, output: &mut [u8]) {
        let aead = aead_name(self.suite);
        let mut mac = Hmac::clone(&self.keyed);
        for part in [before, b"c2sp.org/chunked-encryption@v1+", aead, &[0], salt, &self.context] {
            mac.update(part);
        }
        mac.update(&[number]);
        mac.finalize_into(GenericArray::from_mut_slice(output));
    }
}

impl Drop for Cobblestone {
    fn drop(&mut self) {
        // The HMAC and SHA-2 crates do not zeroise their state: replace it with a state that holds
        // no key, and make the compiler believe that someone reads it.
        if let Ok(blank) = hmac_sha512(&[]) {
            *self.keyed = blank;
            black_box(&self.keyed);
        }
    }
}

impl fmt::Debug for Cobblestone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cobblestone").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// The name in the IANA registry of AEAD algorithms, which the derivation binds.
fn aead_name(suite: CobblestoneSuite) -> &'static [u8] {
    match suite {
        CobblestoneSuite::Aes256Gcm => b"AEAD_AES_256_GCM",
        CobblestoneSuite::Aes128Gcm => b"AEAD_AES_128_GCM",
    }
}

fn hmac_sha512(key: &[u8]) -> Result<Hmac<Sha512>, FormatError> {
    Hmac::new_from_slice(key).map_err(|error| FormatError::Derivation(error.to_string()))
}

const SALT_LENGTH: usize = 24;
const COMMITMENT_LENGTH: usize = 32;
const CHUNK_LENGTH: u64 = 16_384;
const HASH_LENGTH: usize = 64;
const TOO_SHORT: FormatError = FormatError::Parameters("the derived key material is too short");
