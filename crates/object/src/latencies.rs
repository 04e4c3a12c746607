//! The latest response times of a server.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use evener_core::IgnorePoison;

/// The response times of the latest requests.
#[derive(Default)]
pub(crate) struct Latencies(Mutex<VecDeque<Duration>>);

impl Latencies {
    pub(crate) fn add(&self, latency: Duration) {
        let mut latest = self.0.lock().ignore_poison();
        latest.truncate(KEPT - 1);
        latest.push_front(latency);
    }

    /// The 95th percentile; `None` as long as there are too few times.
    pub(crate) fn slow(&self) -> Option<Duration> {
        let mut all: Vec<_> = self.0.lock().ignore_poison().iter().copied().collect();
        let at = all.len() * 95 / 100;
        (all.len() >= ENOUGH).then(|| *all.select_nth_unstable(at).1)
    }
}

const KEPT: usize = 100;
const ENOUGH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decide() {
        let (latencies, seconds) = (Latencies::default(), Duration::from_secs);
        (0..19).for_each(|_| latencies.add(seconds(1000)));
        assert_eq!(latencies.slow(), None);
        (0..100).for_each(|number| latencies.add(seconds(number)));
        assert_eq!(latencies.slow(), Some(seconds(95)));
    }
}
