//! Ciphers that only files of `openssl enc` use.

use crate::Mode::{self, Cbc, Cfb, Ctr, Ecb, Ofb, Stream};

/// A cipher that only OpenSSL supports, and only for files of `openssl enc`, under its OpenSSL
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncCipher(u8);

/// The properties of a cipher. Lengths are in bytes.
pub(crate) struct EncProperties {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) key_length: usize,
    /// The algorithm's block length; for a stream cipher, the length of its IV.
    pub(crate) block_length: usize,
}

impl EncCipher {
    /// All of these ciphers.
    pub fn all() -> impl Iterator<Item = EncCipher> {
        (0..TABLE.len()).map(|index| EncCipher(index as u8))
    }

    /// All names, including short names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let short = ALIASES.iter().map(|(alias, _)| *alias);
        TABLE.iter().map(|(name, ..)| *name).chain(short)
    }

    /// The cipher of this name or short name, in any case.
    pub(crate) fn find(name: &str) -> Option<EncCipher> {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        let name = alias.map_or(name, |(_, name)| name);
        EncCipher::all().find(|cipher| cipher.properties().name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn properties(self) -> EncProperties {
        let (name, mode, key_length, block_length) = TABLE[usize::from(self.0)];
        EncProperties { name, mode, key_length, block_length }
    }
}

/// Name, mode, length of the key, length of the algorithm's block.
const TABLE: &[(&str, Mode, usize, usize)] = &[
    ("aes-128-cfb", Cfb, 16, 16),
    ("aes-192-cfb", Cfb, 24, 16),
    ("aes-256-cfb", Cfb, 32, 16),
    ("aes-128-cfb8", Cfb, 16, 16),
    ("aes-192-cfb8", Cfb, 24, 16),
    ("aes-256-cfb8", Cfb, 32, 16),
    ("aes-128-cfb1", Cfb, 16, 16),
    ("aes-192-cfb1", Cfb, 24, 16),
    ("aes-256-cfb1", Cfb, 32, 16),
    ("camellia-128-ecb", Ecb, 16, 16),
    ("camellia-192-ecb", Ecb, 24, 16),
    ("camellia-256-ecb", Ecb, 32, 16),
    ("camellia-128-ctr", Ctr, 16, 16),
    ("camellia-192-ctr", Ctr, 24, 16),
    ("camellia-256-ctr", Ctr, 32, 16),
    ("camellia-128-cfb", Cfb, 16, 16),
    ("camellia-192-cfb", Cfb, 24, 16),
    ("camellia-256-cfb", Cfb, 32, 16),
    ("camellia-128-cfb8", Cfb, 16, 16),
    ("camellia-192-cfb8", Cfb, 24, 16),
    ("camellia-256-cfb8", Cfb, 32, 16),
    ("camellia-128-cfb1", Cfb, 16, 16),
    ("camellia-192-cfb1", Cfb, 24, 16),
    ("camellia-256-cfb1", Cfb, 32, 16),
    ("aria-128-ecb", Ecb, 16, 16),
    ("aria-192-ecb", Ecb, 24, 16),
    ("aria-256-ecb", Ecb, 32, 16),
    ("aria-128-cbc", Cbc, 16, 16),
    ("aria-192-cbc", Cbc, 24, 16),
    ("aria-256-cbc", Cbc, 32, 16),
    ("aria-128-ctr", Ctr, 16, 16),
    ("aria-192-ctr", Ctr, 24, 16),
    ("aria-256-ctr", Ctr, 32, 16),
    ("aria-128-cfb", Cfb, 16, 16),
    ("aria-192-cfb", Cfb, 24, 16),
    ("aria-256-cfb", Cfb, 32, 16),
    ("aria-128-cfb8", Cfb, 16, 16),
    ("aria-192-cfb8", Cfb, 24, 16),
    ("aria-256-cfb8", Cfb, 32, 16),
    ("aria-128-cfb1", Cfb, 16, 16),
    ("aria-192-cfb1", Cfb, 24, 16),
    ("aria-256-cfb1", Cfb, 32, 16),
    ("sm4-ecb", Ecb, 16, 16),
    ("sm4-cbc", Cbc, 16, 16),
    ("sm4-ctr", Ctr, 16, 16),
    ("sm4-cfb", Cfb, 16, 16),
    ("des-ecb", Ecb, 8, 8),
    ("des-cbc", Cbc, 8, 8),
    ("des-cfb", Cfb, 8, 8),
    ("des-cfb8", Cfb, 8, 8),
    ("des-cfb1", Cfb, 8, 8),
    ("des-ede", Ecb, 16, 8),
    ("des-ede-cbc", Cbc, 16, 8),
    ("des-ede-cfb", Cfb, 16, 8),
    ("des-ede3", Ecb, 24, 8),
    ("des-ede3-cfb", Cfb, 24, 8),
    ("des-ede3-cfb8", Cfb, 24, 8),
    ("des-ede3-cfb1", Cfb, 24, 8),
    ("bf-ecb", Ecb, 16, 8),
    ("bf-cfb", Cfb, 16, 8),
    ("cast5-ecb", Ecb, 16, 8),
    ("cast5-cbc", Cbc, 16, 8),
    ("cast5-cfb", Cfb, 16, 8),
    ("aes-128-ofb", Ofb, 16, 16),
    ("aes-192-ofb", Ofb, 24, 16),
    ("aes-256-ofb", Ofb, 32, 16),
    ("camellia-128-ofb", Ofb, 16, 16),
    ("camellia-192-ofb", Ofb, 24, 16),
    ("camellia-256-ofb", Ofb, 32, 16),
    ("aria-128-ofb", Ofb, 16, 16),
    ("aria-192-ofb", Ofb, 24, 16),
    ("aria-256-ofb", Ofb, 32, 16),
    ("sm4-ofb", Ofb, 16, 16),
    ("des-ofb", Ofb, 8, 8),
    ("des-ede-ofb", Ofb, 16, 8),
    ("des-ede3-ofb", Ofb, 24, 8),
    ("bf-ofb", Ofb, 16, 8),
    ("cast5-ofb", Ofb, 16, 8),
    ("chacha20", Stream, 32, 16),
];

/// OpenSSL's short names (`openssl enc -list`).
const ALIASES: &[(&str, &str)] = &[
    ("aria128", "aria-128-cbc"),
    ("aria192", "aria-192-cbc"),
    ("aria256", "aria-256-cbc"),
    ("sm4", "sm4-cbc"),
    ("des", "des-cbc"),
    ("des-ede-ecb", "des-ede"),
    ("des-ede3-ecb", "des-ede3"),
    ("cast", "cast5-cbc"),
    ("cast-cbc", "cast5-cbc"),
];

#[cfg(test)]
mod tests {
    use crate::Cipher;

    use super::*;

    #[test]
    fn names_are_read_for_openssl_enc_alone() {
        for cipher in EncCipher::all() {
            let name = cipher.properties().name;
            assert_eq!(Cipher::of_openssl_enc(&name.to_uppercase()), Ok(Cipher::Enc(cipher)));
            assert!(name.parse::<Cipher>().is_err(), "{name}");
        }
        for (alias, name) in ALIASES {
            assert_eq!(Cipher::of_openssl_enc(alias).unwrap().name(), *name);
        }
        assert_eq!(Cipher::of_openssl_enc("aes256"), Ok(Cipher::Aes256Cbc));
        assert!(Cipher::of_openssl_enc("enigma").is_err());
    }

    #[test]
    fn only_ecb_and_cbc_have_blocks() {
        for cipher in EncCipher::all().map(Cipher::Enc) {
            let pads = matches!(cipher.mode(), Ecb | Cbc);
            assert_eq!(cipher.block_length() > 1, pads, "{cipher}");
            assert_eq!(cipher.iv_length() == 0, cipher.mode() == Ecb, "{cipher}");
            assert!(cipher.iv_length() <= crate::Iv::MAX_LENGTH);
        }
    }
}
