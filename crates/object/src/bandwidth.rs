//! A limit on the transfer rate.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evener_core::IgnorePoison;
use tokio::time::Instant;

/// A limit on the bytes a second, for uploads and downloads together. Copies share it.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    rate: NonZeroU64,
    /// The time at which all earlier bytes have moved.
    free: Arc<Mutex<Option<Instant>>>,
}

impl Bandwidth {
    /// At most `rate` bytes a second.
    pub fn new(rate: NonZeroU64) -> Bandwidth {
        Bandwidth { rate, free: Arc::default() }
    }

    /// Reserves room for `bytes` bytes, and returns the time at which they may move.
    pub(crate) fn reserve(&self, bytes: usize) -> Instant {
        let mut free = self.free.lock().ignore_poison();
        let now = Instant::now();
        let begin = free.map_or(now, |free| free.max(now));
        *free = Some(begin + Duration::from_secs_f64(bytes as f64 / self.rate.get() as f64));
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_move_one_after_another() {
        let bandwidth = Bandwidth::new(NonZeroU64::new(1000).unwrap());
        let first = bandwidth.reserve(10_000);
        let second = bandwidth.clone().reserve(1);
        assert_eq!(second - first, Duration::from_secs(10));
    }
}
