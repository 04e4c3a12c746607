//! Segments: consecutive chunks that are read, processed and written together.

use std::ops::Range;

use evener_core::{
    Direction, EngineError, Iv, Job, KeyNumber, Mode, Outcome, Padding, PlacedJob, Verification,
};
use evener_format::{Chunk, ChunkIv, FileCipher, Geometry, Layout};

use super::processor::Processor;
use super::trail::Seen;
use super::workspace::Workspace;
use crate::{FileError, Refusal};

/// A file's chunks, grouped so that each group fits a worker's buffers.
#[derive(Clone, Debug)]
pub struct Segments {
    layout: Layout,
    chunks_each: u64,
    /// The chunks whose jobs are verified, on any engine.
    verified: Option<[u64; 2]>,
}

/// One group of chunks. Both ranges are without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The chunks' numbers.
    pub chunks: Range<u64>,
    /// Their plaintext, as offsets in the plain file.
    pub plain: Range<u64>,
    /// Their ciphertext and tags, as offsets in the sealed file.
    pub sealed: Range<u64>,
}

impl Segments {
    /// Groups the chunks of `layout` for buffers of `room` bytes.
    ///
    /// # Errors
    /// When not even one chunk fits.
    pub fn new(layout: Layout, geometry: &Geometry, room: usize) -> Result<Segments, FileError> {
        let longest = layout.sealed_length().min(geometry.longest_chunk());
        let chunks_each = chunks_in(geometry, room);
        if chunks_each == 0 && longest > room as u64 {
            return Err(FileError::Memory { needed: longest.saturating_mul(2) });
        }
        Ok(Segments { layout, chunks_each: chunks_each.max(1), verified: None })
    }

    /// Has two chunks verified if their engine is watched: the last, which is shorter than the
    /// others, and a randomly drawn one of the others. An engine may be wrong at one length only.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn verifying_some(mut self) -> Result<Segments, FileError> {
        let last = self.layout.chunks().saturating_sub(1);
        self.verified = Some([lot(last)?, last]);
        Ok(self)
    }

    /// The number of segments, at least one.
    pub fn count(&self) -> u64 {
        self.layout.chunks().div_ceil(self.chunks_each)
    }

    /// A segment by its number, which is less than [`Segments::count`].
    pub fn segment(&self, index: u64) -> Segment {
        self.run(&(index..index + 1))
    }

    /// Consecutive segments as one; the last is less than [`Segments::count`].
    pub fn run(&self, indices: &Range<u64>) -> Segment {
        let first = indices.start * self.chunks_each;
        let end = indices.end.saturating_mul(self.chunks_each).min(self.layout.chunks());
        let (head, tail) = (self.layout.chunk(first), self.layout.chunk(end - 1));
        Segment {
            chunks: first..end,
            plain: head.plain.start..tail.plain.end,
            sealed: head.sealed.start..tail.sealed.end,
        }
    }

    /// The number of the segment that holds a chunk.
    pub fn of_chunk(&self, chunk: u64) -> u64 {
        chunk / self.chunks_each
    }

    /// The layout of the whole file.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Segment {
    /// Length of the input, in bytes.
    pub fn input_length(&self, direction: Direction) -> usize {
        let input = match direction {
            Direction::Encrypt => &self.plain,
            Direction::Decrypt => &self.sealed,
        };
        (input.end - input.start) as usize
    }
}

/// The number of full chunks that a buffer of `room` bytes holds.
pub fn chunks_in(geometry: &Geometry, room: usize) -> u64 {
    (room as u64).checked_div(geometry.longest_chunk()).unwrap_or(0)
}

/// One job's part of a file's bytes.
pub struct Part {
    iv: Iv,
    padding: Padding,
    input: Range<usize>,
    output: Range<usize>,
}

impl Part {
    /// The part as a job of a parcel, where the file's bytes begin at these places in the buffers.
    pub fn placed(self, key: KeyNumber, input: usize, output: usize) -> PlacedJob {
        let behind = |range: Range<usize>, start| range.start + start..range.end + start;
        let (input, output) = (behind(self.input, input), behind(self.output, output));
        let padding = self.padding;
        PlacedJob { key: Some(key), padding, ..PlacedJob::new(self.iv, input, output) }
    }
}

/// Divides consecutive chunks into jobs.
///
/// `input` holds only the chunks. `before` is the ciphertext block before the first chunk, if the
/// cipher chains and the chunk is not the file's first.
pub fn parts(
    file: &FileCipher,
    direction: Direction,
    chunks: impl Iterator<Item = Chunk>,
    input: &[u8],
    before: Option<Iv>,
) -> impl Iterator<Item = Part> {
    let mut chunks = chunks.peekable();
    let (mut input_at, mut output_at) = (0, 0);
    let mut previous: Option<Range<usize>> = None;
    // Chunks that chain when encrypting are one message: the format has them only on paper.
    let merge = file.is_chained(direction);
    std::iter::from_fn(move || {
        let chunk = chunks.next()?;
        let mut last = chunk.last;
        let (mut taken, mut given) = lengths(&chunk, file, direction);
        while merge && let Some(next) = chunks.next() {
            let more = lengths(&next, file, direction);
            (taken, given) = (taken + more.0, given + more.1);
            last = next.last;
        }
        let (this_input, this_output) = (input_at..input_at + taken, output_at..output_at + given);
        (input_at, output_at) = (this_input.end, this_output.end);
        let iv = match file.iv(&chunk) {
            ChunkIv::Known(iv) => iv,
            ChunkIv::PreviousBlock => {
                let block = previous.clone().map(|chunk| last_block(&input[chunk], file));
                block.unwrap_or(before).unwrap_or(Iv::NONE)
            }
        };
        previous = Some(this_input.clone());
        Some(Part { iv, padding: file.padding(last), input: this_input, output: this_output })
    })
}

/// Adds the jobs of a file's first chunks to a batch. `input` and `output` hold only the chunks.
pub fn push_jobs<'a>(
    jobs: &mut Vec<Job<'a>>,
    file: &'a FileCipher,
    direction: Direction,
    chunks: impl Iterator<Item = Chunk>,
    input: &'a [u8],
    mut output: &'a mut [u8],
) {
    for part in parts(file, direction, chunks, input, None) {
        let (this_output, rest) = output.split_at_mut(part.output.len());
        output = rest;
        jobs.push(Job {
            key: Some(file.key()),
            padding: part.padding,
            ..Job::new(part.iv, &input[part.input], this_output)
        });
    }
}

/// Has two of a file's jobs verified, as [`Segments::verifying_some`] does: no engine can tell
/// which. Without random numbers they are the first and the last.
pub(crate) fn verify_some(jobs: &mut [Verification]) {
    let Some((last, others)) = jobs.split_last_mut() else { return };
    *last = Verification::Wanted;
    let drawn = lot(others.len() as u64).unwrap_or(0) as usize;
    if let Some(job) = others.get_mut(drawn) {
        *job = Verification::Wanted;
    }
}

/// A random number below `end`.
fn lot(end: u64) -> Result<u64, FileError> {
    let mut bytes = [0; 16];
    if end > 1 {
        getrandom::fill(&mut bytes).map_err(|error| Refusal::NoRandomness(error.to_string()))?;
    }
    // Random numbers far outnumber chunks, so the remainder of a division favours none.
    Ok((u128::from_ne_bytes(bytes) % u128::from(end.max(1))) as u64)
}

/// Refines the error for a rejected chunk: if it is the last, the data may have been cut short.
/// `last` is the last chunk's number, if it is known.
pub fn explain(error: FileError, last: Option<u64>, file: &FileCipher) -> FileError {
    match error {
        FileError::Rejected { chunk, rejection } if last == Some(chunk) => {
            FileError::RejectedEnd { chunk, rejection, key_fits: file.is_committed() }
        }
        other => other,
    }
}

/// Checks the outcomes of consecutive chunks' jobs.
///
/// Returns the number of bytes of output.
///
/// # Errors
/// The rejection of the first rejected chunk.
pub fn collect(
    outcomes: impl IntoIterator<Item = Outcome>,
    first_chunk: u64,
) -> Result<usize, FileError> {
    let mut total = 0;
    for (chunk, outcome) in (first_chunk..).zip(outcomes) {
        match outcome {
            Outcome::Done { written } => total += written,
            Outcome::Rejected(rejection) => return Err(FileError::Rejected { chunk, rejection }),
            Outcome::Pending => {
                return Err(Refusal::JobUndone.into());
            }
        }
    }
    Ok(total)
}

/// The last cipher block of some ciphertext, as the IV of what follows it in CBC.
pub fn last_block(ciphertext: &[u8], file: &FileCipher) -> Option<Iv> {
    let start = ciphertext.len().checked_sub(file.cipher().iv_length())?;
    Iv::new(&ciphertext[start..]).ok()
}

/// The IV for the data after some chunks, if the cipher chains in this direction.
pub fn iv_after(
    file: &FileCipher,
    direction: Direction,
    input: &[u8],
    output: &[u8],
) -> Option<Iv> {
    match (file.cipher().mode(), direction) {
        (Mode::Ofb, _) => {
            // The key stream continues from its last block.
            let (input, output) = (last_block(input, file)?, last_block(output, file)?);
            let pairs = input.bytes().iter().zip(output.bytes());
            Iv::new(&pairs.map(|(one, other)| one ^ other).collect::<Vec<_>>()).ok()
        }
        (_, Direction::Encrypt) => last_block(output, file),
        (_, Direction::Decrypt) => last_block(input, file),
    }
}

/// The bytes that a chunk's job reads and writes. Decrypting also needs room for the padding, since
/// only its result shows the padding's length.
fn lengths(chunk: &Chunk, file: &FileCipher, direction: Direction) -> (usize, usize) {
    let plain = (chunk.plain.end - chunk.plain.start) as usize;
    let sealed = (chunk.sealed.end - chunk.sealed.start) as usize;
    match direction {
        Direction::Encrypt => (plain, sealed),
        Direction::Decrypt => (sealed, sealed - file.cipher().tag_length()),
    }
}

/// Processes one segment, whose input is at the start of the workspace's input buffer. Returns the
/// length of the result, which is at the start of the output buffer.
pub fn process_segment(
    file: &FileCipher,
    segments: &Segments,
    segment: &Segment,
    direction: Direction,
    before: Option<Iv>,
    workspace: &mut Workspace,
    processor: &mut impl Processor,
) -> Result<usize, SegmentError> {
    let input_length = segment.input_length(direction);
    let Workspace { input, parcel, .. } = workspace;
    let chunks = segment.chunks.clone().map(|index| segments.layout().chunk(index));
    let key = parcel.add_key(file.key());
    for part in parts(file, direction, chunks, &input[..input_length], before) {
        parcel.push(part.placed(key, 0, 0));
    }
    let verified = segments.verified.iter().flatten();
    for chunk in verified.filter(|chunk| segment.chunks.contains(chunk)) {
        // Chained chunks are one job.
        let jobs = parcel.verifications_mut();
        let job = (jobs.len() - 1).min((chunk - segment.chunks.start) as usize);
        jobs[job] = Verification::Wanted;
    }
    let (written, seen) = workspace.process(processor, file.cipher(), direction, |parcel| {
        let outcomes = parcel.outcomes().iter().copied();
        (collect(outcomes, segment.chunks.start), Seen::of(parcel.verifications()))
    })?;
    workspace.seen = seen;
    let last = segments.layout().chunks().checked_sub(1);
    Ok(written.map_err(|error| explain(error, last, file))?)
}

/// The reason that a segment could not be processed: its own fault, or the engine's.
#[derive(Debug)]
pub enum SegmentError {
    /// No engine can process the segment.
    File(FileError),
    /// Another engine may process it.
    Engine(EngineError),
}

impl From<FileError> for SegmentError {
    fn from(error: FileError) -> SegmentError {
        SegmentError::File(error)
    }
}

impl From<EngineError> for SegmentError {
    fn from(error: EngineError) -> SegmentError {
        SegmentError::Engine(error)
    }
}

impl From<SegmentError> for FileError {
    fn from(error: SegmentError) -> FileError {
        match error {
            SegmentError::File(error) => error,
            SegmentError::Engine(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use evener_core::Key;
    use evener_format::{CobblestoneSuite, Recipe};

    use super::*;

    /// Looking at each chunk would fault in all pages of a large buffer, before any work begins or
    /// can be stopped.
    #[test]
    fn chunks_that_do_not_chain_are_divided_unseen() {
        let key = Key::new(&[7; 32]).unwrap();
        let recipe = Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap();
        let (file, _) = recipe.create().unwrap();
        let layout = Layout::for_plaintext(file.geometry(), 40_000).unwrap();
        let chunks = (0..layout.chunks()).map(|index| layout.chunk(index));
        assert_eq!(parts(&file, Direction::Encrypt, chunks, &[], None).count(), 3);
    }
}
