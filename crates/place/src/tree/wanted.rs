//! The entries of a target directory to which the names of a source lead.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use crate::entries::Entries;
use crate::identity::Identity;
use crate::source::Source;
use crate::{FileError, SealedNames};
use evener_seal::Blob;

/// Entries that names of the source lead to, in a target directory that lists them under other
/// names.
#[derive(Default)]
pub(super) struct Wanted {
    /// The beginnings of sealed files. Each has a random salt that no other file has; it stays the
    /// same on a file system that gives one file two numbers.
    beginnings: Vec<Vec<u8>>,
    /// Listed directories, and their names in the source.
    directories: Vec<(Identity, OsString)>,
    /// True if there are other directories, which are not known by their numbers.
    unknown_directories: bool,
}

impl Wanted {
    /// Looks up every output name from `source` that is not listed in that form.
    pub(super) fn find(
        source: &Entries,
        names: &SealedNames,
        target: BorrowedFd<'_>,
        listing: &Entries,
    ) -> Result<Wanted, FileError> {
        let mut wanted = Wanted::default();
        let mut listed = None;
        for name in source.kinds.keys() {
            let sealed = names.seal(name);
            if listing.kind(&sealed).is_none()
                && look_up(target, &sealed)?.is_some_and(|(_, kind)| kind == FileType::RegularFile)
            {
                wanted.beginnings.push(beginning(target, &sealed)?);
            }
            if listing.kind(name).is_some() {
                continue;
            }
            let Some((identity, FileType::Directory)) = look_up(target, name)? else { continue };
            let listed = match &mut listed {
                Some(listed) => listed,
                empty => empty.insert(listed_directories(target, listing)?),
            };
            match listed.contains(&identity) {
                true => wanted.directories.push((identity, name.clone())),
                false => wanted.unknown_directories = true,
            }
        }
        Ok(wanted)
    }

    /// Returns whether a listed file is one of them.
    pub(super) fn contains(&self, target: BorrowedFd<'_>, name: &OsStr) -> Result<bool, FileError> {
        if self.beginnings.is_empty() {
            return Ok(false);
        }
        let beginning = beginning(target, name)?;
        Ok(self.beginnings.contains(&beginning))
    }

    /// The name of a listed directory in the source.
    pub(super) fn name_of(&self, directory: Identity) -> Option<&OsStr> {
        let found = self.directories.iter().find(|(identity, _)| *identity == directory);
        found.map(|(_, name)| name.as_os_str())
    }

    pub(super) fn has_unknown_directories(&self) -> bool {
        self.unknown_directories
    }
}

/// The entry that a name leads to, through no symbolic link.
pub(super) fn look_up(
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<Option<(Identity, FileType)>, FileError> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok(Some((Identity::of(&there), FileType::from_raw_mode(there.st_mode)))),
        // Names that are impossible there do not exist there.
        Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => Ok(None),
        Err(errno) => Err(FileError::system("look at its output")(errno)),
    }
}

/// The first bytes of a file, including its salt if it is sealed.
pub(super) fn beginning(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Vec<u8>, FileError> {
    Source::open(directory, name, false)?.beginning(LONGEST_BEGINNING)
}

fn listed_directories(
    target: BorrowedFd<'_>,
    listing: &Entries,
) -> Result<Vec<Identity>, FileError> {
    let mut identities = Vec::new();
    for (name, kind) in &listing.kinds {
        if *kind == FileType::Directory
            && let Some((identity, _)) = look_up(target, name)?
        {
            identities.push(identity);
        }
    }
    Ok(identities)
}

/// More than the header of any format, and a first chunk's beginning.
const LONGEST_BEGINNING: u64 = 256;
