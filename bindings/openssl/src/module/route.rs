//! The choice of an engine for a piece of text.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of bytes that a context has processed since its key was set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Volume(u64);

impl Volume {
    pub(super) fn add(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes as u64);
    }

    /// Returns whether this is enough for a session of the module. Most connections end sooner.
    pub(super) fn is_promoted(self) -> bool {
        self.0 >= PROMOTED
    }

    /// The number of bytes at the beginning of a piece that go to the module: all whole blocks, or
    /// none.
    pub(super) fn share_of_module(self, piece: usize, crossover: usize) -> usize {
        if self.is_promoted() && piece >= crossover { piece / BLOCK * BLOCK } else { 0 }
    }
}

/// The time that a piece of some size takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// The size in bytes.
    pub(super) bytes: usize,
    pub(super) module: Duration,
    pub(super) cpu: Duration,
}

/// The smallest size from which on the module is never slower than the CPU. The sizes ascend.
pub(super) fn crossover(costs: &[Cost]) -> usize {
    let faster = costs.iter().rev().take_while(|cost| cost.module <= cost.cpu);
    faster.last().map_or(NEVER, |cost| cost.bytes)
}

/// The time that records have waited for a module that is correct but too slow: the sum of what
/// each piece took beyond [`Delay::USUAL`], in microseconds. Faster pieces reduce it.
#[derive(Debug, Default)]
pub(super) struct Delay(AtomicU64);

impl Delay {
    /// The slowest boards' modules take some milliseconds for a piece of 64 KiB.
    pub(super) const USUAL: Duration = Duration::from_millis(20);

    /// The delay after which the module is given up: as long as a module that hangs may take.
    pub(super) const MOST: Duration = Duration::from_secs(3);

    /// Adds a piece that took this long. Returns whether the module is too slow.
    pub(super) fn add(&self, took: Duration) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (took, usual, most) = (micros(took), micros(Self::USUAL), micros(Self::MOST));
        let sum = |before: u64| before.saturating_add(took).saturating_sub(usual).min(most);
        let before = self.0.load(Ordering::Relaxed);
        if before == 0 && took <= usual {
            return false;
        }
        let update = |before| Some(sum(before));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        sum(before.unwrap_or(0)) == most
    }
}

/// The crossover of a module that gets no text.
pub(super) const NEVER: usize = usize::MAX;

/// The number of bytes after which a context's pieces may go to the module.
const PROMOTED: u64 = 256 << 10;

/// The length of an AES block, in bytes.
pub(super) const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_gets_long_pieces_of_contexts_with_much_text() {
        let mut volume = Volume::default();
        volume.add(PROMOTED as usize - 1);
        assert_eq!(volume.share_of_module(16_384, 1_024), 0);
        volume.add(1);
        assert_eq!(volume.share_of_module(16_384, 1_024), 16_384);
        assert_eq!(volume.share_of_module(16_399, 1_024), 16_384);
        assert_eq!(volume.share_of_module(1_024, 1_024), 1_024);
        assert_eq!(volume.share_of_module(1_023, 1_024), 0);
        assert_eq!(volume.share_of_module(1 << 40, NEVER), 0);
        volume.add(usize::MAX);
        volume.add(usize::MAX);
        assert_eq!(volume.share_of_module(5, 1), 0);
    }

    #[test]
    fn a_module_that_is_slow_for_good_is_given_up() {
        let delay = Delay::default();
        let millis = Duration::from_millis;
        assert!((0..10_000).all(|_| !delay.add(millis(20))));
        // A machine that is busy now and then.
        assert!((0..10_000).all(|piece| !delay.add(millis(if piece % 100 == 0 {
            900
        } else {
            1
        }))));
        // Of 500 ms, 480 count as delay.
        let slow = (1..).find(|_| delay.add(millis(500)));
        assert_eq!(slow, Some(7));
        assert!(delay.add(Duration::MAX));
    }

    #[test]
    fn the_crossover_is_where_the_module_is_faster_for_good() {
        let costs = |figures: &[(usize, u64, u64)]| {
            let cost = |&(bytes, module, cpu)| Cost {
                bytes,
                module: Duration::from_micros(module),
                cpu: Duration::from_micros(cpu),
            };
            crossover(&figures.iter().map(cost).collect::<Vec<_>>())
        };
        assert_eq!(costs(&[]), NEVER);
        assert_eq!(costs(&[(512, 200, 70), (1_024, 210, 140), (4_096, 220, 560)]), 4_096);
        // An outlier below does not count.
        assert_eq!(costs(&[(512, 1, 70), (1_024, 210, 140), (4_096, 560, 560)]), 4_096);
        assert_eq!(costs(&[(512, 1, 70), (4_096, 1, 560)]), 512);
        assert_eq!(costs(&[(512, 1, 70), (4_096, 561, 560)]), NEVER);
    }
}
