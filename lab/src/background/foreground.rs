//! The work of the foreground program: continuous work, and short periodic tasks.

use std::hint::black_box;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The figures of the foreground program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// Mean wall time of a unit of work on a thread, in microseconds.
    pub(super) unit_us: f64,
    /// Median time from a periodic task's due time to its end, in microseconds.
    pub(super) late_us_p50: f64,
    /// The 99th percentile of that time, in the same unit.
    pub(super) late_us_p99: f64,
}

/// Runs the continuous work on `threads` threads, each on `working_set` bytes, and the periodic
/// tasks on one more thread, for `time`. `begun` is called when the clocks start.
pub(super) fn work(
    threads: usize,
    working_set: usize,
    time: Duration,
    begun: impl FnOnce(),
) -> Pace {
    let ready = Barrier::new(threads + 2);
    thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|seed| {
                let ready = &ready;
                scope.spawn(move || units(seed as u64, working_set, time, ready))
            })
            .collect();
        let periodic = scope.spawn(|| lateness(time, &ready));
        ready.wait();
        begun();
        // If a thread panicked, there are no figures.
        let whole = |panic| resume_unwind(panic);
        let rate: f64 = working.into_iter().map(|thread| thread.join().unwrap_or_else(whole)).sum();
        let mut late = periodic.join().unwrap_or_else(|panic| resume_unwind(panic));
        late.sort_unstable();
        Pace {
            unit_us: threads as f64 / rate,
            late_us_p50: percentile(&late, 50),
            late_us_p99: percentile(&late, 99),
        }
    })
}

/// Does units until the time is over; returns units per microsecond.
fn units(seed: u64, working_set: usize, time: Duration, ready: &Barrier) -> f64 {
    let mut work = Work::new(seed, working_set);
    work.perform(STEPS * 50);
    ready.wait();
    let began = Instant::now();
    let mut units = 0.0;
    loop {
        work.perform(STEPS);
        units += 1.0;
        let elapsed = began.elapsed();
        if elapsed >= time {
            return units / (elapsed.as_secs_f64() * 1e6);
        }
    }
}

/// Does a short task every period; returns the time from each task's due time to its end. Periods
/// that pass while an earlier task waits for a core also count.
fn lateness(time: Duration, ready: &Barrier) -> Vec<Duration> {
    let mut work = Work::new(0, 4096);
    let mut late = Vec::with_capacity((time.as_micros() / PERIOD.as_micros()) as usize + 1);
    ready.wait();
    let began = Instant::now();
    let mut due = began + PERIOD;
    while due < began + time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        work.perform(STEPS / 20);
        late.push(due.elapsed());
        due += PERIOD;
    }
    late
}

/// Steps of a random number generator, each mixed with a random word of memory, to keep the core
/// busy and use the caches.
struct Work {
    memory: Vec<u64>,
    state: u64,
}

impl Work {
    fn new(seed: u64, bytes: usize) -> Work {
        let words = (bytes / size_of::<u64>()).max(1).next_power_of_two() as u64;
        Work { memory: (0..words).map(|word| word.wrapping_mul(ODD)).collect(), state: seed | 1 }
    }

    fn perform(&mut self, steps: usize) {
        let mask = self.memory.len() - 1;
        let mut state = self.state;
        for _ in 0..steps {
            // Marsaglia, Xorshift RNGs, 2003.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state = state.wrapping_add(self.memory[state as usize & mask]) | 1;
        }
        self.state = black_box(state);
    }
}

/// The value that `percent` of the sorted times do not exceed, in microseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).map_or(0.0, |late| late.as_secs_f64() * 1e6)
}

/// A unit of work: about 100 µs on a fast core.
const STEPS: usize = 20_000;

/// Period of the short tasks.
const PERIOD: Duration = Duration::from_millis(5);

/// 2⁶⁴ divided by the golden ratio; its multiples differ in all bits.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_lateness_are_counted() {
        let mut has_begun = false;
        let pace = work(2, 1024, Duration::from_millis(30), || has_begun = true);
        assert!(has_begun && pace.unit_us > 0.0 && pace.unit_us.is_finite());
        assert!(pace.late_us_p50 > 0.0 && pace.late_us_p50 <= pace.late_us_p99);
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let late: Vec<_> = (1..=200).map(Duration::from_micros).collect();
        let near = |percent, expected: f64| (percentile(&late, percent) - expected).abs() < 1e-6;
        assert!(near(50, 100.0) && near(99, 198.0));
        assert_eq!(percentile(&[], 99), 0.0);
    }

    #[test]
    fn the_work_uses_its_memory_and_goes_on() {
        let mut work = Work::new(1, 5000);
        assert_eq!(work.memory.len(), 1024);
        let states: Vec<u64> = (0..4)
            .map(|_| {
                work.perform(100);
                work.state
            })
            .collect();
        assert!(states.windows(2).all(|pair| pair[0] != pair[1]), "{states:?}");
    }
}
