//! The shared memory and system services that the gate's algorithm uses, as a trait, so that the
//! model checker can replace them.

use std::time::Duration;

use crate::identity::{Fate, Identity};

/// Shared words, futexes and a clock.
///
/// Every word access is sequentially consistent: the algorithm's proof and the model checker assume
/// interleavings. Processes ([`Mapping`](crate::sys::Mapping)) and the model run the very same
/// algorithm over this trait.
pub(crate) trait Memory {
    fn load(&self, at: usize) -> u64;
    fn store(&self, at: usize, value: u64);
    /// Stores a word that is only shown or compared with a clock; it needs no order with other
    /// words.
    fn note(&self, at: usize, value: u64);
    /// Replaces `old` by `new`; returns whether the word held `old`.
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool;
    /// Adds 1 to the word.
    fn increment(&self, at: usize);
    /// Sleeps until a [`wake`](Memory::wake) at the word, unless the low half of the word differs
    /// from that of `seen`. May return early. Returns whether the time limit was reached.
    fn sleep(&self, at: usize, seen: u64, limit: Duration) -> bool;
    /// Wakes one sleeper; returns whether there was one.
    fn wake(&self, at: usize) -> bool;
    fn fate(&self, who: Identity) -> Fate;
    /// Nanoseconds on a clock that all processes share.
    fn now(&self) -> u64;
}
