//! A copy of the last unverified job, to verify it when the session closes.

use evener_core::{Iv, Job, Key, Outcome, Padding, Verification};
use zeroize::Zeroizing;

/// The job and its result. The memory is reused for later batches.
#[derive(Default)]
pub(super) struct LastJob {
    job: Option<Copied>,
    /// Additional data, input and result.
    bytes: Zeroizing<Vec<u8>>,
}

struct Copied {
    iv: Iv,
    key: Option<Key>,
    padding: Padding,
    aad: usize,
    input: usize,
    /// The length of its output buffer.
    room: usize,
}

impl LastJob {
    /// Keeps a job that is done.
    pub(super) fn keep(&mut self, job: &Job<'_>, written: usize) {
        let result = job.output.get(..written).unwrap_or_default();
        self.keep_parts((job.iv, job.key, job.padding), job.aad, job.input, result);
        if let Some(copied) = &mut self.job {
            copied.room = job.output.len();
        }
    }

    /// As [`LastJob::keep`], for a record.
    pub(super) fn keep_parts(
        &mut self,
        (iv, key, padding): (Iv, Option<&Key>, Padding),
        aad: &[u8],
        input: &[u8],
        result: &[u8],
    ) {
        let length = aad.len() + input.len() + result.len();
        // Growing in place could free the old memory without wiping it.
        if self.bytes.capacity() < length {
            self.bytes = Zeroizing::new(Vec::with_capacity(length));
        }
        self.bytes.clear();
        for part in [aad, input, result] {
            self.bytes.extend_from_slice(part);
        }
        let (aad, input, room) = (aad.len(), input.len(), result.len());
        self.job = Some(Copied { iv, key: key.cloned(), padding, aad, input, room });
    }

    /// A later job was verified.
    pub(super) fn forget(&mut self) {
        self.job = None;
    }

    /// Verifies the job, once.
    pub(super) fn judged<T>(&mut self, judge: impl FnOnce(&Job<'_>) -> T) -> Option<T> {
        let Copied { iv, key, padding, aad, input, room } = self.job.take()?;
        let (aad, rest) = self.bytes.split_at(aad);
        let (input, result) = rest.split_at(input);
        let mut output = Zeroizing::new(vec![0; room.max(result.len())]);
        output[..result.len()].copy_from_slice(result);
        let job = Job {
            key: key.as_ref(),
            aad,
            padding,
            outcome: Outcome::Done { written: result.len() },
            verification: Verification::Wanted,
            ..Job::new(iv, input, &mut output)
        };
        Some(judge(&job))
    }
}
