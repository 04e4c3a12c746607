//! Prepares one file: its cipher, its layout, its header.

use std::borrow::Cow;

use evener_core::{Direction, Outcome, Rejection};
use evener_format::{Age, Chunk, FileCipher, FormatError, Geometry, Header, Layout, Recipe};
use evener_keys::Candidates;

use super::objects::Blob;
use super::processor::Processor;
use super::segment::{SegmentError, push_jobs};
use crate::{FileError, KeyRing};

/// A file that is ready to be processed.
pub struct Prepared {
    /// The cipher, with the keys of this file.
    pub cipher: FileCipher,
    /// The positions of its chunks.
    pub layout: Layout,
    /// The header of an encrypted file that will be made.
    pub header: Option<Header>,
}

/// Prepares the sealing of `length` bytes of plaintext.
pub fn prepare_plain(keys: &KeyRing, length: u64) -> Result<Prepared, FileError> {
    let (cipher, header) = keys.primary().create()?;
    let layout = Layout::for_plaintext(cipher.geometry(), length)?;
    Ok(Prepared { cipher, layout, header: Some(header) })
}

/// Prepares the opening of a sealed file. `beginning` holds its first bytes, [`bytes_to_prepare`] of
/// them; `scratch` is overwritten.
pub fn prepare_sealed(
    keys: &KeyRing,
    beginning: &[u8],
    sealed: &(impl Blob + ?Sized),
    scratch: &mut [u8],
    processor: &mut impl Processor,
) -> Result<Prepared, SegmentError> {
    let length = sealed.length();
    let beginning = &*with_header(sealed, beginning, |start| keys.bytes_to_open(start))?;
    if let Some(recipe) = sealed.recipe() {
        let cipher = recipe.open(beginning).map_err(FileError::from)?;
        let layout = Layout::for_sealed(cipher.geometry(), length).map_err(FileError::from)?;
        return Ok(Prepared { cipher, layout, header: None });
    }
    let prepared = |cipher: FileCipher| -> Result<Prepared, FormatError> {
        let layout = Layout::for_sealed(cipher.geometry(), length)?;
        Ok(Prepared { cipher, layout, header: None })
    };
    let candidates = match keys.open(beginning).map_err(FileError::from)? {
        Candidates::One(cipher) => return Ok(prepared(*cipher).map_err(FileError::from)?),
        Candidates::Several(candidates) => candidates,
    };
    let mut refusal = FileError::Rejected { chunk: 0, rejection: Rejection::Tag };
    for candidate in candidates {
        match prepared(candidate) {
            Ok(prepared) => {
                let chunk = prepared.layout.chunk(0);
                if opens(&prepared.cipher, chunk, beginning, scratch, processor)? {
                    return Ok(prepared);
                }
            }
            Err(error) => refusal = error.into(),
        }
    }
    Err(refusal.into())
}

/// Returns whether a file begins like one that was made with one of the keys. If they open none, as
/// age's recipients do not, it is enough that the file is one of age's.
///
/// # Errors
/// When it can't be read.
pub fn opens_header(keys: &KeyRing, sealed: &impl Blob) -> Result<bool, FileError> {
    let beginning = with_header(sealed, &[], |start| keys.bytes_to_open(start))?;
    match keys.opens_files() {
        true => Ok(keys.open(&beginning).is_ok()),
        false => Ok(Age::header_length(&beginning).is_some()),
    }
}

/// The division into chunks of a sealed file, which its header shows without a key.
pub fn geometry_of(recipe: &Recipe, sealed: &impl Blob) -> Result<Geometry, FileError> {
    let of_age = match recipe {
        Recipe::Age(_) => geometry_of_age(sealed)?,
        _ => None,
    };
    Ok(of_age.unwrap_or_else(|| recipe.geometry()))
}

/// The division into chunks of an age file; `None` if it is none, or is in ASCII armour.
pub fn geometry_of_age(sealed: &impl Blob) -> Result<Option<Geometry>, FileError> {
    let beginning = with_header(sealed, &[], Age::bytes_to_open)?;
    Ok(Age::header_length(&beginning).map(Age::geometry))
}

/// Returns whether Evener may have written an age file, as far as its header shows it.
pub fn may_be_ours(sealed: &impl Blob) -> Result<bool, FileError> {
    Ok(Age::may_be_ours(&with_header(sealed, &[], Age::bytes_to_open)?))
}

/// The first bytes of a sealed file, at least as many as `needed` returns for them. The first of all
/// are in `beginning`, which is enough unless an age file has a long header.
fn with_header<'b>(
    sealed: &(impl Blob + ?Sized),
    beginning: &'b [u8],
    needed: impl Fn(&[u8]) -> usize,
) -> Result<Cow<'b, [u8]>, FileError> {
    let mut read = Cow::Borrowed(beginning);
    loop {
        let needed = sealed.length().min(needed(&read) as u64);
        if needed <= read.len() as u64 {
            return Ok(read);
        }
        read = Cow::Owned(sealed.beginning(needed)?);
    }
}

/// The most bytes that [`prepare_sealed`] needs from the beginning of a sealed file.
pub fn bytes_to_prepare(keys: &KeyRing) -> u64 {
    let first_chunk = |geometry: evener_format::Geometry| geometry.full_sealed_length(0);
    let chunk = match keys.recipes().count() {
        1 => 0,
        _ => keys.recipes().map(|recipe| first_chunk(recipe.geometry())).max().unwrap_or(0),
    };
    chunk.saturating_add(keys.bytes_to_open(&[]) as u64)
}

/// The most bytes that [`check_key`] needs from the beginning of a sealed file.
pub fn bytes_to_know(keys: &KeyRing) -> u64 {
    let shows_key = |recipe: &Recipe| {
        matches!(recipe, Recipe::Cobblestone(_) | Recipe::Age(_))
            || !recipe.cipher().is_authenticated()
    };
    match keys.recipes().count() {
        1 if shows_key(keys.primary()) => bytes_to_prepare(keys),
        1 => keys.bytes_to_open(&[]) as u64 + keys.primary().geometry().full_sealed_length(0),
        _ => bytes_to_prepare(keys),
    }
}

/// Checks that a sealed file was made with one of the keys, as far as its beginning shows that:
/// `beginning` holds its first bytes, [`bytes_to_know`] of them. Files of `openssl enc` do not show
/// it.
pub fn check_key(
    keys: &KeyRing,
    beginning: &[u8],
    sealed: &(impl Blob + ?Sized),
    scratch: &mut [u8],
    processor: &mut impl Processor,
) -> Result<(), SegmentError> {
    let Prepared { cipher, layout, .. } =
        prepare_sealed(keys, beginning, sealed, scratch, processor)?;
    if cipher.is_committed() || !cipher.cipher().is_authenticated() {
        return Ok(());
    }
    if opens(&cipher, layout.chunk(0), beginning, scratch, processor)? {
        return Ok(());
    }
    Err(FileError::Rejected { chunk: 0, rejection: Rejection::Tag }.into())
}

/// Returns whether a file's first chunk is authentic under a candidate's key.
pub fn opens(
    candidate: &FileCipher,
    chunk: Chunk,
    beginning: &[u8],
    scratch: &mut [u8],
    processor: &mut impl Processor,
) -> Result<bool, SegmentError> {
    let sealed = chunk.sealed.start as usize..chunk.sealed.end as usize;
    let needed = chunk.sealed.end;
    let (Some(input), true) = (beginning.get(sealed), scratch.len() as u64 >= needed) else {
        return Err(FileError::Memory { needed: needed.saturating_mul(2) }.into());
    };
    is_authentic(candidate, chunk, input, scratch, processor)
}

/// Returns whether a chunk, which is all of `input`, is authentic. `scratch` is overwritten, and no
/// shorter.
pub fn is_authentic(
    file: &FileCipher,
    chunk: Chunk,
    input: &[u8],
    scratch: &mut [u8],
    processor: &mut impl Processor,
) -> Result<bool, SegmentError> {
    let mut jobs = Vec::with_capacity(1);
    let direction = Direction::Decrypt;
    push_jobs(&mut jobs, file, direction, std::iter::once(chunk), input, scratch);
    processor.process(file.cipher(), direction, &mut jobs)?;
    Ok(jobs.iter().all(|job| matches!(job.outcome, Outcome::Done { .. })))
}
