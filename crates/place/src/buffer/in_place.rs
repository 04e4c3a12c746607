//! Encryption where the plaintext lies.
//!
//! A sealed file is longer than its plaintext, so its chunks move up when they are sealed, from the
//! last to the first, and down when they are opened. Engines need input and output apart, so some
//! chunks at a time are copied.

use std::ops::Range;

use evener_core::{Direction, WipedBuffer, wipe};
use evener_format::{FileCipher, Layout};
use evener_seal::{Prepared, prepare_plain};

use super::{prepare, process, room};
use crate::{FileError, KeyRing, RunSettings};

/// Encrypts the first `length` bytes of a buffer with room for
/// [`sealed_length`](super::sealed_length) bytes. Returns the length of the sealed file, which is
/// then at the beginning. Otherwise like [`seal`](super::seal).
///
/// # Errors
/// As for [`seal`](super::seal). The content of the buffer is then undefined, unless it was too
/// short.
pub fn seal_in_place(
    keys: &KeyRing,
    buffer: &mut [u8],
    length: usize,
    run: &RunSettings,
) -> Result<usize, FileError> {
    let Prepared { cipher, layout, header } = prepare_plain(keys, length as u64)?;
    let sealed = room(layout.sealed_length(), buffer)?;
    let mut copy = WipedBuffer::default();
    for chunks in groups(&cipher, &layout).rev() {
        let [plain, to] = spans(&layout, &chunks);
        let input = copied(&mut copy, &buffer[plain]);
        process(&cipher, &layout, chunks, Direction::Encrypt, input, &mut buffer[to], run)?;
    }
    let header = header.as_ref().map_or(&[][..], |header| header.bytes());
    buffer[..header.len()].copy_from_slice(header);
    Ok(sealed)
}

/// Decrypts a sealed file, which is all of the buffer. Returns the length of the plaintext, which
/// is then at the beginning. Otherwise like [`open`](super::open).
///
/// # Errors
/// As for [`open`](super::open). If no key fits, the buffer is unchanged; otherwise neither
/// plaintext nor the sealed file is left.
pub fn open_in_place(
    keys: &KeyRing,
    buffer: &mut [u8],
    run: &RunSettings,
) -> Result<usize, FileError> {
    let Prepared { cipher, layout, .. } = prepare(keys, buffer, run)?;
    let mut copy = WipedBuffer::default();
    let mut length = 0;
    for chunks in groups(&cipher, &layout) {
        let [plain, from] = spans(&layout, &chunks);
        let input = copied(&mut copy, &buffer[from]);
        let tags = (chunks.end - chunks.start) as usize * cipher.cipher().tag_length();
        let output = &mut buffer[plain.start..][..input.len().saturating_sub(tags)];
        match process(&cipher, &layout, chunks, Direction::Decrypt, input, output, run) {
            Ok(written) => length += written,
            Err(error) => {
                wipe(buffer);
                return Err(error);
            }
        }
    }
    Ok(length)
}

/// Divides the chunks into groups that can be processed one after another.
fn groups(
    cipher: &FileCipher,
    layout: &Layout,
) -> impl DoubleEndedIterator<Item = Range<u64>> + use<> {
    // Without tags, chunks may need the ciphertext before them.
    let each = match cipher.cipher().is_authenticated() {
        true => (AT_ONCE / cipher.geometry().longest_chunk().max(1)).max(1),
        false => layout.chunks(),
    };
    let chunks = layout.chunks();
    (0..chunks.div_ceil(each)).map(move |group| group * each..chunks.min((group + 1) * each))
}

/// The bytes of some chunks in the plaintext and in the sealed file.
fn spans(layout: &Layout, chunks: &Range<u64>) -> [Range<usize>; 2] {
    let (first, last) = (layout.chunk(chunks.start), layout.chunk(chunks.end - 1));
    [first.plain.start..last.plain.end, first.sealed.start..last.sealed.end]
        .map(|span| span.start as usize..span.end as usize)
}

fn copied<'c>(copy: &'c mut WipedBuffer, bytes: &[u8]) -> &'c [u8] {
    copy.ensure(bytes.len());
    copy[..bytes.len()].copy_from_slice(bytes);
    &copy[..bytes.len()]
}

/// The length of a group in bytes: enough for several threads, and little memory.
const AT_ONCE: u64 = 4 << 20;
