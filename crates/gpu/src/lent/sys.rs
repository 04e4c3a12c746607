//! Page-locked memory.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use evener_core::wipe;

/// Page-locked memory of the host. It is wiped and freed once it was dropped and no [`Lease`] of it
/// is left.
pub(crate) struct Pinned(Arc<Pages>);

/// Keeps page-locked memory from being freed; gives no access to its bytes.
#[derive(Clone)]
pub(crate) struct Lease(Arc<Pages>);

struct Pages {
    start: NonNull<u8>,
    length: usize,
    /// Gives the memory back; keeps its source alive.
    release: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` does, and `release` is `Send`. Only the one `Pinned`
// gives access to them, under the usual rules of borrowing; a `Lease` gives none.
unsafe impl Send for Pages {}
// SAFETY: as above; `release` is called by `drop`, which has exclusive access.
unsafe impl Sync for Pages {}

impl Pinned {
    /// Takes over memory from a backend.
    ///
    /// # Safety
    /// `start` must point to `length` initialised bytes that no other code uses until `release` is
    /// called.
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        length: usize,
        release: Box<dyn FnOnce() + Send>,
    ) -> Pinned {
        Pinned(Arc::new(Pages { start, length, release: Some(release) }))
    }

    pub(crate) fn lease(&self) -> Lease {
        Lease(Arc::clone(&self.0))
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new` was promised this many initialised bytes, until `Pages` releases them.
        unsafe { slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; nothing else gives access to them, and `self` is borrowed
        // exclusively.
        unsafe { slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.length) }
    }
}

impl Lease {
    /// Returns whether all these bytes are in the memory.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let start = self.0.start.addr().get();
        let from = bytes.as_ptr().addr().checked_sub(start);
        let end = from.and_then(|from| from.checked_add(bytes.len()));
        end.is_some_and(|end| end <= self.0.length)
    }

    /// Returns whether both are of the same memory.
    pub(crate) fn is(&self, other: &Lease) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: as in `Pinned::deref`; no `Pinned` is left that could give access to them.
        wipe(unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) });
        if let Some(release) = self.release.take() {
            release();
        }
    }
}
