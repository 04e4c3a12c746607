//! Page-locked memory for workers' buffers, and a list of what is lent at the moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evener_core::{Memory, WipedBuffer};

use super::device::Pinned;
use super::sys::Lease;

/// What an engine has lent and not got back.
pub(super) struct Lending {
    /// By its address.
    lent: Mutex<BTreeMap<usize, Lease>>,
    /// Bytes of the shortest stretch that goes straight.
    pub(super) least: usize,
}

/// The list as it is now. While a job borrows bytes of a buffer, the buffer can't be given back, so
/// what is found for them stays true.
pub(super) struct Now<'l>(MutexGuard<'l, BTreeMap<usize, Lease>>);

/// A buffer that is lent.
struct Lent {
    pinned: Pinned,
    lending: Arc<Lending>,
}

impl Lending {
    pub(super) fn new(least: usize) -> Arc<Lending> {
        Arc::new(Lending { lent: Mutex::default(), least })
    }

    /// Lends memory until the buffer is dropped.
    pub(super) fn lend(self: &Arc<Lending>, pinned: Pinned) -> WipedBuffer {
        self.now().0.insert(pinned.as_ptr().addr(), pinned.lease());
        WipedBuffer::lent(Box::new(Lent { pinned, lending: Arc::clone(self) }))
    }

    pub(super) fn now(&self) -> Now<'_> {
        Now(self.lent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Now<'_> {
    /// The lent memory in which all these bytes lie. None are in none.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<&Lease> {
        let (_, lease) = self.0.range(..=bytes.as_ptr().addr()).next_back()?;
        Some(lease).filter(|lease| !bytes.is_empty() && lease.holds(bytes))
    }

    #[cfg(test)]
    pub(super) fn addresses(&self) -> impl Iterator<Item = usize> {
        self.0.keys().copied()
    }
}

impl Memory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.pinned
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.pinned
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Before the memory is freed, and its addresses may become others'.
        self.lending.now().0.remove(&self.pinned.as_ptr().addr());
    }
}
