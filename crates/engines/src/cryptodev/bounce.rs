//! Memory with the alignment that a driver needs.

use zeroize::Zeroizing;

/// Aligned memory, wiped when dropped.
pub(super) struct Bounce {
    bytes: Zeroizing<Vec<u8>>,
    alignment: usize,
}

impl Bounce {
    pub(super) fn new(length: usize, alignment: usize) -> Bounce {
        Bounce { bytes: Zeroizing::new(vec![0; length + alignment]), alignment }
    }

    /// The first bytes of the memory, in the requested length. The content is kept, unless the
    /// memory must grow.
    pub(super) fn take(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + self.alignment {
            *self = Bounce::new(length, self.alignment);
        }
        let start = self.bytes.as_ptr().align_offset(self.alignment);
        &mut self.bytes[start..start + length]
    }
}

pub(super) fn is_aligned(data: &[u8], alignment: usize) -> bool {
    data.as_ptr().addr().is_multiple_of(alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounced_data_is_aligned() {
        let mut bounce = Bounce::new(10, 64);
        for length in [0, 10, 11, 5000, 7] {
            let data = bounce.take(length);
            assert_eq!(data.len(), length);
            assert!(is_aligned(data, 64));
        }
    }
}
