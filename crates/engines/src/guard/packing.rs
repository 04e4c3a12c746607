//! Copies of a batch that another thread works on.

use evener_core::{Cipher, Direction, Job, Outcome, Parcel, PlacedJob, WipedBuffer};

/// Gives a buffer of this many bytes in the engine's own memory, if it has any.
pub(super) type Lend<'a> = dyn FnMut(usize) -> Option<WipedBuffer> + 'a;

/// Copies the jobs into a parcel, whose memory is reused.
pub(super) fn pack(
    parcel: &mut Parcel,
    batch: &[Job<'_>],
    cipher: Cipher,
    direction: Direction,
    lend: &mut Lend<'_>,
) {
    let room = |job: &Job<'_>| job.output_length(cipher, direction).min(job.output.len());
    let (mut input, mut output) = parcel.drain().next().unwrap_or_default();
    ensure(&mut input, batch.iter().map(|job| job.aad.len() + job.input.len()).sum(), lend);
    ensure(&mut output, batch.iter().map(room).sum(), lend);
    // The inputs follow all additional data without gaps, so that an engine that lends memory can
    // copy them to its device at once.
    let (mut aad_at, mut input_at, mut output_at) = (0, 0, 0);
    for job in batch {
        append(&mut input, &mut input_at, job.aad);
    }
    for job in batch {
        append(&mut input, &mut input_at, job.input);
    }
    let mut key = None;
    let mut input_at = batch.iter().map(|job| job.aad.len()).sum();
    for job in batch {
        let next = |at: &mut usize, length| {
            let start = std::mem::replace(at, *at + length);
            start..*at
        };
        let (aad, message) =
            (next(&mut aad_at, job.aad.len()), next(&mut input_at, job.input.len()));
        let result = next(&mut output_at, room(job));
        // Jobs of one file borrow the same key.
        key = match (job.key, key) {
            (None, _) => None,
            (Some(this), Some((last, number))) if std::ptr::eq(this, last) => Some((last, number)),
            (Some(this), _) => Some((this, parcel.add_key(this))),
        };
        let key = key.map(|(_, number)| number);
        let place = PlacedJob::new(job.iv, message, result);
        parcel.push(PlacedJob { key, padding: job.padding, aad, ..place });
    }
    parcel.add(input, output);
    for (outcome, job) in parcel.outcomes_mut().iter_mut().zip(batch) {
        *outcome = job.outcome;
    }
}

/// Copies outcomes and results to the packed jobs.
pub(super) fn unpack(parcel: &Parcel, batch: &mut [Job<'_>]) {
    let output = parcel.output(0);
    for ((packed, &outcome), job) in parcel.jobs().iter().zip(parcel.outcomes()).zip(batch) {
        let was_pending = job.outcome == Outcome::Pending;
        job.outcome = outcome;
        if was_pending && let Outcome::Done { .. } = outcome {
            let result = &output[packed.output.clone()];
            job.output[..result.len()].copy_from_slice(result);
        }
    }
}

/// Copies bytes to a position in a buffer, and advances the position.
fn append(buffer: &mut WipedBuffer, at: &mut usize, bytes: &[u8]) {
    let end = *at + bytes.len();
    buffer[*at..end].copy_from_slice(bytes);
    *at = end;
}

/// Makes a buffer at least this long, in the engine's own memory if it has any.
fn ensure(buffer: &mut WipedBuffer, length: usize, lend: &mut Lend<'_>) {
    if buffer.len() < length {
        *buffer = WipedBuffer::default();
        // Memory of a driver is slow to get, and the next batch is often a little longer.
        let lent = lend(length.saturating_add(length / 8));
        *buffer =
            lent.filter(|lent| lent.len() >= length).unwrap_or_else(|| WipedBuffer::zeros(length));
    }
}
