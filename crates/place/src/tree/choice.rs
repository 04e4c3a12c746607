//! Chooses the entries of a tree that an operation takes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use evener_keys::is_wrapped_key_in;
use rustix::fs::{AtFlags, FileType, Stat, statat};

use super::around::Around;
use super::mounts::is_mount_list_in;
use super::walk::Entry;
use crate::location::Location;
use crate::selection::Watch;
use crate::temporary::is_temporary_name;
use crate::{FileError, Operation, TreeOptions, left_out};

/// Everything on which the choice depends.
pub(super) struct Choice<'a> {
    pub(super) operation: Operation,
    pub(super) options: &'a TreeOptions,
    pub(super) selection: &'a Watch<'a>,
    /// The places that followed links must not lead to.
    pub(super) around: Option<&'a Around>,
    /// True if the files are age's own: no wrapped keys lie beside them.
    pub(super) is_of_age: bool,
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
    /// When the file is left out: the reason, if the user is to be told one.
    pub(super) fn output_of(
        &self,
        &Entry { directory, name, .. }: &Entry<'_>,
    ) -> Result<OsString, Option<Cow<'static, str>>> {
        if is_temporary_name(name.as_bytes()) {
            return Err(Some(left_out::UNFINISHED.into()));
        }
        let (source, sealed) = (directory.source.as_fd(), self.operation != Operation::Encrypt);
        if sealed && is_mount_list_in(source, name) {
            return Err(None);
        }
        if sealed && !self.is_of_age && is_wrapped_key_in(source, name, directory.follows) {
            // A wrapped key that opens files in this run is in use.
            let is_used = statat(source, name, AtFlags::empty())
                .is_ok_and(|status| self.options.protected.contains(&status));
            return Err((!is_used).then(|| left_out::WRAPPED_KEY.into()));
        }
        let output = self.options.names.output(self.operation, name);
        output.map_err(|error| Some(error.to_string().into()))
    }
}
