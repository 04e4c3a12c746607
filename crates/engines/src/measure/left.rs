//! Measures the CPU time that cores have left for threads of the lowest priority.
//!
//! A driver's own threads and its interrupts take CPU time that no worker's clock shows. It is
//! measured by the work that other threads then no longer get done.

use std::hint::black_box;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::start::Start;

/// The work of one thread for each core in a microsecond, summed, in a unit of its own, from the
/// start until `is_over` returns true for the time that has passed.
///
/// # Errors
/// When a thread can't be started. Then the start is called off.
pub(super) fn of_cores(
    cores: usize,
    start: &Start,
    is_over: impl Fn(Duration) -> bool + Sync,
) -> io::Result<f64> {
    thread::scope(|scope| {
        let threads = (0..cores).map(|_| {
            let thread = thread::Builder::new();
            thread.spawn_scoped(scope, || of_core(start, &is_over))
        });
        let threads: io::Result<Vec<_>> = threads.collect();
        let threads = threads.inspect_err(|_| start.call_off())?;
        Ok(threads.into_iter().filter_map(|thread| thread.join().ok()).sum())
    })
}

fn of_core(start: &Start, is_over: impl Fn(Duration) -> bool) -> f64 {
    // This needs no privilege.
    let _ = rustix::process::setpriority_process(None, LOWEST);
    if !start.place().wait() {
        return 0.0;
    }
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

/// Multiplications between two readings of the clock: some microseconds.
const STEPS: u32 = 2000;

/// The nice value of the lowest priority.
const LOWEST: i32 = 19;
