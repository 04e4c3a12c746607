//! Chooses the entries of a tree that an operation takes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use evener_core::shown;
use evener_keys::{Guess, is_wrapped_key_in, recognise};
use rustix::fs::{AtFlags, FileType, Stat, statat};

use super::around::Around;
use super::directory::Directory;
use super::mounts::is_mount_list_in;
use super::walk::Entry;
use crate::location::Location;
use crate::selection::Watch;
use crate::source::Source;
use crate::temporary::is_temporary_name;
use crate::{FileError, KeyRing, Operation, Refusal, SealedNames, TreeOptions, left_out};
use evener_seal::Blob;

/// Everything on which the choice depends.
pub(super) struct Choice<'a> {
    pub(super) operation: Operation,
    pub(super) options: &'a TreeOptions,
    pub(super) selection: &'a Watch<'a>,
    /// The places that followed links must not lead to.
    pub(super) around: Option<&'a Around>,
    /// The keys that tell wrapped keys from age's own files.
    pub(super) keys: Option<&'a KeyRing>,
}

/// The file to which an entry leads.
pub(super) struct Found {
    pub(super) kind: FileType,
    /// Its status, if that was needed.
    pub(super) status: Option<Stat>,
    /// True if the selection takes it.
    pub(super) is_taken: bool,
}

impl Choice<'_> {
    /// Looks at an entry, through a symbolic link if links are followed.
    ///
    /// # Errors
    /// When it has no status, or is a link that must not be followed.
    pub(super) fn look_at(&self, entry: &Entry<'_>) -> Result<Found, FileError> {
        let (kind, status) = entry.kind()?;
        let Entry { directory, name, listed } = *entry;
        let is_taken = self.takes(&directory.location, name, kind);
        if is_taken
            && kind != listed
            && matches!(kind, FileType::Directory | FileType::RegularFile)
            && let (Some(around), Some(found)) = (self.around, &status)
        {
            around.refuse_link(directory.source.as_fd(), name, found)?;
        }
        Ok(Found { kind, status, is_taken })
    }

    fn takes(&self, location: &Location, name: &OsStr, kind: FileType) -> bool {
        // If everything is taken, no path need be built.
        if self.options.selection.takes_everything() {
            return true;
        }
        match kind {
            FileType::Directory => {
                self.selection.takes_directory(&self.selection.path_of(location, name))
            }
            FileType::RegularFile => self.selection.takes_file(&self.plain_path(location, name)),
            _ => self.selection.takes_file(&self.selection.path_of(location, name)),
        }
    }

    /// The path that globs and paths are compared with: a file's path below the root, without the
    /// suffix that encryption appends.
    pub(super) fn plain_path(&self, location: &Location, name: &OsStr) -> PathBuf {
        self.selection.path_of(location, &self.options.names.plain(self.operation, name))
    }

    /// The name of a file's output.
    ///
    /// # Errors
    /// When the file has none.
    pub(super) fn output_of(
        &self,
        &Entry { directory, name, .. }: &Entry<'_>,
    ) -> Result<OsString, Unfit> {
        let left_out = |reason: &'static str| Unfit::LeftOut(reason.into());
        if is_temporary_name(name.as_bytes()) {
            return Err(left_out(left_out::UNFINISHED));
        }
        let (source, sealed) = (directory.source.as_fd(), self.operation != Operation::Encrypt);
        if sealed && is_mount_list_in(source, name) {
            return Err(Unfit::Beside);
        }
        if sealed && self.is_wrapped_key(source, name, directory.follows) {
            // A wrapped key that opens files in this run is in use.
            let is_used = statat(source, name, AtFlags::empty())
                .is_ok_and(|status| self.options.protected.contains(&status));
            return Err(if is_used { Unfit::Beside } else { left_out(left_out::WRAPPED_KEY) });
        }
        let output = self.options.names.output(self.operation, name);
        output.map_err(|error| match sealed && self.is_of_other_format(directory, name) {
            true => Unfit::Failed(Refusal::OtherFormat.into()),
            false => Unfit::LeftOut(error.to_string().into()),
        })
    }

    /// Returns whether a file is an encrypted one that this run does not take: of age, or with the
    /// suffix of the other formats in a run of age.
    fn is_of_other_format(&self, directory: &Directory, name: &OsStr) -> bool {
        let is_of_age = || {
            let file = Source::open(directory.source.as_fd(), name, directory.follows)?;
            Ok::<_, FileError>(recognise(&file.beginning(BEGINNING)?) == Guess::Age)
        };
        let is_suffix = |suffix: &str| name.as_bytes().ends_with(suffix.as_bytes());
        self.other_suffix()
            .filter(|it| is_suffix(it))
            .is_some_and(|it| is_of_age() == Ok(it == AGE))
    }

    /// The usual suffix of age's files, or in a run of age that of the others; `None` if the files of
    /// this run have another than the usual one.
    fn other_suffix(&self) -> Option<&'static str> {
        let suffix = self.options.names.suffix();
        let is_of_age = self.keys.map_or(suffix == AGE, KeyRing::is_of_age);
        let (own, other) = match is_of_age {
            true => (AGE, SealedNames::DEFAULT_SUFFIX),
            false => (SealedNames::DEFAULT_SUFFIX, AGE),
        };
        (suffix == own).then_some(other)
    }

    /// Refuses a sealed file, source or output, if beside it in `directory` there is one of another
    /// format that would be decrypted to the same name, `plain`.
    pub(super) fn refuse_twin(
        &self,
        directory: BorrowedFd<'_>,
        location: &Location,
        plain: &OsStr,
    ) -> Result<(), FileError> {
        let Some(suffix) = self.other_suffix() else { return Ok(()) };
        let twin: OsString = [plain, suffix.as_ref()].into_iter().collect();
        let there = statat(directory, &twin, AtFlags::SYMLINK_NOFOLLOW);
        let is_file =
            there.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile);
        let is_excluded = || {
            self.operation != Operation::Encrypt
                && self.selection.excludes(&self.plain_path(location, &twin))
        };
        if is_file && !is_excluded() && !self.is_wrapped_key(directory, &twin, false) {
            let (plain, twin) = (shown(plain).to_string(), shown(&twin).to_string());
            return Err(Refusal::TwoFormats { plain, twin }.into());
        }
        Ok(())
    }

    fn is_wrapped_key(&self, directory: BorrowedFd<'_>, name: &OsStr, follow: bool) -> bool {
        match self.keys {
            Some(keys) => keys.is_wrapped_key_in(directory, name, follow),
            None => is_wrapped_key_in(directory, name, follow),
        }
    }
}

/// The reason why a file has no output.
pub(super) enum Unfit {
    /// It belongs to the files beside it.
    Beside,
    /// It is left out, for this reason.
    LeftOut(Cow<'static, str>),
    /// It is refused.
    Failed(FileError),
}

/// The suffix of age's files.
const AGE: &str = ".age";

/// The number of bytes that show whether a file is of age.
const BEGINNING: u64 = 72;
