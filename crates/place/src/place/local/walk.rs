//! A walk through a local tree, sorted as [`Abilities::sorted`](crate::place::Abilities::sorted)
//! says. Of a directory only the names are kept: an entry is looked at when it is its turn.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::{Local, OPEN_DIRECTORY, READ_DIRECTORY};
use crate::entries::any_entry;
use crate::identity::FileState;
use crate::location::Location;
use crate::place::{Entry, Fault, Kind, Metadata, Name};
use crate::tree::{Descent, Made, open_directory};
use crate::{FileError, left_out};

/// A walk through a tree.
pub(super) struct Walk<'a> {
    local: &'a Local,
    /// The file system of the root.
    device: Option<u64>,
    descent: Descent<'a>,
    /// The results that come before the next entry.
    before: VecDeque<Result<Entry, Fault>>,
    /// The directory whose entries come now.
    directory: Directory,
    /// The directories to read after it, the next ones last.
    later: Vec<Later>,
    /// The first names of files with several.
    first: HashMap<FileState, Name>,
}

/// A directory whose names were read.
struct Directory {
    location: Arc<Location>,
    path: PathBuf,
    names: Names,
    /// The directories among its entries so far.
    inner: Names,
}

/// Directories in another, of which some are still to be read.
struct Later {
    above: Arc<Location>,
    names: Names,
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Result<Entry, Fault>> {
        loop {
            let next = self.before.pop_front().or_else(|| self.next_here());
            if next.is_some() || !self.go_on() {
                return next;
            }
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(local: &'a Local, root: &'a Made) -> Walk<'a> {
        let itself = local.entry_of(root.as_fd(), Name::root());
        let mut walk = Walk {
            local,
            device: itself.as_ref().ok().and_then(device_of),
            descent: Descent::new(root.as_fd(), false),
            before: VecDeque::new(),
            directory: Directory::at(Location::root()),
            later: Vec::new(),
            first: HashMap::new(),
        };
        walk.before.push_back(itself.map_err(|error| unread(Name::root(), &error)));
        walk.read();
        walk
    }

    /// Reads the names in the directory.
    fn read(&mut self) {
        let Walk { descent, before, directory: Directory { location, path, names, .. }, .. } = self;
        let mut read = || {
            let opened = descent.to(location).map_err(FileError::system(OPEN_DIRECTORY))?;
            let read = any_entry(opened, |name, _| {
                names.push(name.to_bytes());
                false
            });
            read.map_err(FileError::system(READ_DIRECTORY))
        };
        if let Err(error) = read() {
            before.push_back(Err(unread(Name::found(path.clone()), &error)));
        }
        names.sort();
    }

    /// Goes on to the next directory. Returns false if that was the last.
    fn go_on(&mut self) -> bool {
        let Directory { location, inner, .. } = &mut self.directory;
        if !inner.is_empty() {
            self.later.push(Later { above: location.clone(), names: std::mem::take(inner) });
        }
        let Some(Later { above, names }) = self.later.last_mut() else { return false };
        let Some(name) = names.take() else { return false };
        self.directory = Directory::at(Location::below(above, name));
        if names.is_empty() {
            self.later.pop();
        }
        self.read();
        true
    }

    /// Looks at the next entry of the directory that is still there; `None` if that was the last.
    fn next_here(&mut self) -> Option<Result<Entry, Fault>> {
        let Walk { local, device, descent, before, directory, first, .. } = self;
        let Directory { location, path, names, inner } = directory;
        loop {
            let file = names.take()?;
            let above = descent.to(location).map_err(FileError::system(OPEN_DIRECTORY));
            let name = name_in(path, file);
            let found = above.and_then(|above| local.look_closely(above, file, name, first));
            let found = found.map_err(|error| unread(name_in(path, file), &error));
            let Some(found) = found.transpose() else { continue };
            match &found {
                Ok(entry) if entry.kind != Kind::Directory => {}
                Ok(entry) if local.options.one_file_system && device_of(entry) != *device => {
                    let kind = Kind::LeftOut(left_out::OTHER_FILE_SYSTEM.to_owned());
                    before.push_back(Ok(Entry::of(entry.name.clone(), kind, Metadata::default())));
                }
                Ok(_) => inner.push(file.as_bytes()),
                Err(_) => {}
            }
            return Some(found);
        }
    }
}

impl Local {
    /// As [`Local::look_at`]. The entry of a directory is that of the open one, and a file that
    /// has its first name in `first` gets this as a further one.
    fn look_closely(
        &self,
        above: BorrowedFd<'_>,
        file: &OsStr,
        name: Name,
        first: &mut HashMap<FileState, Name>,
    ) -> Result<Option<Entry>, FileError> {
        let Some((mut entry, state)) = self.look_at(above, file, name)? else { return Ok(None) };
        if let Some(state) = state {
            let first = first.entry(state).or_insert_with(|| entry.name.clone());
            if *first != entry.name {
                entry.kind = Kind::HardLink(first.clone());
            }
        }
        if entry.kind != Kind::Directory {
            return Ok(Some(entry));
        }
        match open_directory(above, file, false) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::system(OPEN_DIRECTORY)(errno)),
            Ok(opened) => self.entry_of(opened.as_fd(), entry.name).map(Some),
        }
    }
}

impl Directory {
    fn at(location: Arc<Location>) -> Directory {
        let path = location.path();
        Directory { location, path, names: Names::default(), inner: Names::default() }
    }
}

fn device_of(entry: &Entry) -> Option<u64> {
    entry.stamp.map(|stamp| stamp.device)
}

/// The name of an entry in a directory.
pub(super) fn name_in(directory: &Path, file: &OsStr) -> Name {
    let mut path = PathBuf::with_capacity(directory.as_os_str().len() + 1 + file.len());
    path.push(directory);
    path.push(file);
    Name::found(path)
}

fn unread(name: Name, error: &FileError) -> Fault {
    Fault::Entry { name, reason: error.to_string() }
}

/// Names in one buffer, each with a zero byte behind it.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    /// The offset of each.
    starts: Vec<usize>,
    /// The number of those that were taken.
    taken: usize,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    /// Sorts them as bytes. The zero bytes end each comparison: names in a directory differ.
    fn sort(&mut self) {
        let Names { bytes, starts, .. } = self;
        starts.sort_unstable_by(|one, other| bytes[*one..].cmp(&bytes[*other..]));
    }

    /// The next one that was not taken.
    fn take(&mut self) -> Option<&OsStr> {
        let name = CStr::from_bytes_until_nul(&self.bytes[*self.starts.get(self.taken)?..]).ok()?;
        self.taken += 1;
        Some(OsStr::from_bytes(name.to_bytes()))
    }

    fn is_empty(&self) -> bool {
        self.taken == self.starts.len()
    }
}
