//! GHASH (NIST SP 800-38D) on the host, for what joins the chunks of a text.

/// A block as a big-endian number; the highest bit is the coefficient of 1.
pub(super) type Element = u128;

/// The product in GHASH's field, in a time that does not depend on the factors.
pub(super) fn multiplied(x: Element, y: Element) -> Element {
    let (mut product, mut shifted) = (0, y);
    for bit in (0..128).rev() {
        product ^= shifted & (x >> bit & 1).wrapping_neg();
        shifted = shifted >> 1 ^ REDUCTION & (shifted & 1).wrapping_neg();
    }
    product
}

/// A power; the exponent is no secret.
pub(super) fn power(mut base: Element, mut exponent: u64) -> Element {
    // The coefficient of 1.
    let mut result = 1 << 127;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiplied(result, base);
        }
        base = multiplied(base, base);
        exponent >>= 1;
    }
    result
}

/// The hash of some bytes, filled up with zeros to whole blocks.
pub(super) fn hash(key: Element, bytes: &[u8]) -> Element {
    bytes.chunks(16).fold(0, |sum, chunk| {
        let mut block = [0; 16];
        block[..chunk.len()].copy_from_slice(chunk);
        multiplied(sum ^ Element::from_be_bytes(block), key)
    })
}

/// The block with the two lengths, which are in bytes.
pub(super) fn lengths(aad: u64, text: u64) -> Element {
    Element::from(aad) << 67 | Element::from(text) << 3
}

/// x^128 = x^7 + x^2 + x + 1.
const REDUCTION: Element = 0xE1 << 120;
