//! The names of outputs: collisions, and whether a name still leads to its output.
//!
//! A filesystem may treat two names as one (`A` and `a`, or two encodings of `ü`). The second output
//! then finds the first in its place. When outputs are replaced or an operation is resumed, it must
//! not mistake the first output for a file from before the run.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use evener_core::{IgnorePoison, WipedBuffer, shown};
use evener_keys::is_wrapped_key_name;
use rustix::fs::{AtFlags, Stat, statat};
use rustix::io::Errno;

use super::commit::Finished;
use super::directory::{Directory, Item};
use super::mounts::MOUNT_LIST;
use super::resume::has_time_of;
use super::work::TreeWork;
use crate::Operation;
use crate::entries::any_entry;
use crate::identity::{Identity, status_of_name_now};
use crate::source::{Source, read_exact_at};
use crate::temporary::refuse_temporary;
use crate::{FileError, Refusal};
use evener_seal::{Blob, ReadAt};

/// The outputs of this run in one directory.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    taken: Mutex<Taken>,
    /// True if the directory was swept.
    swept: AtomicBool,
}

#[derive(Debug, Default)]
struct Taken {
    outputs: HashSet<Identity>,
    /// True if the directory finds a name in any letter case, once that is known.
    folds: Option<bool>,
    /// If so, the names of this run's entries, in small letters: some file systems give a file a
    /// number for each spelling of its name.
    names: HashSet<Vec<u8>>,
}

impl Claims {
    /// Returns whether the directory is yet to be swept of the unfinished files of killed runs.
    pub(super) fn begin_sweep(&self) -> bool {
        !self.swept.swap(true, Ordering::Relaxed)
    }

    /// Gives an output its name by `publish`, unless another output of this run has that name. Only
    /// one thread at a time does so in a directory. Returns whether another file had the name.
    pub(super) fn publish(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        publish: impl FnOnce() -> Result<Identity, FileError>,
    ) -> Result<bool, FileError> {
        let mut taken = self.lock();
        let there = Identity::of_name(directory, name)?;
        if there.is_some_and(|there| taken.has_output(there, name)) {
            return Err(FileError::SameName(shown(name).to_string()));
        }
        let output = publish()?;
        taken.outputs.insert(output);
        taken.add(directory, name);
        Ok(there.is_some())
    }

    /// Notes an output with a name that nothing had before.
    fn note(&self, directory: BorrowedFd<'_>, name: &OsStr, output: Identity) {
        let mut taken = self.lock();
        taken.outputs.insert(output);
        taken.add(directory, name);
    }

    /// The error for a name that is taken: perhaps by an output of this run.
    pub(super) fn explain(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        error: FileError,
    ) -> FileError {
        let there = || Identity::of_name(directory, name).ok().flatten();
        match error {
            FileError::Exists(_) | FileError::Taken(_)
                if there().is_some_and(|there| self.lock().has_output(there, name)) =>
            {
                FileError::SameName(shown(name).to_string())
            }
            error => error,
        }
    }

    /// Claims an output of an earlier run, or a directory that two sources could share.
    ///
    /// # Errors
    /// When another source already has it.
    pub(super) fn claim(
        &self,
        directory: BorrowedFd<'_>,
        output: Identity,
        name: &OsStr,
    ) -> Result<(), FileError> {
        let mut taken = self.lock();
        if taken.has(name) || !taken.outputs.insert(output) {
            return Err(FileError::SameName(shown(name).to_string()));
        }
        taken.add(directory, name);
        Ok(())
    }

    /// Claims a name for a directory or a link by `make`, unless an entry of this run has the same
    /// name in another spelling.
    pub(super) fn take_name<T>(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        make: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let is_taken = self.lock().has(name) && Identity::of_name(directory, name)?.is_some();
        if is_taken {
            return Err(FileError::SameName(shown(name).to_string()));
        }
        let made = make()?;
        self.lock().add(directory, name);
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().ignore_poison()
    }
}

impl Taken {
    /// Returns whether a name leads to an output of this run, which is there.
    fn has_output(&self, there: Identity, name: &OsStr) -> bool {
        self.outputs.contains(&there) || self.has(name)
    }

    fn has(&self, name: &OsStr) -> bool {
        !self.names.is_empty() && self.names.contains(&in_small_letters(name))
    }

    /// Notes a name that exists now.
    fn add(&mut self, directory: BorrowedFd<'_>, name: &OsStr) {
        if self.folds.is_none() {
            self.folds = folds(directory, name);
        }
        if self.folds == Some(true) {
            self.names.insert(in_small_letters(name));
        }
    }
}

/// Returns whether a directory finds the existing `name` with one letter in the other case; `None`
/// if that can't be determined.
pub(crate) fn folds(directory: BorrowedFd<'_>, name: &OsStr) -> Option<bool> {
    let text = name.to_str()?;
    let at = text.find(char::is_alphabetic)?;
    let letter = text[at..].chars().next()?;
    let swapped = match letter.is_lowercase() {
        true => letter.to_uppercase().to_string(),
        false => letter.to_lowercase().to_string(),
    };
    let other = [&text[..at], &swapped, &text[at + letter.len_utf8()..]].concat();
    if other == text {
        return None;
    }
    Identity::of_name(directory, name).ok()??;
    match statat(directory, &*other, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Some(false),
        Err(_) => None,
        // Some list one of the two, some a third; if both are listed, they are two files.
        Ok(_) => {
            Some(!has_entry(directory, name).ok()? || !has_entry(directory, other.as_ref()).ok()?)
        }
    }
}

pub(crate) fn in_small_letters(name: &OsStr) -> Vec<u8> {
    match name.to_str() {
        Some(text) => text.to_lowercase().into_bytes(),
        None => name.as_encoded_bytes().to_ascii_lowercase(),
    }
}

/// Returns whether a directory has an entry of exactly this name, and not only one that its file
/// system treats as the same.
pub(super) fn has_entry(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
    any_entry(directory, |entry, _| entry.to_bytes() == name.as_encoded_bytes())
}

impl TreeWork<'_> {
    /// Gives an output its name; returns whether it has replaced another file.
    pub(super) fn publish_output(&self, finished: &Finished) -> Result<bool, FileError> {
        let Finished { directory, output, target, .. } = finished;
        let Some(into) = &directory.target else {
            return output.publish(self.outputs).map(|()| false);
        };
        let (claims, into) = (&directory.claims, into.as_fd());
        let publish = || {
            let identity = Identity::of_open(output.as_fd())?;
            output.publish(self.outputs)?;
            let named = match output.has_its_mode() {
                true => None,
                false => self.settle_named(finished, into)?,
            };
            Ok(named.unwrap_or(identity))
        };
        if self.minds_names() {
            return claims.publish(into, target, publish);
        }
        // If nothing is replaced and nothing is skipped, no name is ever taken twice.
        let output = publish().map_err(|error| claims.explain(into, target, error))?;
        claims.note(into, target, output);
        Ok(false)
    }

    /// The identity of an output that had a temporary name: some file systems give a file another
    /// number with each name, and some another time, which is set again.
    fn settle_named(
        &self,
        finished: &Finished,
        into: BorrowedFd<'_>,
    ) -> Result<Option<Identity>, FileError> {
        let Finished { source, output, target, .. } = finished;
        let there = || status_of_name_now(into, &**target).ok();
        let has_time = |there: &Stat| has_time_of(there, source.status());
        let Some(named) = there() else { return Identity::of_name(into, target) };
        if !has_time(&named) {
            // It is stored all the same.
            let _ = self.metadata.set_times(output.as_fd(), source.status());
            if !there().as_ref().is_some_and(has_time) {
                self.metadata.unkept.times.note();
            }
        }
        Ok(Some(Identity::of(&named)))
    }

    /// Refuses a name that would be mistaken for, or replace, one of Evener's own files: an
    /// unfinished output, the wrapped key of a sealed tree, the list of mount points.
    pub(super) fn refuse_own_name(
        &self,
        directory: &Directory,
        target: &OsStr,
    ) -> Result<(), FileError> {
        refuse_temporary(target)?;
        if self.operation != Operation::Encrypt || !directory.location.is_root() {
            return Ok(());
        }
        if is_wrapped_key_name(None, target) {
            return Err(Refusal::NameOfWrappedKey.into());
        }
        if target == MOUNT_LIST {
            return Err(Refusal::NameOfMountList.into());
        }
        Ok(())
    }

    /// Refuses a file of a tree that another format's file would be confused with.
    pub(super) fn refuse_twin(&self, directory: &Directory, item: &Item) -> Result<(), FileError> {
        let (sealed, plain) = match (self.operation, &directory.target) {
            _ if !self.is_tree => return Ok(()),
            (Operation::Encrypt, Some(made)) if !made.is_new => (made.as_fd(), &item.name),
            (Operation::Encrypt, _) => return Ok(()),
            _ => (directory.source.as_fd(), &item.target),
        };
        self.choice().refuse_twin(sealed, &directory.location, plain)
    }

    /// Returns whether outputs of earlier runs, and their unfinished files, may exist.
    pub(super) fn may_find_outputs(&self) -> bool {
        self.options.existing.resumes() || self.options.existing.replaces()
    }

    /// Returns whether a file from before the run is replaced, or taken for its output.
    pub(super) fn minds_names(&self) -> bool {
        self.outputs.replaces() || self.options.existing.resumes()
    }
}

/// Checks that an output's name leads to the file that was written; returns its identity.
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

/// Returns whether the file with an output's name holds exactly the bytes that were written.
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

/// The bytes compared at once.
const COMPARED_AT_ONCE: usize = 64 << 10;

/// Refuses an output name that is too long for a file. When nothing is written, the name is empty
/// or shorter than the source's.
pub(super) fn refuse_long_name(item: &Item) -> Result<(), FileError> {
    match item.target.len() {
        length if length > LONGEST_NAME => Err(FileError::NameTooLong { length }),
        _ => Ok(()),
    }
}

/// The longest file name on Linux, in bytes.
const LONGEST_NAME: usize = 255;
