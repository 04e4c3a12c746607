//! Copies the message with many threads, as the lower bound.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Copies with this many threads, each a contiguous share. Returns the time from the first thread's
/// start of copying to the last one's end, without thread creation, and the number of bytes copied.
pub(super) fn copy(input: &[u8], output: &mut [u8], threads: u16) -> (Duration, usize) {
    let share = input.len().div_ceil(usize::from(threads)).next_multiple_of(PAGE);
    let shares: Vec<_> = input.chunks(share).zip(output.chunks_mut(share)).collect();
    let barrier = Barrier::new(shares.len());
    let spans = thread::scope(|scope| {
        let copy = |(input, output): (&[u8], &mut [u8])| {
            barrier.wait();
            let start = Instant::now();
            output.copy_from_slice(input);
            (start, Instant::now(), output.len())
        };
        let threads: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || copy(share))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    let first = spans.iter().map(|span| span.0).min();
    let last = spans.iter().map(|span| span.1).max();
    let time = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    (time, spans.iter().map(|span| span.2).sum())
}

const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_copied_by_any_number_of_threads() {
        let input: Vec<u8> = (0..100_000).map(|byte| (byte % 249) as u8).collect();
        for threads in [1, 2, 7, 64] {
            let mut output = vec![0; input.len()];
            assert_eq!(copy(&input, &mut output, threads).1, input.len());
            assert!(output == input);
        }
    }
}
