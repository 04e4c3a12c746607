//! Reading a local tree.

use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::nearby::Use;
use super::walk::{Walk, name_in};
use super::{Local, OPEN_DIRECTORY, READ_DIRECTORY, fault, is_link, leads_nowhere, stamp};
use crate::entries::any_entry_once;
use crate::identity::FileState;
use crate::place::{Abilities, Blob, Entry, Fault, Kind, Metadata, Name, Origin, Stamp};
use crate::source::Source;
use crate::temporary::is_temporary_name;
use crate::tree::open_directory;
use crate::{FileError, Refusal, left_out};
use evener_seal::{Blob as _, ReadAt};

impl Origin for Local {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK.with_metadata().sorted()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        match self.root(None) {
            Ok(root) => Box::new(Walk::new(self, root)),
            Err(error) => Box::new(iter::once(Err(fault(error, &Name::root())))),
        }
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        match self.entries_in(directory) {
            Err(FileError::System { errno, .. }) if errno.is(Errno::NOENT) => Ok(Vec::new()),
            entries => entries.map_err(|error| fault(error, directory)),
        }
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let opened = self.open_file(name).map_err(|error| match leads_nowhere(&error) {
            true => Fault::Missing(name.clone()),
            false if is_link(&error) => fault(Refusal::NotRegular.into(), name),
            false => fault(error, name),
        })?;
        let read = first.len().min(usize::try_from(opened.length()).unwrap_or(usize::MAX));
        opened.read_at(&mut first[..read], 0)?;
        Ok((Box::new(opened), read))
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

impl Local {
    fn open_file(&self, name: &Name) -> Result<Opened, FileError> {
        let (directory, file) = self.parent(name, None, Use::Files)?;
        let source = Source::open(directory.as_fd(), file, false)?;
        if self.options.protected.contains(source.status()) {
            return Err(Refusal::Protected.into());
        }
        let metadata = self.metadata(source.status(), Some(source.as_fd()))?;
        Ok(Opened { source, metadata })
    }

    /// The entries in a directory, which is opened anew: another one may have its name by now.
    fn entries_in(&self, name: &Name) -> Result<Vec<Entry>, FileError> {
        let (above, file) = match name.path().file_name() {
            None => (self.root(None)?.clone(), OsStr::new(".")),
            Some(_) => self.parent(name, None, Use::Files)?,
        };
        let opened = open_directory(above.as_fd(), file, false)
            .map_err(FileError::system(OPEN_DIRECTORY))?;
        let (mut entries, mut failed) = (Vec::new(), None);
        let read = any_entry_once(&opened, |file, _| {
            let file = OsStr::from_bytes(file.to_bytes());
            match self.look_at(opened.as_fd(), file, name_in(name.path(), file)) {
                Ok(found) => entries.extend(found.map(|(entry, _)| entry)),
                Err(error) => failed = Some(error),
            }
            failed.is_some()
        });
        read.map_err(FileError::system(READ_DIRECTORY))?;
        failed.map_or(Ok(entries), Err)
    }

    /// The entry of an open directory.
    pub(super) fn entry_of(
        &self,
        directory: BorrowedFd<'_>,
        name: Name,
    ) -> Result<Entry, FileError> {
        let status = fstat(directory).map_err(FileError::system("read its status"))?;
        let metadata = self.metadata(&status, Some(directory))?;
        let stamp = Some(stamp(&status));
        Ok(Entry { stamp, ..Entry::of(name, Kind::Directory, metadata) })
    }

    /// The entry with a name in a directory, and its state if it is a file with several names;
    /// `None` if it is gone.
    pub(super) fn look_at(
        &self,
        directory: BorrowedFd<'_>,
        file: &OsStr,
        name: Name,
    ) -> Result<Option<(Entry, Option<FileState>)>, FileError> {
        let system = FileError::system("open it");
        let status = match statat(directory, file, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            status => status.map_err(&system)?,
        };
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::Symlink => {
                let text = readlinkat(directory, file, Vec::new()).map_err(&system)?;
                Kind::SymbolicLink(PathBuf::from(OsString::from_vec(text.into_bytes())))
            }
            FileType::RegularFile if is_temporary_name(file.as_bytes()) => {
                Kind::LeftOut(left_out::UNFINISHED.to_owned())
            }
            FileType::RegularFile if self.options.protected.contains(&status) => {
                Kind::LeftOut(Refusal::Protected.to_string())
            }
            FileType::RegularFile => Kind::Object,
            other => Kind::LeftOut(left_out::special(other).to_owned()),
        };
        let is_object = kind == Kind::Object;
        let length = is_object.then_some(status.st_size as u64);
        let (stamp, metadata) = (Some(stamp(&status)), self.metadata(&status, None)?);
        let entry = Entry { length, stamp, ..Entry::of(name, kind, metadata) };
        let has_several = is_object && status.st_nlink > 1;
        Ok(Some((entry, has_several.then(|| FileState::of(&status)))))
    }
}

/// An open file.
struct Opened {
    source: Source,
    metadata: Metadata,
}

impl Blob for Opened {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.source.read_exact_at(buffer, at).map_err(unreadable)
    }

    fn check(&self) -> Result<(), Fault> {
        self.source.check_unchanged().map_err(unreadable)
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.metadata)
    }

    fn stamp(&self) -> Option<Stamp> {
        Some(stamp(self.source.status()))
    }
}

/// A fault of an open file: none of them names it.
fn unreadable(error: FileError) -> Fault {
    fault(error, &Name::root())
}
