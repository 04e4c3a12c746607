//! GHASH's field (NIST SP 800-38D).

use zeroize::Zeroize;

use super::hash::Element;
use crate::kernels::BLOCK;

/// A block as a big-endian number; the highest bit is the coefficient of 1.
#[derive(Clone, Copy, Default, PartialEq, Eq, Zeroize)]
pub(super) struct Ghash(pub(super) u128);

impl Element for Ghash {
    const ZERO: Ghash = Ghash(0);
    const ONE: Ghash = Ghash(1 << 127);

    fn plus(self, other: Ghash) -> Ghash {
        Ghash(self.0 ^ other.0)
    }

    fn minus(self, other: Ghash) -> Ghash {
        self.plus(other)
    }

    fn times(self, other: Ghash) -> Ghash {
        let (mut product, mut shifted) = (0, other.0);
        for bit in (0..128).rev() {
            product ^= shifted & (self.0 >> bit & 1).wrapping_neg();
            shifted = shifted >> 1 ^ REDUCTION & (shifted & 1).wrapping_neg();
        }
        Ghash(product)
    }

    fn of_block(block: [u8; BLOCK]) -> Ghash {
        Ghash(u128::from_be_bytes(block))
    }

    fn of_lengths(aad: u64, text: u64) -> Ghash {
        Ghash(u128::from(aad) << 67 | u128::from(text) << 3)
    }

    fn read(bytes: &[u8]) -> Ghash {
        Ghash(bytes.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    }
}

/// x^128 = x^7 + x^2 + x + 1.
const REDUCTION: u128 = 0xE1 << 120;
