//! Updates of outputs whose source has changed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use evener_core::shown;
use evener_pipeline::Worker;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};

use super::changed_since::modified;
use super::directory::{Directory, Item, Made};
use super::resume::Found;
use super::work::TreeWork;
use crate::FileError;
use crate::Operation;
use crate::identity::{Identity, permissions};
use crate::source::Source;
use evener_seal::{Blob, Room, SegmentError, opens_header};

impl TreeWork<'_> {
    /// With `Existing::Update`: finds out whether the output `there` belongs to its source's current
    /// state. If only its mode or other kept metadata differ, the output gets those from the
    /// source.
    ///
    /// # Errors
    /// When the output may not be replaced, as [`Update`](crate::Update) says.
    pub(super) fn look_for_change(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
        there: &Stat,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Found, SegmentError> {
        let Some(target) = directory.target.as_deref() else { return Ok(Found::Undone) };
        let is_current = self.difference(target, item, there, source)?.is_none()
            && self.is_unchanged_since(source.status(), target.as_fd(), &item.target, there);
        if self.operation == Operation::Encrypt {
            let is_all = room.is_all;
            match self.check_existing(target, item, source, there, room, worker) {
                Ok(()) => {}
                Err(SegmentError::File(FileError::Memory { .. })) if !is_all => {
                    return Ok(Found::Full);
                }
                Err(SegmentError::File(FileError::OtherKey(_)))
                    if self.options.existing.overwrites() =>
                {
                    return Ok(Found::Outdated);
                }
                Err(error) => return Err(error),
            }
        } else if !is_current && !self.options.existing.overwrites() {
            refuse_newer(&item.target, source.status(), there)?;
        }
        if !is_current {
            return Ok(Found::Outdated);
        }
        let named = self.named(directory, item);
        let has_new_mode = self.carry_mode(target, item, source, there).map_err(named)?;
        directory.claims.claim(target.as_fd(), Identity::of(there), &item.target)?;
        self.links.done(source, Identity::of(there));
        let path = || directory.path_of(&item.name);
        match has_new_mode {
            true => self.record.changed_mode(path, source.length()),
            false => self.record.unchanged(path, source.length()),
        }
        Ok(Found::Complete)
    }

    /// Gives an output the mode of its source, and the owner and extended attributes if those are
    /// kept, where they differ. Returns whether that changed them.
    fn carry_mode(
        &self,
        target: &Made,
        item: &Item,
        source: &Source,
        there: &Stat,
    ) -> Result<bool, FileError> {
        let granted = self.metadata.granted(there, source.status());
        let wanted = self.metadata.wanted_mode(source.status()) & granted;
        let has_owner = self.metadata.has_owner(source.status(), there);
        let is_current = permissions(there) == wanted && has_owner;
        if is_current && !self.options.xattrs || !is_current && self.options.dry_run {
            return Ok(!is_current);
        }
        let system = FileError::system("set its output's mode");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let output = openat(target, &item.target, flags, Mode::empty()).map_err(&system)?;
        if Identity::of_open(&output)? != Identity::of(there) {
            return Err(FileError::OutputGone(shown(&item.target).to_string()));
        }
        let has_xattrs = self.metadata.has_xattrs(source.as_fd(), output.as_fd())?;
        if is_current && has_xattrs || self.options.dry_run {
            return Ok(!has_xattrs);
        }
        if !has_owner || !has_xattrs {
            let (source, status) = (source.as_fd(), source.status());
            self.metadata.renew(source, status, output.as_fd(), granted)?;
            return Ok(true);
        }
        self.metadata.set_mode(output.as_fd(), wanted)?;
        // Some filesystems keep no modes, and report no error.
        let has_mode = permissions(&fstat(&output).map_err(&system)?) == wanted;
        if !has_mode {
            self.metadata.unkept.modes.note();
        }
        Ok(has_mode)
    }

    /// Refuses to replace a file that does not look like one that Evener made from a source.
    pub(super) fn refuse_foreign(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        there: &Stat,
    ) -> Result<(), FileError> {
        let other = || FileError::OtherKey(shown(name).to_string());
        match self.operation {
            _ if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile => Err(other()),
            Operation::Encrypt => {
                let sealed = Source::open(directory, name, false)?;
                if opens_header(self.keys, &sealed)? { Ok(()) } else { Err(other()) }
            }
            Operation::Decrypt | Operation::Verify => Ok(()),
        }
    }
}

/// Refuses to replace a decrypted file that was changed after its source was.
fn refuse_newer(name: &OsStr, source: &Stat, output: &Stat) -> Result<(), FileError> {
    match modified(output) > modified(source) {
        true => Err(FileError::Newer(shown(name).to_string())),
        false => Ok(()),
    }
}
