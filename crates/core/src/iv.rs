//! Initialisation vectors, nonces and counter blocks.

use crate::{Cipher, Mode};

/// An IV (nonce, initial counter block, tweak) of 0 to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iv {
    bytes: [u8; Iv::MAX_LENGTH],
    length: u8,
}

impl Iv {
    /// The longest IV of any cipher, in bytes.
    pub const MAX_LENGTH: usize = 16;

    /// No IV, for ECB.
    pub const NONE: Iv = Iv { bytes: [0; Iv::MAX_LENGTH], length: 0 };

    /// Copies an IV.
    ///
    /// # Errors
    /// When it is longer than [`Iv::MAX_LENGTH`].
    pub fn new(bytes: &[u8]) -> Result<Iv, InvalidIv> {
        let length = bytes.len();
        let mut iv = Iv { length: length as u8, ..Iv::NONE };
        iv.bytes.get_mut(..length).ok_or(InvalidIv { length })?.copy_from_slice(bytes);
        Ok(iv)
    }

    /// The IV's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The counter block after `blocks` more blocks, by NIST SP 800-38A's standard incrementing
    /// function over all 128 bits (big-endian, wrapping).
    ///
    /// For CTR, whose IV is one whole 16-byte block.
    #[must_use]
    pub fn advanced(self, blocks: u64) -> Iv {
        debug_assert_eq!(usize::from(self.length), Iv::MAX_LENGTH);
        let counter = u128::from_be_bytes(self.bytes).wrapping_add(u128::from(blocks));
        Iv { bytes: counter.to_be_bytes(), ..self }
    }

    /// The IV with which a message continues after its first blocks. `ciphertext` is the encryption
    /// of those whole blocks under this IV. For CTR the result is the counter block after them, for
    /// CBC the last block of ciphertext, for ECB no IV.
    ///
    /// `None` for the other modes, whose messages can't be split, when `ciphertext` is not whole
    /// blocks, and when the IV has the wrong length.
    #[must_use]
    pub fn following(self, cipher: Cipher, ciphertext: &[u8]) -> Option<Iv> {
        let blocks = ciphertext.len() / Iv::MAX_LENGTH;
        if self.bytes().len() != cipher.iv_length() {
            return None;
        }
        match cipher.mode() {
            Mode::Ctr if ciphertext.len().is_multiple_of(Iv::MAX_LENGTH) => {
                Some(self.advanced(blocks as u64))
            }
            Mode::Cbc if ciphertext.is_empty() => Some(self),
            Mode::Cbc if ciphertext.len().is_multiple_of(cipher.block_length()) => {
                Iv::new(&ciphertext[ciphertext.len() - cipher.iv_length()..]).ok()
            }
            Mode::Ecb => Some(Iv::NONE),
            _ => None,
        }
    }
}

/// An IV that is too long for every cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an IV has at most {} bytes, not {length}", Iv::MAX_LENGTH)]
#[non_exhaustive]
pub struct InvalidIv {
    /// In bytes.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_carries_through_all_128_bits() {
        let iv = Iv::new(&[0xFF; 16]).unwrap();
        assert_eq!(iv.advanced(1).bytes(), &[0; 16]);
        let mut half = [0; 16];
        half[8..].fill(0xFF);
        let mut carried = [0; 16];
        carried[7] = 1;
        carried[15] = 1;
        assert_eq!(Iv::new(&half).unwrap().advanced(2).bytes(), &carried);
    }

    #[test]
    fn length_is_bounded() {
        assert!(Iv::new(&[0; 17]).is_err());
        assert_eq!(Iv::new(&[7; 12]).unwrap().bytes(), &[7; 12]);
        assert_eq!(Iv::NONE.bytes(), &[] as &[u8]);
    }

    #[test]
    fn messages_go_on_where_they_were_cut() {
        let iv = Iv::new(&[0xFF; 16]).unwrap();
        assert_eq!(iv.following(Cipher::Aes256Ctr, &[0; 48]), Some(iv.advanced(3)));
        assert_eq!(iv.following(Cipher::Aes256Ctr, &[0; 47]), None);
        let ciphertext: Vec<u8> = (0..32).collect();
        assert_eq!(iv.following(Cipher::Aes256Cbc, &ciphertext), Iv::new(&ciphertext[16..]).ok());
        assert_eq!(iv.following(Cipher::BfCbc, &ciphertext), None);
        let short = Iv::new(&[7; 8]).unwrap();
        assert_eq!(short.following(Cipher::BfCbc, &ciphertext), Iv::new(&ciphertext[24..]).ok());
        assert_eq!(short.following(Cipher::BfCbc, &[]), Some(short));
        assert_eq!(iv.following(Cipher::Aes128Xts, &ciphertext), None);
    }
}
