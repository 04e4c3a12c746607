//! The names of outputs: collisions, and whether a name still leads to its output.
//!
//! A filesystem may treat two names as one (`A` and `a`, or two encodings of `ü`). The second output
//! then finds the first in its place. When outputs are replaced or an operation is resumed, it must
//! not mistake the first output for a file from before the run.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use evener_core::{WipedBuffer, shown};

use super::commit::Finished;
use super::directory::Item;
use super::work::TreeWork;
use crate::FileError;
use crate::identity::Identity;
use crate::source::{Source, read_exact_at};

/// The outputs of this run in one directory.
#[derive(Default)]
pub(super) struct Claims {
    outputs: Mutex<HashSet<Identity>>,
}

impl Claims {
    /// Gives an output its name by `publish`, unless another output of this run has that name.
    /// One at a time does that in a directory. Returns whether something else had the name.
    pub(super) fn publish(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        publish: impl FnOnce() -> Result<Identity, FileError>,
    ) -> Result<bool, FileError> {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let there = Identity::of_name(directory, name)?;
        if there.is_some_and(|there| outputs.contains(&there)) {
            return Err(FileError::SameName(shown(name).to_string()));
        }
        outputs.insert(publish()?);
        Ok(there.is_some())
    }

    /// Claims an output of an earlier run.
    ///
    /// # Errors
    /// When another source has it already.
    pub(super) fn claim(&self, output: Identity, item: &Item) -> Result<(), FileError> {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        match outputs.insert(output) {
            true => Ok(()),
            false => Err(FileError::SameName(shown(&item.target).to_string())),
        }
    }
}

impl TreeWork<'_> {
    /// Gives an output its name; returns whether it has replaced another file.
    pub(super) fn publish_output(&self, finished: &Finished) -> Result<bool, FileError> {
        let Finished { directory, output, target, .. } = finished;
        // Where nothing is replaced and nothing is skipped, no name is ever taken twice.
        let (true, Some(into)) = (self.minds_names(), &directory.target) else {
            return output.publish(self.outputs).map(|()| false);
        };
        directory.claims.publish(into.as_fd(), target, || {
            let identity = Identity::of_open(output.as_fd())?;
            output.publish(self.outputs)?;
            // Some file systems give a file another number with each name.
            let named = match output.has_its_mode() {
                true => None,
                false => Identity::of_name(into.as_fd(), target)?,
            };
            Ok(named.unwrap_or(identity))
        })
    }

    /// Whether outputs of earlier runs may be there, and what those have left unfinished.
    pub(super) fn may_find_outputs(&self) -> bool {
        self.options.resume || self.options.update || self.options.overwrite
    }

    /// Whether what is there before the run is replaced or taken for its output.
    pub(super) fn minds_names(&self) -> bool {
        self.outputs.replaces() || self.options.resume
    }
}

/// Checks that an output's name leads to the file that was written; returns which that is.
pub(super) fn check_published(finished: &Finished) -> Result<Identity, FileError> {
    let output = &finished.output;
    let written = Identity::of_open(output.as_fd())?;
    let there = Identity::of_name(output.directory(), &finished.target)?;
    match there {
        Some(there) if there == written => Ok(there),
        // Some file systems give a file another number with each name.
        Some(there) if !output.has_its_mode() && holds_the_same(finished, there)? => Ok(there),
        _ => Err(FileError::OutputGone(shown(&finished.target).to_string())),
    }
}

/// Whether the file that has an output's name holds the very bytes that were written.
fn holds_the_same(finished: &Finished, there: Identity) -> Result<bool, FileError> {
    let output = &finished.output;
    let named = Source::open(output.directory(), &finished.target, false)?;
    if Identity::of(named.status()) != there || named.length() != finished.length {
        return Ok(false);
    }
    let mut both = [WipedBuffer::zeros(COMPARED_AT_ONCE), WipedBuffer::zeros(COMPARED_AT_ONCE)];
    let [wanted, found] = &mut both;
    for start in (0..finished.length).step_by(COMPARED_AT_ONCE) {
        let length = (finished.length - start).min(COMPARED_AT_ONCE as u64) as usize;
        read_exact_at(output.as_fd(), &mut wanted[..length], start)?;
        named.read_exact_at(&mut found[..length], start)?;
        if wanted[..length] != found[..length] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// In bytes.
const COMPARED_AT_ONCE: usize = 64 << 10;

/// Refuses an output whose name no file can have. When nothing is written, its name is empty or
/// shorter than the source's.
pub(super) fn refuse_long_name(item: &Item) -> Result<(), FileError> {
    match item.target.len() {
        length if length > LONGEST_NAME => Err(FileError::NameTooLong { length }),
        _ => Ok(()),
    }
}

/// The longest name that Linux has for files, in bytes.
const LONGEST_NAME: usize = 255;
