//! Copies by the processor, the cost of an engine that stages its data.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::report::Memory;

/// Measures copies on one thread, and on all cores at once.
pub(super) fn measure(bytes: usize, time: Duration) -> Memory {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    Memory {
        one_thread_gb_per_second: copy(1, bytes, time),
        threads,
        all_threads_gb_per_second: copy(threads, bytes, time),
    }
}

/// The total rate of `threads` threads, each with its own buffers.
fn copy(threads: usize, bytes: usize, time: Duration) -> f64 {
    let ready = Barrier::new(threads);
    let rates: Vec<f64> = thread::scope(|scope| {
        let copier = || {
            let (from, mut to) = (vec![7_u8; bytes], vec![1_u8; bytes]);
            ready.wait();
            let (begun, mut copied) = (Instant::now(), 0.0);
            while copied == 0.0 || begun.elapsed() < time {
                to.copy_from_slice(std::hint::black_box(&from));
                std::hint::black_box(&mut to);
                copied += bytes as f64;
            }
            copied / begun.elapsed().as_secs_f64() / 1e9
        };
        let copiers: Vec<_> = (0..threads).map(|_| scope.spawn(copier)).collect();
        copiers.into_iter().map(|copier| copier.join().unwrap_or(0.0)).collect()
    });
    rates.iter().sum()
}
