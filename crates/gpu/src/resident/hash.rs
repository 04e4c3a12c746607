//! The code for GHASH and Poly1305 on the host, which joins the chunks of a text.
//!
//! Both evaluate a polynomial at a key: each block is added, and then multiplied by the key. The
//! blocks after a part multiply its sum by a power of the key.

use crate::kernels::{BLOCK, JOINED_STRIPES, MESSAGE_SCRATCH, STRIPE, STRIPE_SCRATCH};

/// An element of a hash's field. No operation takes a time that depends on its value.
pub(super) trait Element: Copy {
    const ZERO: Self;
    const ONE: Self;

    fn plus(self, other: Self) -> Self;

    fn minus(self, other: Self) -> Self;

    fn times(self, other: Self) -> Self;

    /// The element of a block.
    fn of_block(block: [u8; BLOCK]) -> Self;

    /// The block of the two lengths, given in bytes.
    fn of_lengths(aad: u64, text: u64) -> Self;

    /// An element in the kernels' format (at most [`ELEMENT`] bytes).
    fn read(bytes: &[u8]) -> Self;
}

/// A power; the exponent is not secret.
pub(super) fn power<E: Element>(mut base: E, mut exponent: u64) -> E {
    let mut result = E::ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.times(base);
        }
        base = base.times(base);
        exponent >>= 1;
    }
    result
}

/// The hash of some bytes, padded with zeros to whole blocks.
pub(super) fn hash<E: Element>(key: E, bytes: &[u8]) -> E {
    bytes.chunks(BLOCK).fold(E::ZERO, |sum, chunk| {
        let mut block = [0; BLOCK];
        block[..chunk.len()].copy_from_slice(chunk);
        sum.plus(E::of_block(block)).times(key)
    })
}

/// The hash of a chunk with the block of its lengths, from the kernels' output: for few stripes,
/// their values; for many, the sum.
pub(super) fn joined<E: Element>(key: E, sums: &[u8], stripes: u64) -> E {
    let element = |at: usize| E::read(sums.get(at..at + ELEMENT).unwrap_or(&[0; ELEMENT]));
    if stripes > JOINED_STRIPES {
        return element(0);
    }
    let power = power(key, STRIPE as u64);
    let values = (0..stripes as usize).rev();
    let value = |number: usize| element(MESSAGE_SCRATCH + number * STRIPE_SCRATCH);
    values.fold(E::ZERO, |sum, number| sum.times(power).plus(value(number)))
}

/// The hash of additional data and of a text in chunks, up to the end of the block of their
/// lengths. `made` has each chunk's length and its result of [`joined`].
pub(super) fn whole<E: Element>(key: E, aad: &[u8], made: &[(u64, E)]) -> E {
    let length = made.iter().map(|(length, _)| length).sum();
    // Nothing follows the first block of lengths.
    let mut sum = E::of_lengths(aad.len() as u64, length).times(key);
    let mut after = 0;
    for &(length, made) in made.iter().rev() {
        let text = made.minus(E::of_lengths(0, length).times(key));
        sum = sum.plus(text.times(power(key, after)));
        after += length.div_ceil(BLOCK as u64);
    }
    sum.plus(hash(key, aad).times(power(key, after + 1)))
}

/// The most bytes of an element.
const ELEMENT: usize = 20;
