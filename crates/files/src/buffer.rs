//! Encryption of a whole file's content in memory, on all cores.
//!
//! The chunks of a file are independent (except in CBC encryption), so the threads of a [`Pool`]
//! share them. The result is the same as the content of an encrypted file.

use evener_core::{Direction, Engine, Rejection, SessionRequest, WipedBuffer, wipe};
use evener_pipeline::{Pool, Worker};

use crate::format::{FileCipher, Layout};
use crate::prepare::{Prepared, bytes_to_prepare, prepare_plain, prepare_sealed};
use crate::segment::{collect, push_jobs};
use crate::{FileError, KeyRing};

/// How many bytes [`seal`] makes of `length` bytes of plaintext.
///
/// # Errors
/// When the format can't hold this length.
pub fn sealed_length(keys: &KeyRing, length: u64) -> Result<u64, FileError> {
    Ok(Layout::for_plaintext(&keys.primary().geometry(), length)?.sealed_length())
}

/// Encrypts `plaintext` into `sealed`, which has room for [`sealed_length`] bytes, in the format
/// and with the key that the ring's first recipe says. Returns how many bytes it wrote.
///
/// The engine is used as it is: one that is not trusted should have a guard
/// (`watched` of the crate `evener-engines`).
///
/// # Errors
/// When `sealed` is too short, the system has no random numbers, or the engine failed.
pub fn seal(
    keys: &KeyRing,
    pool: &Pool,
    engine: &dyn Engine,
    plaintext: &[u8],
    sealed: &mut [u8],
) -> Result<usize, FileError> {
    let Prepared { cipher, layout, header } = prepare_plain(keys, plaintext.len() as u64)?;
    let length = room(layout.sealed_length(), sealed)?;
    let header = header.as_ref().map_or(&[][..], |header| header.bytes());
    let (beginning, chunks) = sealed[..length].split_at_mut(header.len());
    beginning.copy_from_slice(header);
    process(&cipher, &layout, Direction::Encrypt, pool, engine, plaintext, chunks)?;
    Ok(length)
}

/// Decrypts what [`seal`], or Evener as a file, made with one of the ring's keys, into
/// `plaintext`, for which as many bytes as `sealed` has are enough. Returns how long it is.
///
/// # Errors
/// When no key fits, a chunk is not authentic or the end is missing, when `plaintext` is too
/// short, and when the engine failed. Nothing is left in `plaintext` then.
pub fn open(
    keys: &KeyRing,
    pool: &Pool,
    engine: &dyn Engine,
    sealed: &[u8],
    plaintext: &mut [u8],
) -> Result<usize, FileError> {
    let beginning = sealed.len().min(usize::try_from(bytes_to_prepare(keys)).unwrap_or(usize::MAX));
    let mut scratch = WipedBuffer::zeros(beginning);
    let mut worker = Worker::new(engine, 0);
    let beginning = &sealed[..beginning];
    let prepared = prepare_sealed(keys, beginning, sealed.len() as u64, &mut scratch, &mut worker);
    let Prepared { cipher, layout, .. } = prepared?;
    let chunks = &sealed[(layout.chunk(0).sealed.start as usize).min(sealed.len())..];
    let tags = layout.chunks() * cipher.cipher().tag_length() as u64;
    let length = room((chunks.len() as u64).saturating_sub(tags), plaintext)?;
    let plaintext = &mut plaintext[..length];
    let opened = process(&cipher, &layout, Direction::Decrypt, pool, engine, chunks, plaintext);
    if opened.is_err() {
        wipe(plaintext);
    }
    opened
}

/// Processes all chunks.
fn process(
    cipher: &FileCipher,
    layout: &Layout,
    direction: Direction,
    pool: &Pool,
    engine: &dyn Engine,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, FileError> {
    let mut jobs = Vec::with_capacity(layout.chunks() as usize);
    let chunks = (0..layout.chunks()).map(|index| layout.chunk(index));
    push_jobs(&mut jobs, cipher, direction, chunks, input, output);
    // Keys come with the jobs, as from all callers that use formats.
    let request = SessionRequest { cipher: cipher.cipher(), direction, key: None };
    pool.process_batch(engine, &request, &mut jobs)?;
    collect(jobs.iter().map(|job| job.outcome), 0)
}

/// The length, if the buffer is as long.
fn room(length: u64, buffer: &[u8]) -> Result<usize, FileError> {
    let fits = usize::try_from(length).ok().filter(|length| *length <= buffer.len());
    fits.ok_or(FileError::Rejected {
        chunk: 0,
        rejection: Rejection::Malformed("the output is too short"),
    })
}
