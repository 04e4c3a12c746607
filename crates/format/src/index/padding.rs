//! Padded lengths.

use super::MOST_ROOT;

/// How lengths are rounded up, so that they tell less: to a floor, then by Padmé (Nikitin et al.,
/// "Reducing Metadata Leakage from Encrypted Files", 2019), which adds at most 12 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// The least length in bytes.
    pub floor: u64,
}

impl Padding {
    /// The greatest floor, in bytes.
    pub const MOST_FLOOR: u64 = MOST_ROOT as u64;

    /// The padded length of so many bytes.
    pub fn length(self, bytes: u64) -> u64 {
        let length = bytes.max(self.floor);
        if length < 2 {
            return length;
        }
        let exponent = length.ilog2();
        let significant = exponent.ilog2().saturating_add(1);
        let mask = (1_u64 << exponent.saturating_sub(significant)) - 1;
        length.checked_add(mask).map_or(length, |length| length & !mask)
    }

    /// Adds zeros up to the padded length.
    pub(super) fn pad(padding: Option<Padding>, bytes: &mut Vec<u8>) {
        let length = padding.map_or(0, |padding| padding.length(bytes.len() as u64));
        bytes.resize(bytes.len().max(length as usize), 0);
    }
}
