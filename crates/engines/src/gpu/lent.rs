//! Page-locked memory for workers' buffers, and a list of what is lent at the moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use evener_core::{IgnorePoison, Memory, WipedBuffer};

use super::device::Pinned;
use super::sys::Lease;
use crate::foreign;

/// What an engine has lent and not got back.
pub(super) struct Lending {
    /// By its address.
    lent: Mutex<BTreeMap<usize, Lease>>,
    /// Memory for the driver to free; `None` while no thread has it do that.
    to_free: Mutex<Option<Vec<Pinned>>>,
    /// Bytes of the shortest stretch that goes straight.
    pub(super) least: usize,
}

/// The list as it is now. While a job borrows bytes of a buffer, the buffer can't be given back, so
/// what is found for them stays true.
pub(super) struct Now<'l>(MutexGuard<'l, BTreeMap<usize, Lease>>);

/// A buffer that is lent.
struct Lent {
    /// `None` once it is dropped.
    pinned: Option<Pinned>,
    lending: Arc<Lending>,
}

impl Lending {
    pub(super) fn new(least: usize) -> Arc<Lending> {
        Arc::new(Lending { lent: Mutex::default(), to_free: Mutex::default(), least })
    }

    /// Lends memory until the buffer is dropped.
    pub(super) fn lend(self: &Arc<Lending>, pinned: Pinned) -> WipedBuffer {
        self.now().0.insert(pinned.as_ptr().addr(), pinned.lease());
        WipedBuffer::lent(Box::new(Lent { pinned: Some(pinned), lending: Arc::clone(self) }))
    }

    /// Has the driver free memory, which may take it long or for ever: nobody waits for that. One thread
    /// does so for all that there is.
    fn free(self: &Arc<Lending>, pinned: Pinned) {
        let mut to_free = self.to_free.lock().ignore_poison();
        if let Some(waiting) = &mut *to_free {
            return waiting.push(pinned);
        }
        *to_free = Some(vec![pinned]);
        drop(to_free);
        let lending = Arc::clone(self);
        let free = move || {
            foreign::begin();
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

    /// Waits until all that was given back is freed.
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
        self.pinned.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.pinned.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(pinned) = self.pinned.take() else { return };
        // Before the memory is freed, and its addresses may become others'.
        self.lending.now().0.remove(&pinned.as_ptr().addr());
        self.lending.free(pinned);
    }
}
