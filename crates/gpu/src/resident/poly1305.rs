//! Poly1305's field (RFC 8439), the numbers modulo 2^130 - 5.

use super::hash::Element;
use crate::kernels::BLOCK;

/// A number in limbs of 26 bits, which may be one bit too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poly([u32; 5]);

impl Poly {
    /// The tag: the number modulo 2^130 - 5, plus the pad modulo 2^128.
    pub(super) fn tag(self, pad: u128) -> [u8; BLOCK] {
        let mut limbs = self.0.map(u64::from);
        // Twice, because the first carry out of the top may cause another.
        for _ in 0..2 {
            let carry = carried(&mut limbs);
            limbs[0] += carry * 5;
        }
        // n + 5 has bit 130 if n is not less than the modulus; then the result is n + 5 - 2^130.
        let mut reduced = limbs;
        reduced[0] += 5;
        let mask = carried(&mut reduced).wrapping_neg();
        let place = |number: usize| (limbs[number] & !mask) | (reduced[number] & mask);
        let number = (0..5)
            .fold(0_u128, |sum, limb| sum | u128::from(place(limb)).wrapping_shl(26 * limb as u32));
        number.wrapping_add(pad).to_le_bytes()
    }
}

impl Element for Poly {
    const ZERO: Poly = Poly([0; 5]);
    const ONE: Poly = Poly([1, 0, 0, 0, 0]);

    fn plus(self, other: Poly) -> Poly {
        reduced(std::array::from_fn(|limb| u64::from(self.0[limb]) + u64::from(other.0[limb])))
    }

    /// Adds four times the modulus, so that no limb becomes negative.
    fn minus(self, other: Poly) -> Poly {
        reduced(std::array::from_fn(|limb| {
            let four = if limb == 0 { 4 * (LIMB - 4) } else { 4 * LIMB };
            u64::from(self.0[limb]) + four - u64::from(other.0[limb])
        }))
    }

    fn times(self, other: Poly) -> Poly {
        reduced(std::array::from_fn(|limb| {
            let products = (0..5).map(|from| {
                // 2^130 = 5.
                let factor = match from <= limb {
                    true => u64::from(other.0[limb - from]),
                    false => u64::from(other.0[limb + 5 - from]) * 5,
                };
                u64::from(self.0[from]) * factor
            });
            products.sum()
        }))
    }

    fn of_block(block: [u8; BLOCK]) -> Poly {
        let number = u128::from_le_bytes(block);
        let mut limbs = std::array::from_fn(|limb| (number >> (26 * limb)) as u32 & LIMB as u32);
        limbs[4] |= 1 << 24;
        Poly(limbs)
    }

    fn of_lengths(aad: u64, text: u64) -> Poly {
        Poly::of_block((u128::from(text) << 64 | u128::from(aad)).to_le_bytes())
    }

    fn read(bytes: &[u8]) -> Poly {
        let (words, _) = bytes.as_chunks();
        Poly(std::array::from_fn(|limb| {
            words.get(limb).map_or(0, |word| u32::from_le_bytes(*word))
        }))
    }
}

/// Shortens limbs of up to 62 bits.
fn reduced(mut limbs: [u64; 5]) -> Poly {
    // The carry out of the top has up to 37 bits.
    let carry = carried(&mut limbs) * 5 + limbs[0];
    limbs[0] = carry & LIMB;
    limbs[1] += carry >> 26;
    let carry = carried(&mut limbs) * 5 + limbs[0];
    limbs[0] = carry & LIMB;
    limbs[1] += carry >> 26;
    Poly(limbs.map(|limb| limb as u32))
}

/// Moves each limb's excess to the next one. Returns that of the last.
fn carried(limbs: &mut [u64; 5]) -> u64 {
    limbs.iter_mut().fold(0, |carry, limb| {
        let sum = *limb + carry;
        *limb = sum & LIMB;
        sum >> 26
    })
}

const LIMB: u64 = (1 << 26) - 1;

#[cfg(test)]
mod tests {
    use super::super::hash::hash;
    use super::*;

    /// 2^130 - 5 minus a small number.
    fn near_the_modulus(less: u32) -> Poly {
        Poly([LIMB as u32 - 4 - less, LIMB as u32, LIMB as u32, LIMB as u32, LIMB as u32])
    }

    #[test]
    fn numbers_beyond_the_modulus_are_reduced_for_the_tag() {
        let value = |number: Poly| u128::from_le_bytes(number.tag(0));
        assert_eq!(value(near_the_modulus(0)), 0);
        assert_eq!(value(near_the_modulus(0).plus(Poly([7, 0, 0, 0, 0]))), 7);
        assert_eq!(value(near_the_modulus(1)), u128::MAX - 5);
        assert_eq!(value(Poly::ZERO.minus(Poly::ONE)), u128::MAX - 5);
        assert_eq!(value(Poly([LIMB as u32 * 2 + 1; 5]).minus(Poly([LIMB as u32 * 2 + 1; 5]))), 0);
        assert_eq!(value(near_the_modulus(1).times(near_the_modulus(2))), 2);
        assert_eq!(near_the_modulus(0).tag(u128::MAX), [0xFF; 16]);
    }

    #[test]
    fn the_tag_is_that_of_the_rfc() {
        // RFC 8439, 2.5.2; its last block has two bytes and an end bit.
        let word = |text: &str| u128::from_str_radix(text, 16).unwrap().swap_bytes();
        let key = word("85d6be7857556d337f4452fe42d506a8") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF;
        let pad = word("0103808afb0db2fd4abff6af4149f51b");
        let mut key = Poly::of_block(key.to_le_bytes());
        key.0[4] &= !(1 << 24);
        let sum = hash(key, b"Cryptographic Forum Research Gro");
        let last = Poly([u32::from_le_bytes(*b"up\x01\0"), 0, 0, 0, 0]);
        let tag = sum.plus(last).times(key).tag(pad);
        assert_eq!(u128::from_be_bytes(tag), 0xa8061dc1305136c6c22b8baf0c0127a9);
    }
}
