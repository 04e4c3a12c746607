//! What cores have left for threads that let all others go first.
//!
//! A driver's own threads and its interrupts take CPU time that is in no worker's clock. It is
//! seen in how much less gets done otherwise.

use std::hint::black_box;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::start::Start;

/// How much a thread for each core gets done in a microsecond, together and in a unit of its own,
/// from the start on until `is_over` says so of the time that has passed.
///
/// # Errors
/// When a thread can't be had; the start is called off.
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
    // Everybody may do so.
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

/// Multiplications between two looks at the clock: some microseconds.
const STEPS: u32 = 2000;

/// The nice value of a thread that lets all others go first.
const LOWEST: i32 = 19;
