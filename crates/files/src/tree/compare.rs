//! Reads an output back and compares it, before its source is removed.

use std::os::fd::AsFd;

use evener_core::Direction;
use evener_pipeline::Worker;

use super::finish::{Done, TreeOutput};
use super::work::TreeWork;
use crate::FileError;
use crate::Operation;
use crate::segment::{SegmentError, iv_after, process_segment};
use crate::source::read_exact_at;
use crate::workspace::Workspace;

impl TreeWork<'_> {
    /// Decrypts the sealed file on the reference engine and compares it with the plain one; either
    /// may be the output.
    pub(super) fn compare(
        &self,
        done: &Done<'_>,
        output: &TreeOutput,
        workspace: &mut Workspace,
    ) -> Result<(), FileError> {
        // Never with the engine that wrote it: its errors in both directions would cancel out.
        let reference = self.options.reference.as_deref().ok_or(FileError::NotVerified)?;
        let worker = &mut Worker::new(reference, 0);
        let (source, output) = (done.source.as_fd(), output.file.as_fd());
        let (plain, sealed) = match self.operation {
            Operation::Encrypt => (source, output),
            Operation::Decrypt | Operation::Verify => (output, source),
        };
        let plain_length = match self.operation {
            Operation::Encrypt => done.source.length(),
            Operation::Decrypt | Operation::Verify => done.length,
        };
        let mut before = None;
        let mut compared = 0;
        for index in 0..done.segments.count() {
            let segment = done.segments.segment(index);
            let (length, _) = segment.lengths(done.cipher, Direction::Decrypt);
            read_exact_at(sealed, &mut workspace.input[..length], segment.sealed.start)?;
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
                SegmentError::File(_) => FileError::NotVerified,
                SegmentError::Engine(error) => error.into(),
            })?;
            if done.cipher.is_chained(Direction::Encrypt) {
                let (input, output) = (&workspace.input[..length], &workspace.output[..written]);
                before = iv_after(done.cipher, Direction::Decrypt, input, output);
            }
            let expected = &mut workspace.input[..written];
            read_exact_at(plain, expected, segment.plain.start)?;
            if *expected != workspace.output[..written] {
                return Err(FileError::NotVerified);
            }
            compared += written as u64;
        }
        if compared == plain_length { Ok(()) } else { Err(FileError::NotVerified) }
    }
}
