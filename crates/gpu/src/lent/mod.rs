//! Page-locked memory for workers' buffers, and a list of the memory that is lent.

mod sys;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use evener_core::{IgnorePoison, Memory, WipedBuffer};

pub(crate) use sys::{Lease, Pinned};

/// The memory that an engine has lent and not got back.
pub(super) struct Lending {
    /// Leases by address.
    lent: Mutex<BTreeMap<usize, Lease>>,
    /// Memory for the driver to free; `None` while no thread frees memory.
    to_free: Mutex<Option<Vec<Pinned>>>,
    /// Bytes of the shortest stretch that goes straight.
    pub(super) least: usize,
    /// Called first on the thread that frees memory.
    begin_thread: fn(),
}

/// The list at this moment. While a job borrows bytes of a buffer, the buffer can't be given back,
/// so a lease found for them stays valid.
pub(super) struct Now<'l>(MutexGuard<'l, BTreeMap<usize, Lease>>);

/// A lent buffer.
struct Lent {
    /// `None` once it is dropped.
    pinned: Option<Pinned>,
    lending: Arc<Lending>,
}

impl Lending {
    pub(super) fn new(least: usize, begin_thread: fn()) -> Arc<Lending> {
        let (lent, to_free) = (Mutex::default(), Mutex::default());
        Arc::new(Lending { lent, to_free, least, begin_thread })
    }

    /// Lends memory until the buffer is dropped.
    pub(super) fn lend(self: &Arc<Lending>, pinned: Pinned) -> WipedBuffer {
        self.now().0.insert(pinned.as_ptr().addr(), pinned.lease());
        WipedBuffer::lent(Box::new(Lent { pinned: Some(pinned), lending: Arc::clone(self) }))
    }

    /// Has the driver free memory, which may take long or for ever, so no caller waits. One thread
    /// frees all memory.
    fn free(self: &Arc<Lending>, pinned: Pinned) {
        let mut to_free = self.to_free.lock().ignore_poison();
        if let Some(waiting) = &mut *to_free {
            return waiting.push(pinned);
        }
        *to_free = Some(vec![pinned]);
        drop(to_free);
        let lending = Arc::clone(self);
        let free = move || {
            (lending.begin_thread)();
            while let Some(pinned) = lending.next_to_free() {
                drop(pinned);
            }
        };
        if thread::Builder::new().name("evener-module".to_owned()).spawn(free).is_err() {
            let unfreed = self.to_free.lock().ignore_poison().take();
            drop(unfreed);
        }
    }

    /// The next memory to free, or `None` and the end of the thread.
    fn next_to_free(&self) -> Option<Pinned> {
        let mut to_free = self.to_free.lock().ignore_poison();
        let next = to_free.as_mut()?.pop();
        if next.is_none() {
            *to_free = None;
        }
        next
    }

    /// Waits until all returned memory is freed.
    #[cfg(test)]
    pub(super) fn settle(&self) {
        while self.to_free.lock().unwrap().is_some() {
            thread::yield_now();
        }
    }

    pub(super) fn now(&self) -> Now<'_> {
        Now(self.lent.lock().ignore_poison())
    }
}

impl Now<'_> {
    /// The lent memory that contains all these bytes; `None` for an empty slice.
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
        self.pinned.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.pinned.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(pinned) = self.pinned.take() else { return };
        // Before the memory is freed, and its addresses may be reused.
        self.lending.now().0.remove(&pinned.as_ptr().addr());
        self.lending.free(pinned);
    }
}
