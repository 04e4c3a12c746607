//! The modelled device and its queue.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;

/// A device that works on several jobs at once and starts them in order of arrival.
pub(super) struct Device {
    /// For each slot, the time when it becomes free.
    free_at: Mutex<Vec<Instant>>,
}

impl Device {
    /// A device with `depth` slots, at least one.
    pub(super) fn new(depth: usize) -> Device {
        Device { free_at: Mutex::new(vec![Instant::now(); depth.clamp(1, MOST_PLACES)]) }
    }

    /// Submits a job at `now`. `time` gives the device's time for the job from the share of other
    /// slots in use (0 on an idle device, 1 if the job takes the last slot). Returns the time when
    /// the job will be done.
    pub(super) fn submit(&self, now: Instant, time: impl FnOnce(f64) -> Duration) -> Instant {
        let mut places = self.free_at.lock().ignore_poison();
        let earliest = places.iter().copied().min().unwrap_or(now);
        let begin = earliest.max(now);
        let taken = places.iter().filter(|&&free_at| free_at > begin).count();
        let others = places.len().saturating_sub(1).max(1);
        let done = begin + time(taken as f64 / others as f64);
        if let Some(place) = places.iter_mut().find(|place| **place == earliest) {
            *place = done;
        }
        done
    }
}

/// The most slots of a device; a profile may contain any number.
const MOST_PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jobs_queue_for_a_device_with_one_place() {
        let (device, now) = (Device::new(1), Instant::now());
        assert_eq!(device.submit(now, |_| MS), now + MS);
        assert_eq!(device.submit(now, |_| MS), now + 2 * MS);
        assert_eq!(device.submit(now + 5 * MS, |_| MS), now + 6 * MS);
    }

    #[test]
    fn two_places_share_a_device() {
        let (device, now) = (Device::new(2), Instant::now());
        let time = |taken: f64| MS.mul_f64(1.0 + taken);
        assert_eq!(device.submit(now, time), now + MS);
        assert_eq!(device.submit(now, time), now + 2 * MS);
        // The first slot is free after 1 ms, while the other is still in use.
        assert_eq!(device.submit(now, time), now + 3 * MS);
    }
}
