//! Memory that a device and this process share.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use evener_core::wipe;

/// Page-locked memory of the host. It is wiped when it is dropped.
pub(crate) struct Pinned {
    start: NonNull<u8>,
    length: usize,
    /// Gives the memory back; keeps alive what it came from.
    release: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` does, and what releases them is `Send`.
unsafe impl Send for Pinned {}
// SAFETY: shared references give only `&[u8]`.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Takes over memory from a backend.
    ///
    /// # Safety
    /// `start` must point to `length` initialised bytes that nobody else uses until `release` is
    /// called.
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        length: usize,
        release: Box<dyn FnOnce() + Send>,
    ) -> Pinned {
        Pinned { start, length, release: Some(release) }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new` was promised so many initialised bytes, until `drop` releases them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; nobody else uses them, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        wipe(self);
        if let Some(release) = self.release.take() {
            release();
        }
    }
}
