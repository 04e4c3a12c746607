//! The progress of an operation, its speed, and the time that it will take.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evener::{Control, Total};
use evener_core::IgnorePoison;

/// Reads an operation's counts at intervals.
pub(super) struct Gauge {
    control: Arc<Control>,
    begun: Instant,
    is_dry_run: bool,
    total: Mutex<Option<Total>>,
    samples: Mutex<VecDeque<Sample>>,
}

/// The counts at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    time: Duration,
    /// Bytes of files done, and of those that were complete already.
    done: u64,
    /// Bytes that engines have processed.
    processed: u64,
}

/// The values that the gauge shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) elapsed: Duration,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The total, once it is known.
    pub(super) total: Option<Total>,
    /// Bytes a second that engines process.
    pub(super) rate: f64,
    /// The time left at the present pace, if the total is known.
    pub(super) left: Option<Duration>,
    /// The bytes that each engine has processed, the busiest first.
    pub(super) engines: Vec<(String, u64)>,
    pub(super) is_stopped: bool,
    /// True if only files are counted, because nothing is read.
    pub(super) is_dry_run: bool,
}

impl Gauge {
    /// `length` is that of all sources, if they are files.
    pub(super) fn new(control: Arc<Control>, length: Option<Total>, is_dry_run: bool) -> Gauge {
        let samples = Mutex::new(VecDeque::from([Sample::default()]));
        Gauge { control, begun: Instant::now(), is_dry_run, total: Mutex::new(length), samples }
    }

    pub(super) fn set_total(&self, total: Option<Total>) {
        *self.total.lock().ignore_poison() = total;
    }

    pub(super) fn read(&self) -> Reading {
        let elapsed = self.begun.elapsed();
        let progress = self.control.progress();
        let mut engines: Vec<_> = self.control.processed().into_iter().collect();
        engines.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let processed = engines.iter().map(|(_, bytes)| bytes).sum();
        let now = Sample { time: elapsed, done: progress.done_bytes, processed };
        let before = self.take(now);
        // Changed files are counted twice, and more may be found than the total had.
        let told = self.control.total().map(|(files, bytes)| Total { files, bytes });
        let total = self.total.lock().ignore_poison().or(told).map(|total| Total {
            files: total.files.max(progress.done_files),
            bytes: total.bytes.max(now.done),
        });
        let pace = |now: u64, before: u64, time: Duration| {
            now.saturating_sub(before) as f64 / time.as_secs_f64().max(1e-9)
        };
        let time = now.time.saturating_sub(before.time);
        let goes = pace(now.done, before.done, time);
        let left = total.filter(|_| goes > 0.0 && !self.is_dry_run).map(|total| {
            Duration::from_secs_f64(((total.bytes - now.done) as f64 / goes).min(LONGEST))
        });
        Reading {
            elapsed,
            files: progress.done_files,
            bytes: now.done,
            total,
            rate: pace(now.processed, before.processed, time),
            left,
            engines,
            is_stopped: self.control.is_stopped(),
            is_dry_run: self.is_dry_run,
        }
    }

    /// Keeps a sample and returns the one to compare it with.
    fn take(&self, now: Sample) -> Sample {
        let mut samples = self.samples.lock().ignore_poison();
        while samples.len() > 1 && now.time.saturating_sub(samples[1].time) >= PACE_OF {
            samples.pop_front();
        }
        let before = samples.front().copied().unwrap_or_default();
        samples.push_back(now);
        before
    }
}

impl Reading {
    /// The share of the whole that is done, from 0 to 1, if the whole is known.
    pub(super) fn share(&self) -> Option<f64> {
        let total = self.total?;
        let (done, all) = match self.is_dry_run {
            true => (self.files, total.files),
            false => (self.bytes, total.bytes),
        };
        (all > 0).then(|| done as f64 / all as f64)
    }
}

/// The pace covers the last seconds, so that it shows when a pipe stalls or a device slows down.
const PACE_OF: Duration = Duration::from_secs(5);

/// The longest time, in seconds; a hundred years need no more digits.
const LONGEST: f64 = 3.2e9;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, done: u64) -> Sample {
        Sample { time: Duration::from_secs(seconds), done, processed: done }
    }

    #[test]
    fn the_pace_is_that_of_the_last_seconds() {
        let gauge = Gauge::new(Arc::default(), None, false);
        let compared: Vec<_> =
            (1..10).map(|second| gauge.take(sample(second, 10 * second)).done).collect();
        assert_eq!(compared, [0, 0, 0, 0, 0, 10, 20, 30, 40]);
        assert!(gauge.samples.lock().ignore_poison().len() < 9);
    }

    #[test]
    fn nothing_is_left_to_guess_where_the_length_is_unknown() {
        let gauge = Gauge::new(Arc::default(), None, false);
        let reading = gauge.read();
        assert_eq!((reading.total, reading.left, reading.share()), (None, None, None));
        gauge.set_total(Some(Total { files: 4, bytes: 100 }));
        assert_eq!(gauge.read().share(), Some(0.0));
        assert_eq!(gauge.read().left, None, "nothing moves");
    }

    #[test]
    fn a_dry_run_counts_files() {
        let gauge = Gauge::new(Arc::default(), None, true);
        gauge.set_total(Some(Total { files: 4, bytes: 100 }));
        let reading = Reading { files: 1, ..gauge.read() };
        assert_eq!(reading.share(), Some(0.25));
    }
}
