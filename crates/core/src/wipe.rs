//! Overwrites memory that nobody may read any more.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use zeroize::{Zeroize, optimization_barrier};

/// Overwrites bytes with zeros, even if the compiler sees that nobody reads them again.
///
/// [`Zeroize`] writes bytes one by one, at one a cycle; this runs at memory speed. Either will do
/// for keys and other short secrets.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    optimization_barrier(bytes);
}

/// Overwrites `BYTES` bytes of the stack below the caller, where earlier calls may have left values
/// that were moved or returned, such as keys. It reaches all of them only if functions that are not
/// inlined into the caller made those calls, as the caller's own variables stay.
#[inline(never)]
pub fn wipe_stack<const BYTES: usize>() {
    let room = [0_u8; BYTES];
    optimization_barrier(&room);
}

/// Bytes that are [wiped](wipe) when dropped. Their number is fixed, so growth leaves no copy
/// behind.
///
/// A buffer of a page or more begins at a fixed place in a page. AMD's Zen copies (`REP MOVSB`)
/// less than half as fast to a destination that is up to 31 bytes further into its page than the
/// source is into its own. A file begins with a page in the system's memory, or with a header
/// before the copied bytes.
pub struct WipedBuffer(Bytes);

enum Bytes {
    Own(Own),
    Lent(Box<dyn Memory>),
}

/// A used range of an allocation; the rest is never used.
#[derive(Default)]
struct Own {
    allocated: Box<[u8]>,
    used: Range<usize>,
}

impl Own {
    /// The number of zeros to allocate for a buffer.
    fn allocation(length: usize) -> usize {
        if length < PAGE { length } else { length.saturating_add(PAGE - 1) }
    }

    /// A buffer in an allocation made for it.
    fn of(allocated: Vec<u8>, length: usize) -> WipedBuffer {
        let allocated = allocated.into_boxed_slice();
        let address = allocated.as_ptr().addr();
        let start = if length < PAGE { 0 } else { PLACE.wrapping_sub(address) % PAGE };
        WipedBuffer(Bytes::Own(Own { allocated, used: start..start + length }))
    }
}

/// The length of a memory page, or of a part of one on systems with longer pages.
const PAGE: usize = 4096;

/// The offset in a page at which a long buffer begins: a cache line's start, further into the page
/// than the longest header of any format plus 31 bytes.
const PLACE: usize = 128;

/// Memory that the allocator does not own, such as pages that a device's driver has pinned.
/// Dropping it frees it; the [`WipedBuffer`] that holds it wipes it first.
pub trait Memory: Send + Sync {
    /// All bytes, always at the same place.
    fn bytes(&self) -> &[u8];

    /// All bytes, always at the same place.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl WipedBuffer {
    /// A buffer of this many zeros.
    ///
    /// # Panics
    /// When there is no memory for it, like [`Vec`].
    pub fn zeros(length: usize) -> WipedBuffer {
        Own::of(vec![0; Own::allocation(length)], length)
    }

    /// A buffer of this many zeros, or `None` when there is no memory for it.
    pub fn try_zeros(length: usize) -> Option<WipedBuffer> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(Own::allocation(length)).ok()?;
        bytes.resize(Own::allocation(length), 0);
        Some(Own::of(bytes, length))
    }

    /// A buffer in memory of another kind.
    pub fn lent(memory: Box<dyn Memory>) -> WipedBuffer {
        WipedBuffer(Bytes::Lent(memory))
    }

    /// Makes the buffer at least this long. If it grows, its content is wiped and lost.
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
        WipedBuffer(Bytes::Own(Own::default()))
    }
}

impl Deref for WipedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(own) => &own.allocated[own.used.clone()],
            Bytes::Lent(memory) => memory.bytes(),
        }
    }
}

impl DerefMut for WipedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Own(own) => &mut own.allocated[own.used.clone()],
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
    fn a_long_buffer_begins_at_its_place_in_a_page() {
        for length in [0, 1, PAGE - 1, PAGE, PAGE + 1, 100_000] {
            let mut buffer = WipedBuffer::zeros(length);
            assert!(buffer.len() == length && buffer.iter().all(|&byte| byte == 0));
            assert!(length < PAGE || buffer.as_ptr().addr() % PAGE == PLACE);
            buffer.fill(1);
        }
    }

    #[test]
    fn a_buffer_that_no_memory_holds_is_none() {
        assert_eq!(*WipedBuffer::try_zeros(3).unwrap(), [0; 3]);
        assert!(WipedBuffer::try_zeros(usize::MAX).is_none());
    }
}
