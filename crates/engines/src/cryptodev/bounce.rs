//! Memory at addresses that suit a driver.

use zeroize::Zeroizing;

/// Memory at such an address, wiped when it goes.
pub(super) struct Bounce {
    bytes: Zeroizing<Vec<u8>>,
    alignment: usize,
}

impl Bounce {
    pub(super) fn new(length: usize, alignment: usize) -> Bounce {
        Bounce { bytes: Zeroizing::new(vec![0; length + alignment]), alignment }
    }

    /// So many bytes of it, after growing if it never had as many before. What was in it is
    /// there still if it did.
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
