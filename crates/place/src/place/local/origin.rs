//! Reading a local tree.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::{Local, fault, leads_nowhere};
use crate::identity::{FileState, Identity};
use crate::location::Location;
use crate::place::{Abilities, Blob, Entry, Fault, Kind, Metadata, Name, Origin};
use crate::source::Source;
use crate::temporary::is_temporary_name;
use crate::tree::Descent;
use crate::{FileError, Refusal, left_out};
use evener_seal::{Blob as _, ReadAt};

impl Origin for Local {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK.with_metadata()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        match self.root(None) {
            Ok(root) => Box::new(Walk {
                local: self,
                root: root.identity,
                descent: Descent::new(root.as_fd(), false),
                directories: vec![Location::root()],
                entries: VecDeque::new(),
                first: HashMap::new(),
            }),
            Err(error) => Box::new(iter::once(Err(fault(error, &Name::root())))),
        }
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let opened = self.open_file(name).map_err(|error| match leads_nowhere(&error) {
            true => Fault::Missing(name.clone()),
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
        let (directory, file) = self.parent(name, None)?;
        let source = Source::open(directory.as_fd(), file, false)?;
        if self.options.protected.contains(source.status()) {
            return Err(Refusal::Protected.into());
        }
        let metadata = self.metadata(source.status(), Some(source.as_fd()))?;
        Ok(Opened { source, metadata, name: name.clone() })
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
        let entry = Entry { length, ..Entry::of(name, kind, self.metadata(&status, None)?) };
        let has_several = is_object && status.st_nlink > 1;
        Ok(Some((entry, has_several.then(|| FileState::of(&status)))))
    }
}

/// A walk through a tree, one directory at a time.
struct Walk<'a> {
    local: &'a Local,
    root: Identity,
    descent: Descent<'a>,
    /// The directories still to be read.
    directories: Vec<Arc<Location>>,
    /// The entries of the last one.
    entries: VecDeque<Result<Entry, Fault>>,
    /// The first names of files with several.
    first: HashMap<FileState, Name>,
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Result<Entry, Fault>> {
        while self.entries.is_empty() {
            let location = self.directories.pop()?;
            if let Err(error) = self.read(&location) {
                self.entries.push_back(Err(unread(Name::found(location.path()), &error)));
            }
        }
        self.entries.pop_front()
    }
}

impl Walk<'_> {
    /// Reads a directory: its own entry, and those in it but for directories.
    fn read(&mut self, location: &Arc<Location>) -> Result<(), FileError> {
        let Walk { local, root, descent, directories, entries, first } = self;
        let system = FileError::system("read the directory");
        let directory = descent.to(location).map_err(FileError::system(super::OPEN_DIRECTORY))?;
        let status = fstat(directory).map_err(&system)?;
        let metadata = local.metadata(&status, Some(directory))?;
        let itself = Name::found(location.path());
        entries.push_back(Ok(Entry::of(itself.clone(), Kind::Directory, metadata)));
        if local.options.one_file_system && !Identity::of(&status).is_beside(*root) {
            let kind = Kind::LeftOut(left_out::OTHER_FILE_SYSTEM.to_owned());
            entries.push_back(Ok(Entry::of(itself, kind, Metadata::default())));
            return Ok(());
        }
        for entry in Dir::read_from(directory).map_err(&system)? {
            let entry = entry.map_err(&system)?;
            let file = OsStr::from_bytes(entry.file_name().to_bytes());
            if matches!(file.as_bytes(), b"." | b"..") {
                continue;
            }
            let name = Name::found(location.path_of(file));
            match local.look_at(directory, file, name.clone()) {
                Ok(Some((Entry { kind: Kind::Directory, .. }, _))) => {
                    directories.push(Location::below(location, file));
                }
                Ok(Some((mut entry, state))) => {
                    let first = state.map(|state| first.entry(state).or_insert(name.clone()));
                    if let Some(first) = first.filter(|first| **first != name) {
                        entry.kind = Kind::HardLink(first.clone());
                    }
                    entries.push_back(Ok(entry));
                }
                Ok(None) => {}
                Err(error) => entries.push_back(Err(unread(name, &error))),
            }
        }
        Ok(())
    }
}

fn unread(name: Name, error: &FileError) -> Fault {
    Fault::Entry { name, reason: error.to_string() }
}

/// An open file.
struct Opened {
    source: Source,
    metadata: Metadata,
    name: Name,
}

impl Blob for Opened {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.source.read_exact_at(buffer, at).map_err(|error| fault(error, &self.name))
    }

    fn check(&self) -> Result<(), Fault> {
        self.source.check_unchanged().map_err(|error| fault(error, &self.name))
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.metadata)
    }
}
