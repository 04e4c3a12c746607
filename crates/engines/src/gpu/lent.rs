//! Page-locked memory for workers' buffers, and a list of what is lent at the moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use evener_core::{IgnorePoison, Memory, WipedBuffer};

use super::device::Pinned;
use super::sys::Lease;
use crate::foreign;
use crate::patience::receive;

/// What an engine has lent and not got back.
pub(super) struct Lending {
    /// By its address.
    lent: Mutex<BTreeMap<usize, Lease>>,
    /// Whether the driver took too long to free a buffer.
    is_stuck: AtomicBool,
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
        Arc::new(Lending { lent: Mutex::default(), is_stuck: AtomicBool::new(false), least })
    }

    /// Lends memory until the buffer is dropped.
    pub(super) fn lend(self: &Arc<Lending>, pinned: Pinned) -> WipedBuffer {
        self.now().0.insert(pinned.as_ptr().addr(), pinned.lease());
        WipedBuffer::lent(Box::new(Lent { pinned: Some(pinned), lending: Arc::clone(self) }))
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
        // The driver frees it, and a worker must not wait for a driver that hangs.
        let (freed, is_freed) = sync_channel::<()>(0);
        let free = move || {
            foreign::begin();
            drop(pinned);
            drop(freed);
        };
        let name = "evener-module".to_owned();
        if thread::Builder::new().name(name).spawn(free).is_err()
            || self.lending.is_stuck.load(Ordering::Relaxed)
        {
            return;
        }
        if receive(&is_freed, LONGEST) == Err(RecvTimeoutError::Timeout) {
            self.lending.is_stuck.store(true, Ordering::Relaxed);
        }
    }
}

/// How long a driver may take to free a buffer.
const LONGEST: Duration = Duration::from_secs(2);
