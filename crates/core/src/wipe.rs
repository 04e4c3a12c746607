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

/// Overwrites what calls before this one have left on the stack below its caller, so many bytes of it:
/// values that were moved or returned, such as keys. To reach all of it, the calls must have been made by
/// functions that are not inlined into the caller, whose own variables stay.
#[inline(never)]
pub fn wipe_stack<const BYTES: usize>() {
    let room = [0_u8; BYTES];
    optimization_barrier(&room);
}

/// Bytes that are [wiped](wipe) when dropped. Their number is fixed, so that no copy is left behind
/// when they grow.
pub struct WipedBuffer(Bytes);

enum Bytes {
    Own(Box<[u8]>),
    Lent(Box<dyn Memory>),
}

/// Memory that is not the allocator's, such as pages that a device's driver has pinned. It is freed
/// when it is dropped; the [`WipedBuffer`] that holds it has wiped it before.
pub trait Memory: Send + Sync {
    /// All bytes, always at the same place.
    fn bytes(&self) -> &[u8];

    /// All bytes, always at the same place.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl WipedBuffer {
    /// A buffer of so many zeros.
    ///
    /// # Panics
    /// When there is no memory for it, as [`Vec`].
    pub fn zeros(length: usize) -> WipedBuffer {
        WipedBuffer(Bytes::Own(vec![0; length].into_boxed_slice()))
    }

    /// A buffer of so many zeros, or `None` when there is no memory for it.
    pub fn try_zeros(length: usize) -> Option<WipedBuffer> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        Some(WipedBuffer(Bytes::Own(bytes.into_boxed_slice())))
    }

    /// A buffer in memory of another kind.
    pub fn lent(memory: Box<dyn Memory>) -> WipedBuffer {
        WipedBuffer(Bytes::Lent(memory))
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

impl Default for WipedBuffer {
    /// An empty buffer.
    fn default() -> WipedBuffer {
        WipedBuffer(Bytes::Own(Box::default()))
    }
}

impl Deref for WipedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(memory) => memory.bytes(),
        }
    }
}

impl DerefMut for WipedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(memory) => memory.bytes_mut(),
        }
    }
}

impl Zeroize for WipedBuffer {
    fn zeroize(&mut self) {
        wipe(self);
    }
}

impl Drop for WipedBuffer {
    fn drop(&mut self) {
        wipe(self);
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
    fn lent_memory_is_wiped_before_it_is_freed() {
        struct Watched(Vec<u8>, Arc<AtomicUsize>);
        impl Memory for Watched {
            fn bytes(&self) -> &[u8] {
                &self.0
            }

            fn bytes_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }
        impl Drop for Watched {
            fn drop(&mut self) {
                assert!(self.0.iter().all(|&byte| byte == 0), "it holds data as it is freed");
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        let freed = Arc::new(AtomicUsize::new(0));
        let mut buffer = WipedBuffer::lent(Box::new(Watched(vec![0; 4], Arc::clone(&freed))));
        buffer.copy_from_slice(b"text");
        buffer.ensure(4);
        assert_eq!((&*buffer, freed.load(Ordering::SeqCst)), (&b"text"[..], 0));
        buffer.ensure(5);
        assert_eq!((&*buffer, freed.load(Ordering::SeqCst)), (&[0; 5][..], 1));
    }

    #[test]
    fn a_buffer_that_no_memory_holds_is_none() {
        assert_eq!(*WipedBuffer::try_zeros(3).unwrap(), [0; 3]);
        assert!(WipedBuffer::try_zeros(usize::MAX).is_none());
    }
}
