//! PKCS #7 padding (RFC 5652, section 6.3), for engines whose backend does not pad.

/// The padding of a job's message to whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    /// No padding: the message is whole blocks.
    #[default]
    None,
    /// RFC 5652: 1 to `block_length` bytes, each holding the number of these bytes. ECB and CBC
    /// only.
    Pkcs7,
}

/// The length of `length` bytes after padding to `block_length`.
pub fn padded_length(length: usize, block_length: usize) -> usize {
    length - length % block_length + block_length
}

/// Builds the last block of a padded message in `block`, from `tail`, the bytes after the last
/// whole block (so `tail` is shorter than `block`, and may be empty).
pub fn fill_last_block(block: &mut [u8], tail: &[u8]) {
    let pad = block.len() - tail.len();
    block[..tail.len()].copy_from_slice(tail);
    block[tail.len()..].fill(pad as u8);
}

/// The number of padding bytes at the end of `block`, the last block of a decrypted message; `None`
/// when the padding is malformed.
///
/// Reads every byte, regardless of values, so the time does not depend on the data.
pub fn padding_length(block: &[u8]) -> Option<usize> {
    let pad = *block.last()?;
    let length = block.len();
    let mut bad = u8::from(pad == 0) | u8::from(usize::from(pad) > length);
    for (index, &byte) in block.iter().enumerate() {
        let is_padding = u8::from(length - index <= usize::from(pad));
        bad |= is_padding.wrapping_neg() & (byte ^ pad);
    }
    (bad == 0).then_some(usize::from(pad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_comes_off_again() {
        for tail in 0..16 {
            let mut block = [0; 16];
            fill_last_block(&mut block, &vec![0xEE; tail]);
            assert_eq!(padding_length(&block), Some(16 - tail));
            assert_eq!(padded_length(32 + tail, 16), 48);
        }
    }

    #[test]
    fn malformed_padding_is_seen() {
        assert_eq!(padding_length(&[]), None);
        assert_eq!(padding_length(&[0; 16]), None);
        assert_eq!(padding_length(&[17; 16]), None);
        let mut block = [4; 16];
        block[13] = 5;
        assert_eq!(padding_length(&block), None);
        block[13] = 4;
        block[11] = 9;
        assert_eq!(padding_length(&block), Some(4));
    }
}
