//! A batch that owns its data, to be sent to another thread and back.

use std::ops::Range;

use evener_core::{
    Cipher, Direction, EngineError, Iv, Job, Key, Outcome, Padding, Session, WipedBuffer, emptied,
};

/// Copies of a batch's jobs. The memory is reused for later batches.
#[derive(Default)]
pub(super) struct Parcel {
    jobs: Vec<PackedJob>,
    /// The outcome of each job.
    outcomes: Vec<Outcome>,
    /// Additional data of all jobs, then their inputs.
    input: WipedBuffer,
    /// The outputs of all jobs.
    output: WipedBuffer,
}

/// A job whose data is in the parcel.
struct PackedJob {
    iv: Iv,
    key: Option<Key>,
    padding: Padding,
    aad: Range<usize>,
    input: Range<usize>,
    output: Range<usize>,
}

/// Gives a buffer of so many bytes in the engine's own memory, if it has such.
pub(super) type Lend<'a> = dyn Fn(usize) -> Option<WipedBuffer> + 'a;

impl Parcel {
    /// Copies the jobs in.
    pub(super) fn pack(
        &mut self,
        batch: &[Job<'_>],
        cipher: Cipher,
        direction: Direction,
        lend: &Lend<'_>,
    ) {
        self.jobs.clear();
        self.outcomes.clear();
        let needed = batch.iter().map(|job| job.aad.len() + job.input.len()).sum();
        ensure(&mut self.input, needed, lend);
        let mut append = |at: &mut usize, bytes: &[u8]| {
            let range = *at..*at + bytes.len();
            self.input[range.clone()].copy_from_slice(bytes);
            *at = range.end;
            range
        };
        // The inputs lie one behind the other, so that an engine that lends memory can copy them to
        // its device at once.
        let mut aad = 0;
        let mut input = batch.iter().map(|job| job.aad.len()).sum();
        let mut output = 0;
        for job in batch {
            let room = job.output_length(cipher, direction).min(job.output.len());
            self.outcomes.push(job.outcome);
            self.jobs.push(PackedJob {
                iv: job.iv,
                key: job.key.cloned(),
                padding: job.padding,
                aad: append(&mut aad, job.aad),
                input: append(&mut input, job.input),
                output: output..output + room,
            });
            output += room;
        }
        ensure(&mut self.output, output, lend);
    }

    /// Copies outcomes and results to the packed jobs; does nothing if the parcel did not come
    /// back.
    pub(super) fn unpack(&self, batch: &mut [Job<'_>]) {
        for ((packed, &outcome), job) in self.jobs.iter().zip(&self.outcomes).zip(batch) {
            let was_pending = job.outcome == Outcome::Pending;
            job.outcome = outcome;
            if was_pending && let Outcome::Done { .. } = outcome {
                let result = &self.output[packed.output.clone()];
                job.output[..result.len()].copy_from_slice(result);
            }
        }
    }

    /// Processes the jobs with a session. `room` is an empty list whose memory is reused and
    /// returned.
    pub(super) fn process(
        &mut self,
        session: &mut dyn Session,
        room: Vec<Job<'static>>,
    ) -> (Result<(), EngineError>, Vec<Job<'static>>) {
        let mut batch = emptied(room);
        let mut output = &mut self.output[..];
        for (job, &outcome) in self.jobs.iter().zip(&self.outcomes) {
            let (this_output, rest) = output.split_at_mut(job.output.len());
            output = rest;
            batch.push(Job {
                key: job.key.as_ref(),
                aad: &self.input[job.aad.clone()],
                padding: job.padding,
                outcome,
                ..Job::new(job.iv, &self.input[job.input.clone()], this_output)
            });
        }
        let result = session.process(&mut batch);
        for (outcome, job) in self.outcomes.iter_mut().zip(&batch) {
            *outcome = job.outcome;
        }
        (result, emptied(batch))
    }
}

/// Makes a buffer at least this long, in the engine's own memory if it has such.
fn ensure(buffer: &mut WipedBuffer, length: usize, lend: &Lend<'_>) {
    if buffer.len() < length {
        *buffer = WipedBuffer::default();
        // Memory of a driver is slow to get, and the next batch is often a little longer.
        let lent = lend(length.saturating_add(length / 8));
        *buffer =
            lent.filter(|lent| lent.len() >= length).unwrap_or_else(|| WipedBuffer::zeros(length));
    }
}
