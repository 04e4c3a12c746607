//! Encryption of a whole file's content in memory, by all workers.
//!
//! The chunks of a file are independent (except in CBC encryption), so the workers share them. The
//! result is the same as the content of an encrypted file.

mod in_place;

use std::ops::Range;
use std::sync::Arc;

use evener_core::{
    Direction, Engine, EngineError, Job, Kind, Outcome, SessionRequest, WipedBuffer, wipe,
};
use evener_format::{FileCipher, FormatError, Layout};
use evener_pipeline::{Courtesy, Pool, parallel, run_batch};

use crate::{FileError, KeyRing, RunSettings, seats};
use evener_seal::{
    Blob, Prepared, ReadAt, bytes_to_prepare, collect, prepare_plain, prepare_sealed, push_jobs,
};

pub use in_place::{open_in_place, seal_in_place};

/// The number of bytes that [`seal`] makes of `length` bytes of plaintext; with age, the most that
/// it makes.
///
/// # Errors
/// When the format can't hold this length.
pub fn sealed_length(keys: &KeyRing, length: u64) -> Result<u64, FileError> {
    Ok(Layout::for_plaintext(&keys.primary().geometry(), length)?.sealed_length())
}

/// Encrypts `plaintext` into `sealed`, which has room for [`sealed_length`] bytes, with the format
/// and key of the ring's first recipe. Returns the number of bytes written.
///
/// Jobs that no engine could do, or that an engine with wrong results has done, go to
/// [`RunSettings::reference`]. No listener is called.
///
/// # Errors
/// When `sealed` is too short, the system has no random numbers, the engines failed or it was
/// stopped. The content of `sealed` is then undefined.
pub fn seal(
    keys: &KeyRing,
    plaintext: &[u8],
    sealed: &mut [u8],
    run: &RunSettings,
) -> Result<usize, FileError> {
    let Prepared { cipher, layout, header } = prepare_plain(keys, plaintext.len() as u64)?;
    let length = room(layout.sealed_length(), sealed)?;
    let header = header.as_ref().map_or(&[][..], |header| header.bytes());
    let (beginning, chunks) = sealed[..length].split_at_mut(header.len());
    beginning.copy_from_slice(header);
    process(&cipher, &layout, all(&layout), Direction::Encrypt, plaintext, chunks, run)?;
    Ok(length)
}

/// Decrypts into `plaintext` the output of [`seal`], or an encrypted file of Evener's, made with
/// one of the ring's keys. `plaintext` needs at most the length of `sealed`. Returns the
/// plaintext's length. The settings are those of [`seal`].
///
/// # Errors
/// When no key fits, a chunk is not authentic or the end is missing, when `plaintext` is too
/// short, and when the engines failed or it was stopped. Nothing is left in `plaintext` then.
pub fn open(
    keys: &KeyRing,
    sealed: &[u8],
    plaintext: &mut [u8],
    run: &RunSettings,
) -> Result<usize, FileError> {
    let Prepared { cipher, layout, .. } = prepare(keys, sealed, run)?;
    let chunks = &sealed[(layout.chunk(0).sealed.start as usize).min(sealed.len())..];
    let tags = layout.chunks() * cipher.cipher().tag_length() as u64;
    let length = room((chunks.len() as u64).saturating_sub(tags), plaintext)?;
    let plaintext = &mut plaintext[..length];
    let opened =
        process(&cipher, &layout, all(&layout), Direction::Decrypt, chunks, plaintext, run);
    if opened.is_err() {
        wipe(plaintext);
    }
    opened
}

/// Prepares the opening of a sealed file.
fn prepare(keys: &KeyRing, sealed: &[u8], run: &RunSettings) -> Result<Prepared, FileError> {
    let seats = seats::able(run, keys.primary().cipher(), Direction::Decrypt)?;
    let beginning = sealed.len().min(usize::try_from(bytes_to_prepare(keys)).unwrap_or(usize::MAX));
    let mut scratch = WipedBuffer::zeros(beginning);
    let beginning = &sealed[..beginning];
    let on = (keys.primary().cipher(), Direction::Decrypt);
    seats::before_a_run(run, &seats, on, |worker| {
        prepare_sealed(keys, beginning, &InMemory(sealed), &mut scratch, worker)
    })
}

/// A sealed file in memory.
struct InMemory<'a>(&'a [u8]);

impl ReadAt for InMemory<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(FormatError::Truncated)?);
        Ok(())
    }
}

impl Blob for InMemory<'_> {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The numbers of all chunks.
fn all(layout: &Layout) -> Range<u64> {
    0..layout.chunks()
}

/// Processes chunks; `input` and `output` hold only these.
fn process(
    cipher: &FileCipher,
    layout: &Layout,
    chunks: Range<u64>,
    direction: Direction,
    input: &[u8],
    output: &mut [u8],
    run: &RunSettings,
) -> Result<usize, FileError> {
    let mut seats = seats::able(run, cipher.cipher(), direction)?;
    let first = chunks.start;
    let mut jobs = Vec::with_capacity((chunks.end - first) as usize);
    let chunks = chunks.map(|index| layout.chunk(index));
    push_jobs(&mut jobs, cipher, direction, chunks, input, output);
    let request = SessionRequest { cipher: cipher.cipher(), direction, key: Some(cipher.key()) };
    let is_stopped = &|| run.control.is_stopped();
    let failure = match pool_for(&seats, run) {
        Some(pool) => {
            // A session prepares its own key once, and a job's key for each portion.
            jobs.iter_mut().for_each(|job| job.key = None);
            parallel::process_batch(pool, &*seats[0], &request, &mut jobs, is_stopped).err()
        }
        None => {
            // One worker finishes a short buffer before a second thread has started.
            seats.truncate((input.len() / LEAST_SHARE).max(1));
            let options = run.options(cipher.cipher(), direction, jobs.len());
            run_batch(&seats, &options, &mut jobs, is_stopped)
        }
    };
    if jobs.iter().any(|job| job.outcome == Outcome::Pending) {
        if is_stopped() {
            return Err(FileError::Interrupted);
        }
        finish(run.reference.as_ref(), &request, &mut jobs, failure)?;
    }
    collect(jobs.iter().map(|job| job.outcome), first)
}

/// The pool, if it can do what the seats' workers would do: one engine on the cores, without a
/// guard, a policy or consideration for other programs.
fn pool_for<'r>(seats: &[Arc<dyn Engine>], run: &'r RunSettings) -> Option<&'r Pool> {
    let (engine, others) = seats.split_first()?;
    let is_alone = others.iter().all(|other| Arc::ptr_eq(engine, other))
        && engine.description().kind == Kind::Cpu
        && engine.account().is_none()
        && run.policy.is_none()
        && run.courtesy == Courtesy::default();
    run.pool.as_deref().filter(|_| is_alone)
}

/// Has the reference engine process the remaining jobs.
fn finish(
    reference: Option<&Arc<dyn Engine>>,
    request: &SessionRequest<'_>,
    jobs: &mut [Job<'_>],
    failure: Option<EngineError>,
) -> Result<(), FileError> {
    let SessionRequest { cipher, direction, .. } = *request;
    let able = reference.filter(|engine| engine.offer(cipher, direction).is_some());
    let Some(reference) = able else {
        return Err(failure.map_or(FileError::NoEngine { cipher, direction }, FileError::Engine));
    };
    Ok(reference.open(request)?.process(jobs)?)
}

/// Returns `length` if the buffer is at least that long.
fn room(length: u64, buffer: &[u8]) -> Result<usize, FileError> {
    let fits = usize::try_from(length).ok().filter(|length| *length <= buffer.len());
    fits.ok_or(FileError::ShortBuffer { needed: length, room: buffer.len() as u64 })
}

/// The least work for which a worker is worth starting, in bytes.
const LEAST_SHARE: usize = 256 << 10;
