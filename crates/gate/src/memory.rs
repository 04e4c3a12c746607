//! What the gate's algorithm needs of the world, so that the model checker can be the world.

use std::time::Duration;

use crate::identity::{Fate, Identity};

/// Shared words and the few system services that the algorithm uses.
///
/// Every word access is sequentially consistent: the algorithm's proof, and the model checker,
/// think in interleavings. Processes ([`Mapping`](crate::sys::Mapping)) and the model run the
/// very same algorithm over this trait.
pub(crate) trait Memory {
    fn load(&self, at: usize) -> u64;
    fn store(&self, at: usize, value: u64);
    /// Stores a word that is for people and clocks: no order with other words is needed.
    fn note(&self, at: usize, value: u64);
    /// Whether the word held `old` and now holds `new`.
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool;
    /// Adds 1 to the word.
    fn increment(&self, at: usize);
    /// Sleeps until a [`wake`](Memory::wake) at the word, unless the low half of the word is
    /// no longer `seen`'s. May return early. Returns whether the time was up.
    fn sleep(&self, at: usize, seen: u64, limit: Duration) -> bool;
    /// Wakes one sleeper; returns whether there was one.
    fn wake(&self, at: usize) -> bool;
    fn fate(&self, who: Identity) -> Fate;
    /// Nanoseconds on a clock that all processes share.
    fn now(&self) -> u64;
}
