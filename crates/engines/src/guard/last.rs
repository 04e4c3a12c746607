//! A copy of the last unverified job, to verify it when the session closes.

use evener_core::{Iv, Job, Key, Outcome, Padding, Verification, WipedBuffer};

/// The job and its result. The memory is reused for later batches.
#[derive(Default)]
pub(super) struct LastJob {
    job: Option<Copied>,
    /// Additional data, input and result.
    bytes: WipedBuffer,
}

struct Copied {
    iv: Iv,
    key: Option<Key>,
    padding: Padding,
    aad: usize,
    input: usize,
    result: usize,
    /// The length of its output buffer.
    room: usize,
}

impl LastJob {
    /// Keeps a job that is done.
    pub(super) fn keep(&mut self, job: &Job<'_>, written: usize) {
        let result = job.output.get(..written).unwrap_or_default();
        self.bytes.ensure(job.aad.len() + job.input.len() + result.len());
        let mut begin = 0;
        for part in [job.aad, job.input, result] {
            self.bytes[begin..begin + part.len()].copy_from_slice(part);
            begin += part.len();
        }
        self.job = Some(Copied {
            iv: job.iv,
            key: job.key.cloned(),
            padding: job.padding,
            aad: job.aad.len(),
            input: job.input.len(),
            result: result.len(),
            room: job.output.len(),
        });
    }

    /// Drops the copy, because a later job was verified or the copy must not be used.
    pub(super) fn forget(&mut self) {
        self.job = None;
    }

    /// Passes the job to `judge`, once.
    pub(super) fn judged<T>(&mut self, judge: impl FnOnce(&Job<'_>) -> T) -> Option<T> {
        let Copied { iv, key, padding, aad, input, result, room } = self.job.take()?;
        let (aad, rest) = self.bytes.split_at(aad);
        let (input, rest) = rest.split_at(input);
        let result = &rest[..result];
        let mut output = WipedBuffer::zeros(room.max(result.len()));
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
