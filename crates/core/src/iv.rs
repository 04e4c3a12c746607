//! Initialisation vectors, nonces and counter blocks.

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

    /// Copies an IV; `None` when it is longer than [`Iv::MAX_LENGTH`].
    pub fn new(bytes: &[u8]) -> Option<Iv> {
        let mut iv = Iv { length: u8::try_from(bytes.len()).ok()?, ..Iv::NONE };
        iv.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(iv)
    }

    /// The IV's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The counter block `blocks` blocks further on, as NIST SP 800-38A's standard
    /// incrementing function over all 128 bits (big-endian, wrapping).
    ///
    /// Meant for CTR, whose IV is one whole 16-byte block.
    #[must_use]
    pub fn advanced(self, blocks: u64) -> Iv {
        debug_assert_eq!(usize::from(self.length), Iv::MAX_LENGTH);
        let counter = u128::from_be_bytes(self.bytes).wrapping_add(u128::from(blocks));
        Iv { bytes: counter.to_be_bytes(), ..self }
    }
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
        assert!(Iv::new(&[0; 17]).is_none());
        assert_eq!(Iv::new(&[7; 12]).unwrap().bytes(), &[7; 12]);
        assert_eq!(Iv::NONE.bytes(), &[] as &[u8]);
    }
}
