//! Ciphers under their OpenSSL names.

use std::fmt;
use std::str::FromStr;

use crate::EncCipher;
use crate::enc_cipher::EncProperties;

/// An algorithm with its mode and key length, under its OpenSSL name.
///
/// ```
/// # extern crate evener_core as evener;
/// use evener::Cipher;
///
/// let cipher: Cipher = "aes-256-gcm".parse()?;
/// assert_eq!(cipher, Cipher::Aes256Gcm);
/// assert_eq!((cipher.key_length(), cipher.iv_length(), cipher.tag_length()), (32, 12, 16));
/// # Ok::<(), evener::UnknownCipher>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum Cipher {
    Aes128Ecb,
    Aes192Ecb,
    Aes256Ecb,
    Aes128Cbc,
    Aes192Cbc,
    Aes256Cbc,
    Aes128Ctr,
    Aes192Ctr,
    Aes256Ctr,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
    Aes128Xts,
    Aes256Xts,
    Camellia128Cbc,
    Camellia192Cbc,
    Camellia256Cbc,
    DesEde3Cbc,
    BfCbc,
    ChaCha20Poly1305,
    Enc(EncCipher),
}

impl Cipher {
    /// Every cipher that Evener supports, in listing order, except those that only files of
    /// `openssl enc` use.
    pub const ALL: &'static [Cipher] = &[
        Cipher::Aes128Ecb,
        Cipher::Aes192Ecb,
        Cipher::Aes256Ecb,
        Cipher::Aes128Cbc,
        Cipher::Aes192Cbc,
        Cipher::Aes256Cbc,
        Cipher::Aes128Ctr,
        Cipher::Aes192Ctr,
        Cipher::Aes256Ctr,
        Cipher::Aes128Gcm,
        Cipher::Aes192Gcm,
        Cipher::Aes256Gcm,
        Cipher::Aes128Xts,
        Cipher::Aes256Xts,
        Cipher::Camellia128Cbc,
        Cipher::Camellia192Cbc,
        Cipher::Camellia256Cbc,
        Cipher::DesEde3Cbc,
        Cipher::BfCbc,
        Cipher::ChaCha20Poly1305,
    ];

    /// Reads a cipher name of `openssl enc`, in any case: those that [`FromStr`] reads, and those
    /// of ciphers that only files of `openssl enc` use.
    ///
    /// # Errors
    /// When there is no such cipher, or Evener does not support it.
    pub fn of_openssl_enc(name: &str) -> Result<Cipher, UnknownCipher> {
        name.parse().or_else(|error| EncCipher::find(name).map(Cipher::Enc).ok_or(error))
    }

    /// All names that [`Cipher::of_openssl_enc`] reads, including short names. Those of
    /// [`Cipher::ALL`] come last.
    pub fn names_of_openssl_enc() -> impl Iterator<Item = &'static str> {
        let short = ALIASES.iter().map(|(alias, _)| *alias);
        EncCipher::names().chain(short).chain(Cipher::ALL.iter().map(|cipher| cipher.name()))
    }

    /// The OpenSSL name, such as `aes-128-cbc`.
    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// The mode of operation.
    pub fn mode(self) -> Mode {
        self.properties().mode
    }

    /// Key length in bytes. XTS counts both of its keys.
    pub fn key_length(self) -> usize {
        self.properties().key_length
    }

    /// IV length in bytes: 0 for ECB, 12 for GCM (NIST SP 800-38D's recommended length, the
    /// only one that Evener uses) and for ChaCha20-Poly1305, one block otherwise.
    pub fn iv_length(self) -> usize {
        match self.mode() {
            Mode::Ecb => 0,
            Mode::Gcm | Mode::Poly1305 => 12,
            Mode::Cbc | Mode::Ctr | Mode::Cfb | Mode::Ofb | Mode::Xts | Mode::Stream => {
                self.cipher_block_length()
            }
        }
    }

    /// Message lengths without padding are multiples of this: the block length for ECB and
    /// CBC, 1 for the others. (XTS takes any length from 16 bytes.)
    pub fn block_length(self) -> usize {
        match self.mode() {
            Mode::Ecb | Mode::Cbc => self.cipher_block_length(),
            Mode::Ctr | Mode::Cfb | Mode::Ofb | Mode::Gcm | Mode::Xts => 1,
            Mode::Poly1305 | Mode::Stream => 1,
        }
    }

    /// The longest message in bytes, without its tag, that the mode's standard allows under
    /// one IV: XTS 2^20 blocks (NIST SP 800-38E), GCM 2^36 − 32 bytes (NIST SP 800-38D),
    /// ChaCha20-Poly1305 2^38 − 64 bytes (RFC 8439). The other modes set no limit.
    pub fn longest_message(self) -> u64 {
        match self.mode() {
            Mode::Xts => 16 << 20,
            Mode::Gcm => (1 << 36) - 32,
            Mode::Poly1305 => (1 << 38) - 64,
            Mode::Ecb | Mode::Cbc | Mode::Ctr | Mode::Cfb | Mode::Ofb | Mode::Stream => u64::MAX,
        }
    }

    /// Length in bytes of the tag that follows the ciphertext: 16 for AEAD ciphers, else 0.
    pub fn tag_length(self) -> usize {
        if self.is_authenticated() { 16 } else { 0 }
    }

    /// Returns whether decryption detects changed ciphertext (GCM, ChaCha20-Poly1305).
    pub fn is_authenticated(self) -> bool {
        matches!(self.mode(), Mode::Gcm | Mode::Poly1305)
    }

    /// The length of the block that the algorithm permutes, in bytes: 8 for DES and Blowfish.
    fn cipher_block_length(self) -> usize {
        match self {
            Cipher::DesEde3Cbc | Cipher::BfCbc => 8,
            Cipher::Enc(cipher) => cipher.properties().block_length,
            _ => 16,
        }
    }

    fn properties(self) -> Properties {
        use Mode::{Cbc, Ctr, Ecb, Gcm, Poly1305, Xts};
        let (name, mode, key_length) = match self {
            Cipher::Aes128Ecb => ("aes-128-ecb", Ecb, 16),
            Cipher::Aes192Ecb => ("aes-192-ecb", Ecb, 24),
            Cipher::Aes256Ecb => ("aes-256-ecb", Ecb, 32),
            Cipher::Aes128Cbc => ("aes-128-cbc", Cbc, 16),
            Cipher::Aes192Cbc => ("aes-192-cbc", Cbc, 24),
            Cipher::Aes256Cbc => ("aes-256-cbc", Cbc, 32),
            Cipher::Aes128Ctr => ("aes-128-ctr", Ctr, 16),
            Cipher::Aes192Ctr => ("aes-192-ctr", Ctr, 24),
            Cipher::Aes256Ctr => ("aes-256-ctr", Ctr, 32),
            Cipher::Aes128Gcm => ("aes-128-gcm", Gcm, 16),
            Cipher::Aes192Gcm => ("aes-192-gcm", Gcm, 24),
            Cipher::Aes256Gcm => ("aes-256-gcm", Gcm, 32),
            Cipher::Aes128Xts => ("aes-128-xts", Xts, 32),
            Cipher::Aes256Xts => ("aes-256-xts", Xts, 64),
            Cipher::Camellia128Cbc => ("camellia-128-cbc", Cbc, 16),
            Cipher::Camellia192Cbc => ("camellia-192-cbc", Cbc, 24),
            Cipher::Camellia256Cbc => ("camellia-256-cbc", Cbc, 32),
            Cipher::DesEde3Cbc => ("des-ede3-cbc", Cbc, 24),
            Cipher::BfCbc => ("bf-cbc", Cbc, 16),
            Cipher::ChaCha20Poly1305 => ("chacha20-poly1305", Poly1305, 32),
            Cipher::Enc(cipher) => {
                let EncProperties { name, mode, key_length, .. } = cipher.properties();
                (name, mode, key_length)
            }
        };
        Properties { name, mode, key_length }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Cipher {
    type Err = UnknownCipher;

    /// Reads an OpenSSL name in any case, such as `AES-128-CBC`, or one of its short names, such as
    /// `aes128`.
    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        Cipher::ALL
            .iter()
            .copied()
            .find(|cipher| cipher.name().eq_ignore_ascii_case(name))
            .or(alias.map(|(_, cipher)| *cipher))
            .ok_or_else(|| UnknownCipher(name.to_owned()))
    }
}

/// OpenSSL's short names (`openssl enc -list`).
const ALIASES: &[(&str, Cipher)] = &[
    ("aes128", Cipher::Aes128Cbc),
    ("aes192", Cipher::Aes192Cbc),
    ("aes256", Cipher::Aes256Cbc),
    ("camellia128", Cipher::Camellia128Cbc),
    ("camellia192", Cipher::Camellia192Cbc),
    ("camellia256", Cipher::Camellia256Cbc),
    ("des3", Cipher::DesEde3Cbc),
    ("bf", Cipher::BfCbc),
    ("blowfish", Cipher::BfCbc),
];

/// A cipher name that Evener does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cipher `{0}`")]
pub struct UnknownCipher(pub String);

/// A mode of operation. `Poly1305` stands for the RFC 8439 construction, `Cfb` for CFB with
/// segments of a block, a byte or a bit, and `Stream` for ChaCha20 with its counter in the IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the field's names")]
pub enum Mode {
    Ecb,
    Cbc,
    Ctr,
    Gcm,
    Xts,
    Poly1305,
    Cfb,
    Ofb,
    Stream,
}

/// The direction of a session: encryption or decryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum Direction {
    Encrypt,
    Decrypt,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Encrypt => "encrypt",
            Direction::Decrypt => "decrypt",
        })
    }
}

struct Properties {
    name: &'static str,
    mode: Mode,
    key_length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for &cipher in Cipher::ALL {
            assert_eq!(cipher.name().to_uppercase().parse(), Ok(cipher));
        }
        assert_eq!("AES256".parse(), Ok(Cipher::Aes256Cbc));
        assert_eq!("des3".parse(), Ok(Cipher::DesEde3Cbc));
        assert!(ALIASES.iter().all(|(alias, cipher)| alias.parse() == Ok(*cipher)));
        assert_eq!("aes-512-cbc".parse::<Cipher>(), Err(UnknownCipher("aes-512-cbc".into())));
    }

    #[test]
    fn lengths_follow_the_mode() {
        assert_eq!(Cipher::Aes256Gcm.iv_length(), 12);
        assert_eq!(Cipher::Aes256Gcm.tag_length(), 16);
        assert_eq!(Cipher::DesEde3Cbc.iv_length(), 8);
        assert_eq!(Cipher::DesEde3Cbc.block_length(), 8);
        assert_eq!(Cipher::Aes128Ecb.iv_length(), 0);
        assert_eq!(Cipher::Aes128Ctr.block_length(), 1);
        assert_eq!(Cipher::Aes256Xts.key_length(), 64);
        assert_eq!(Cipher::Aes256Xts.longest_message(), 16 * (1 << 20));
    }
}
