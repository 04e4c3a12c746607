//! Overwriting what nobody shall read any more.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zeroize::{Zeroize, optimization_barrier};

/// Overwrites bytes with zeros, even where the compiler sees that nobody reads them again.
///
/// [`Zeroize`] writes them one by one, at one a cycle; this is as fast as memory. For keys and other
/// short secrets either will do.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    optimization_barrier(bytes);
}

/// Bytes that are [wiped](wipe) when dropped. Their number is fixed, so that no copy is left behind
/// when they grow.
#[derive(Default)]
pub struct WipedBuffer(Box<[u8]>);

impl WipedBuffer {
    /// A buffer of so many zeros.
    ///
    /// # Panics
    /// When there is no memory for it, as [`Vec`].
    pub fn zeros(length: usize) -> WipedBuffer {
        WipedBuffer(vec![0; length].into_boxed_slice())
    }

    /// A buffer of so many zeros, or `None` when there is no memory for it.
    pub fn try_zeros(length: usize) -> Option<WipedBuffer> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        Some(WipedBuffer(bytes.into_boxed_slice()))
    }

    /// Makes the buffer at least this long. What it held is wiped then, and not kept.
    ///
    /// # Panics
    /// As [`WipedBuffer::zeros`].
    pub fn ensure(&mut self, length: usize) {
        if self.len() < length {
            *self = WipedBuffer::default();
            *self = WipedBuffer::zeros(length);
        }
    }
}

impl Deref for WipedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for WipedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Zeroize for WipedBuffer {
    fn zeroize(&mut self) {
        wipe(&mut self.0);
    }
}

impl Drop for WipedBuffer {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for WipedBuffer {
    /// Prints the length, not the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WipedBuffer").field("length", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_wiped() {
        let mut bytes = [7; 100];
        wipe(&mut bytes[10..]);
        assert_eq!((&bytes[..10], &bytes[10..]), (&[7; 10][..], &[0; 90][..]));
        let mut buffer = WipedBuffer::zeros(5);
        buffer.fill(1);
        buffer.ensure(3);
        assert_eq!(*buffer, [1; 5]);
        buffer.ensure(6);
        assert_eq!(*buffer, [0; 6]);
        assert_eq!(format!("{buffer:?}"), "WipedBuffer { length: 6, .. }");
    }

    #[test]
    fn a_buffer_that_no_memory_holds_is_none() {
        assert_eq!(*WipedBuffer::try_zeros(3).unwrap(), [0; 3]);
        assert!(WipedBuffer::try_zeros(usize::MAX).is_none());
    }
}
