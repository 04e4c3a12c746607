//! Reads an output back and compares it, before its source is removed.

use evener_core::{Direction, Engine};
use evener_format::Header;
use evener_pipeline::Worker;

use super::objects::{Blob, Done, Objects, ReadAt, ReadBack};
use super::segment::{SegmentError, iv_after, process_segment};
use super::workspace::Workspace;
use crate::{FileError, Operation};

/// Reads an output back, from its first byte to its end. Decrypts the sealed object on the reference
/// engine and compares it with the plain one; either may be the output.
///
/// # Errors
/// [`FileError::NotVerified`] when they differ, or there is no reference. The engine that wrote the
/// output never serves: its errors in both directions would cancel out.
pub fn compare<O: Objects>(
    operation: Operation,
    done: &Done<'_, O>,
    output: &impl ReadBack,
    reference: Option<&dyn Engine>,
    workspace: &mut Workspace,
) -> Result<(), FileError> {
    let worker = &mut Worker::new(reference.ok_or(FileError::NotVerified)?, 0);
    let blob = &**done.blob;
    let (plain, sealed, plain_length): (&dyn ReadAt, &dyn ReadAt, u64) = match operation {
        Operation::Encrypt => (blob, output, blob.length()),
        Operation::Decrypt | Operation::Verify => (output, blob, done.length),
    };
    if !output.ends_at(done.length)? || !has_header(output, done.header)? {
        return Err(FileError::NotVerified);
    }
    let mut before = None;
    let mut compared = 0;
    for index in 0..done.segments.count() {
        let segment = done.segments.segment(index);
        let length = segment.input_length(Direction::Decrypt);
        sealed.read_exact_at(&mut workspace.input[..length], segment.sealed.start)?;
        let decrypted = process_segment(
            done.cipher,
            done.segments,
            &segment,
            Direction::Decrypt,
            before,
            workspace,
            worker,
        );
        let written = decrypted.map_err(|error| match error {
            SegmentError::File(FileError::Rejected { .. } | FileError::RejectedEnd { .. }) => {
                FileError::NotVerified
            }
            SegmentError::File(error) => error,
            SegmentError::Engine(error) => error.into(),
        })?;
        if done.cipher.is_chained(Direction::Encrypt) {
            let (input, output) = (&workspace.input[..length], &workspace.output[..written]);
            before = iv_after(done.cipher, Direction::Decrypt, input, output);
        }
        let expected = &mut workspace.input[..written];
        plain.read_exact_at(expected, segment.plain.start)?;
        if *expected != workspace.output[..written] {
            return Err(FileError::NotVerified);
        }
        compared += written as u64;
    }
    if compared == plain_length { Ok(()) } else { Err(FileError::NotVerified) }
}

/// Returns whether an output begins with the header that was written, if one was.
fn has_header(output: &impl ReadAt, written: Option<&Header>) -> Result<bool, FileError> {
    let written = written.map_or(&[][..], Header::bytes);
    let mut read = vec![0; written.len()];
    output.read_exact_at(&mut read, 0)?;
    Ok(read == written)
}
