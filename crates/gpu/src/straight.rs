//! The messages of a batch that are copied straight between lent memory and the device.
//!
//! A copy is a call of the driver, which takes some microseconds however little it copies. So
//! messages go straight only in contiguous stretches of at least [`LEAST`] bytes; the rest are
//! packed in the arena.

use evener_core::{Cipher, Direction, Job, Outcome, Padding};

use super::kernels::BLOCK;
use super::lent::{Lease, Lending, Now};

/// For each job of a batch, the lent memory of its input and of its output, if they go straight.
#[derive(Default)]
pub(super) struct Ways {
    up: Vec<Option<Lease>>,
    down: Vec<Option<Lease>>,
}

impl Ways {
    /// Finds the lent memory of a batch's jobs.
    pub(super) fn look(
        &mut self,
        batch: &[Job<'_>],
        lending: &Lending,
        cipher: Cipher,
        direction: Direction,
    ) {
        let (now, least) = (lending.now(), lending.least);
        let is_pending = |job: &Job<'_>| job.outcome == Outcome::Pending;
        mark(&mut self.up, batch, &now, least, |job| {
            // The last block of a padded message is not entirely in the input.
            let is_padded = direction == Direction::Encrypt && job.padding == Padding::Pkcs7;
            (is_pending(job) && !is_padded).then_some(job.input)
        });
        mark(&mut self.down, batch, &now, least, |job| {
            let length = job.output_length(cipher, direction);
            job.output.get(..length).filter(|_| is_pending(job))
        });
    }

    /// Forgets the batch.
    pub(super) fn clear(&mut self) {
        self.up.clear();
        self.down.clear();
    }

    /// The memory of a job's input, if it goes straight to the device.
    pub(super) fn up(&self, job: usize) -> Option<&Lease> {
        self.up.get(job)?.as_ref()
    }

    /// The memory of a job's output, if the result comes straight from the device.
    pub(super) fn down(&self, job: usize) -> Option<&Lease> {
        self.down.get(job)?.as_ref()
    }
}

/// Finds the memory of each job's bytes, and keeps it for long stretches.
fn mark(
    side: &mut Vec<Option<Lease>>,
    batch: &[Job<'_>],
    now: &Now<'_>,
    least: usize,
    bytes_of: impl for<'j> Fn(&'j Job<'_>) -> Option<&'j [u8]>,
) {
    side.clear();
    // The stretch so far: its first job, its length and its end.
    let (mut first, mut length, mut end) = (0, 0_usize, None);
    for (index, job) in batch.iter().enumerate() {
        let bytes = bytes_of(job).unwrap_or_default();
        let lease = now.find(bytes);
        let is_same = match (lease, side.last()) {
            (Some(lease), Some(Some(last))) => lease.is(last),
            _ => false,
        };
        let start = bytes.as_ptr().addr();
        // On the device every text starts at a whole block.
        if !is_same || end != Some(start) || !length.is_multiple_of(BLOCK) {
            drop_if_short(side, first, length, least);
            (first, length) = (index, 0);
        }
        side.push(lease.cloned());
        length += bytes.len();
        end = Some(start + bytes.len());
    }
    drop_if_short(side, first, length, least);
}

fn drop_if_short(side: &mut [Option<Lease>], first: usize, length: usize, least: usize) {
    if length < least {
        side[first..].fill(None);
    }
}

/// Bytes of the shortest stretch that goes straight. At 10 GB/s a processor copies this many in 3
/// µs, about the time of a driver's call. Not measured on a GPU.
pub(super) const LEAST: usize = 32 << 10;
