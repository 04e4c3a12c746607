//! The end of a TLS record that CBC has decrypted: a MAC, padding and its length (RFC 5246, section
//! 6.2.3.2). An attacker who could measure whether the padding was right would decrypt records
//! (Vaudenay 2002; "Lucky Thirteen", 2013). So the operations and the memory that they touch depend
//! on lengths that everybody sees and on nothing in the record. (Sums wrap, since a check would be
//! a branch.)
//!
//! The file needs no other, so that `tests/tls/constant-time` can compile it by itself and watch
//! it.

use std::hint::black_box;

/// The padding of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// SSL 3: less than a block, of any bytes.
    Short,
    /// TLS: up to 255 bytes, each of which holds their number.
    Any,
}

/// Removes padding and MAC from a decrypted record. Returns the length of the text, which is
/// secret, as is the MAC: the caller checks the MAC in constant time.
///
/// `mac` has the MAC's length, up to 64, and random bytes, which stay if the padding is wrong.
/// `None` if the record is too short, or if there is no MAC and the padding is wrong.
pub(crate) fn open(padding: Padding, record: &[u8], mac: &mut [u8]) -> Option<usize> {
    let &last = record.last()?;
    let overhead = mac.len() + 1;
    if record.len() < overhead || mac.len() > LONGEST_MAC {
        return None;
    }
    let padded = usize::from(last);
    let mut good = at_least(record.len(), padded.wrapping_add(overhead));
    match padding {
        Padding::Short => good &= at_least(BLOCK, padded.wrapping_add(1)),
        Padding::Any => {
            let mut difference = 0;
            for (place, byte) in record.iter().rev().take(LONGEST_PADDING).enumerate() {
                difference |= at_least(padded, place) as u8 & (byte ^ last);
            }
            good &= equal(difference.into(), 0);
        }
    }
    let good = black_box(good);
    if mac.is_empty() && good == 0 {
        return None;
    }
    let end = record.len().wrapping_sub(good & padded.wrapping_add(1));
    copy_mac(record, end, good, mac);
    Some(end.wrapping_sub(mac.len()))
}

/// Copies the MAC that ends at `end`, if the padding is good.
fn copy_mac(record: &[u8], end: usize, good: usize, mac: &mut [u8]) {
    let length = mac.len();
    if length == 0 {
        return;
    }
    // Scans every place where the MAC can be, and collects its bytes in order, but rotated by
    // `turned`.
    let first = record.len().saturating_sub(length + LONGEST_PADDING);
    let start = end.wrapping_sub(length);
    let (mut collected, mut turned, mut place) = ([0; LONGEST_MAC], 0, 0);
    for (index, byte) in record.iter().enumerate().skip(first) {
        let is_within = at_least(index, start) & !at_least(index, end);
        collected[place] |= byte & is_within as u8;
        turned |= place & equal(index, start);
        place += 1;
        if place == length {
            place = 0;
        }
    }
    // Rotates them back by each power of two that `turned` contains.
    let mut power = 1;
    while power < length {
        let is_in = equal(turned & power, power) as u8;
        let before = collected;
        for index in 0..length {
            collected[index] = select(is_in, before[(index + power) % length], before[index]);
        }
        power *= 2;
    }
    for (to, from) in mac.iter_mut().zip(collected) {
        *to = select(good as u8, from, *to);
    }
}

/// All bits if `number >= other`, else none, for numbers up to `isize::MAX`.
fn at_least(number: usize, other: usize) -> usize {
    let is_less = number.wrapping_sub(other) as isize >> (isize::BITS - 1);
    black_box(!is_less as usize)
}

/// All bits if the numbers are equal, else none.
fn equal(number: usize, other: usize) -> usize {
    let difference = number ^ other;
    at_least(0, difference)
}

/// `one` if the mask has all bits, `other` if it has none.
fn select(mask: u8, one: u8, other: u8) -> u8 {
    other ^ mask & (one ^ other)
}

/// The longest MAC, in bytes (OpenSSL's `EVP_MAX_MD_SIZE`).
pub(crate) const LONGEST_MAC: usize = 64;

/// The longest padding, in bytes, including the byte that holds their number.
const LONGEST_PADDING: usize = 256;

/// The length of an AES block, in bytes.
const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of text, MAC and padding, whose bytes show their places.
    fn record(text: usize, mac: usize, padded: u8) -> Vec<u8> {
        let text = (0..text).map(|index| index as u8 & 0x3F);
        let mac = (0..mac).map(|index| index as u8 | 0x40);
        text.chain(mac).chain(std::iter::repeat_n(padded, usize::from(padded) + 1)).collect()
    }

    #[test]
    fn text_and_mac_are_found_wherever_they_end() {
        for length in [0, 1, 20, 32, 48, 64] {
            for text in [0, 1, 15, 16, 200, 255, 256, 257, 300, 1000] {
                for padded in 0..=255 {
                    let record = record(text, length, padded);
                    let mut mac = vec![0xFF; length];
                    assert_eq!(open(Padding::Any, &record, &mut mac), Some(text));
                    assert_eq!(mac, record[text..][..length]);
                    let mut mac = vec![0xFF; length];
                    let found = open(Padding::Short, &record, &mut mac);
                    if padded < 16 {
                        assert_eq!(found, Some(text));
                        assert_eq!(mac, record[text..][..length]);
                    } else if length > 0 {
                        assert_eq!(found, Some(record.len() - length));
                        assert_eq!(mac, vec![0xFF; length]);
                    }
                }
            }
        }
    }

    #[test]
    fn any_wrong_byte_of_the_padding_leaves_the_random_mac() {
        for padded in [0, 1, 7, 15, 16, 254, 255] {
            for wrong in 0..usize::from(padded) {
                let mut record = record(40, 20, padded);
                record[60 + wrong] ^= 0x80;
                let mut mac = [0xEE; 20];
                assert_eq!(open(Padding::Any, &record, &mut mac), Some(record.len() - 20));
                assert_eq!(mac, [0xEE; 20]);
                assert_eq!(open(Padding::Any, &record, &mut []), None);
            }
        }
        // More padding than record.
        let mut mac = [0xEE; 20];
        assert_eq!(open(Padding::Any, &[200; 96], &mut mac), Some(76));
        assert_eq!(mac, [0xEE; 20]);
        assert_eq!(open(Padding::Any, &[0; 20], &mut mac), None);
        assert_eq!(open(Padding::Any, &[0; 21], &mut mac), Some(0));
        assert_eq!(open(Padding::Any, &[], &mut []), None);
    }
}
