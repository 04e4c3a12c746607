//! Checks of jobs that all kernels share.

use evener_core::{Cipher, Direction, Job, Outcome};

/// Returns whether the job's lengths are valid; otherwise rejects the job.
#[inline(always)]
pub(super) fn admit(job: &mut Job<'_>, cipher: Cipher, direction: Direction) -> bool {
    match job.check(cipher, direction) {
        Ok(()) => true,
        Err(rejection) => {
            job.outcome = Outcome::Rejected(rejection);
            false
        }
    }
}

/// Returns whether a batch's output exceeds the caches: an estimate from some jobs, because
/// checking every small job takes as long as encrypting it.
pub(super) fn is_large(batch: &[Job<'_>]) -> bool {
    const SAMPLES: usize = 16;
    let stride = batch.len().div_ceil(SAMPLES).max(1);
    let sampled: usize = batch.iter().step_by(stride).map(|job| job.input.len()).sum();
    sampled.saturating_mul(stride) >= LARGE
}

/// Output of this many bytes exceeds the caches.
pub(super) const LARGE: usize = 8 << 20;
