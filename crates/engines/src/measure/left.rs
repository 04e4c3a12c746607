//! What cores have left for threads that let all others go first.
//!
//! A driver's own threads and its interrupts take CPU time that is in no worker's clock. It is
//! seen in how much less gets done otherwise.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// How much a thread for each core gets done in a microsecond, together and in a unit of its own,
/// from the barrier on until `is_over` says so of the time that has passed.
pub(super) fn of_cores(
    cores: usize,
    start: &Barrier,
    is_over: impl Fn(Duration) -> bool + Sync,
) -> f64 {
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..cores).map(|_| scope.spawn(|| of_core(start, &is_over))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

fn of_core(start: &Barrier, is_over: impl Fn(Duration) -> bool) -> f64 {
    // Everybody may do so.
    let _ = rustix::process::setpriority_process(None, LOWEST);
    start.wait();
    let begun = Instant::now();
    for done in 1_u64.. {
        (0..STEPS).fold(done, |state, _| black_box(state.wrapping_mul(6_364_136_223_846_793_005)));
        let elapsed = begun.elapsed();
        if is_over(elapsed) {
            return done as f64 / (elapsed.as_secs_f64() * 1e6);
        }
    }
    0.0
}

/// Multiplications between two looks at the clock: some microseconds.
const STEPS: u32 = 2000;

/// The nice value of a thread that lets all others go first.
const LOWEST: i32 = 19;
