//! The source and the target of an operation: two trees, or two files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::shown;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::around::Around;
use super::directory::{Directory, Item, Made};
use crate::access::may_make;
use crate::error::IntoSystemError;
use crate::inherited::Inherited;
use crate::location::Location;
use crate::metadata::Metadata;
use crate::naming::{
    behind_links, cant_open_directory, kind_of_name, no_output_directory, refuse_dangling,
    refuse_planted_directory,
};
use crate::unfinished::is_empty;
use crate::{Failure, FileError, Options, Refusal};
use crate::{Operation, SystemError};

/// The user's two paths, resolved.
pub(super) enum Endpoints {
    /// A tree, and the target tree; if links are followed, the places that they must not lead to.
    Tree { root: Arc<Directory>, around: Option<Around> },
    /// One file in its directory, its length in bytes, and the path of its output's directory.
    File { directory: Arc<Directory>, item: Item, length: u64, target: Option<PathBuf> },
}

impl Endpoints {
    pub(super) fn find(
        (operation, metadata): (Operation, &Metadata),
        source: &Path,
        target: Option<&Path>,
        options: &Options,
    ) -> Result<Endpoints, Failure> {
        let fail = |path: &Path, error| Failure { path: path.to_owned(), error };
        let status = statat(CWD, source, AtFlags::empty()).map_err(|errno| {
            fail(source, FileError::System { action: "open it", errno: errno.system() })
        })?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => tree(source, &status, target, (metadata, options))
                .map_err(|(path, e)| fail(path, e)),
            FileType::RegularFile => {
                file(operation, source, &status, target, options).map_err(|(path, e)| fail(path, e))
            }
            _ => Err(fail(source, Refusal::NeitherFileNorTree.into())),
        }
    }
}

impl Endpoints {
    /// The directory to which files' paths are relative: the tree, or a single file's directory.
    pub(super) fn root<'p>(&self, source: &'p Path) -> &'p Path {
        match self {
            Endpoints::Tree { .. } => source,
            Endpoints::File { .. } => source.parent().unwrap_or(Path::new("")),
        }
    }

    /// The output directory for the target that the user has named.
    pub(super) fn target(&self, target: Option<&Path>) -> Option<PathBuf> {
        match self {
            Endpoints::Tree { .. } => target.map(Path::to_owned),
            Endpoints::File { target, .. } => target.clone(),
        }
    }

    /// The places that followed links must not lead to.
    pub(super) fn around(&self) -> Option<&Around> {
        match self {
            Endpoints::Tree { around, .. } => around.as_ref(),
            Endpoints::File { .. } => None,
        }
    }

    /// The length of a single file, in bytes.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Endpoints::Tree { .. } => None,
            Endpoints::File { length, .. } => Some(*length),
        }
    }
}

/// The name of a file's output; `None` when a sealed file does not have the suffix.
pub(crate) fn target_name(operation: Operation, name: &OsStr, suffix: &OsStr) -> Option<OsString> {
    match operation {
        Operation::Encrypt => {
            let mut target = name.to_owned();
            target.push(suffix);
            Some(target)
        }
        Operation::Decrypt | Operation::Verify => {
            let stem = name.as_bytes().strip_suffix(suffix.as_bytes())?;
            // The remainder of `..enc` is not a valid file name.
            let is_name = !matches!(stem, b"" | b"." | b"..");
            is_name.then(|| OsStr::from_bytes(stem).to_owned())
        }
    }
}

/// The reason that a sealed file has no [`target_name`].
pub(crate) fn no_target_name(name: &OsStr, suffix: &OsStr) -> FileError {
    match name.as_bytes().strip_suffix(suffix.as_bytes()) {
        None => FileError::Suffix(shown(suffix).to_string()),
        Some(_) => Refusal::NothingButSuffix(shown(suffix).to_string()).into(),
    }
}

fn tree<'p>(
    source: &'p Path,
    status: &Stat,
    target: Option<&'p Path>,
    (metadata, options): (&Metadata, &Options),
) -> Result<Endpoints, (&'p Path, FileError)> {
    let opened = open_directory(source).map_err(|error| (source, error))?;
    let made = match target {
        None => None,
        Some(target) => {
            let found = find_target(source, status, &opened, target, (metadata, options));
            found.map_err(|error| (target, error))?
        }
    };
    let around = options.follow_symlinks.then(|| Around::of(opened.as_fd(), target)).transpose();
    let around = around.map_err(|error| (source, error))?;
    let root = Directory {
        source: opened,
        target: made.map(Arc::new),
        location: Location::root(),
        follows: options.follow_symlinks,
        claims: Arc::default(),
    };
    Ok(Endpoints::Tree { root: Arc::new(root), around })
}

/// Makes (or, for a plan, finds) the root of the target tree, apart from the source.
fn find_target(
    source: &Path,
    status: &Stat,
    opened: &OwnedFd,
    target: &Path,
    (metadata, options): (&Metadata, &Options),
) -> Result<Option<Made>, FileError> {
    let target = &match options.follow_target {
        true => behind_links(target)?,
        false => without_link(target)?,
    };
    refuse_inside(source, status, target)?;
    refuse_around(source, opened, target)?;
    match options.dry_run {
        false => make_directory(target, status, (metadata, options)).map(Some),
        true => find_directory(target),
    }
}

fn file<'p>(
    operation: Operation,
    source: &'p Path,
    status: &Stat,
    target: Option<&'p Path>,
    options: &Options,
) -> Result<Endpoints, (&'p Path, FileError)> {
    refuse_source(source, status, options).map_err(|error| (source, error))?;
    let (source_directory, name) = split(source).map_err(|error| (source, error))?;
    let opened = open_directory(source_directory).map_err(|error| (source, error))?;
    let suffixed = target_name(operation, name, &options.suffix);
    let (opened_target, output_name) = match target {
        None => (None, suffixed.unwrap_or_default()),
        Some(target) if target.is_dir() => {
            let behind = behind_links(target).map_err(|error| (target, error))?;
            let opened = open_target(&behind).map_err(|error| (target, error))?;
            refuse_planted_directory(opened.as_fd(), &behind).map_err(|error| (target, error))?;
            let lacking = || (source, no_target_name(name, &options.suffix));
            (Some((opened, target.to_owned())), suffixed.ok_or_else(lacking)?)
        }
        Some(target) => {
            // The target of a link is replaced, not the link.
            let behind = behind_links(target).map_err(|error| (target, error))?;
            refuse_dangling(target).map_err(|error| (target, error))?;
            let (directory, name) = split(&behind).map_err(|error| (target, error))?;
            let opened = open_directory(directory).map_err(|error| (target, error))?;
            let place = behind.parent().unwrap_or(Path::new("")).to_owned();
            (Some((opened, place)), name.to_owned())
        }
    };
    if let Some((target, _)) = &opened_target {
        refuse_same(status, target, &output_name).map_err(|error| (source, error))?;
    }
    let (opened_target, place) = opened_target.unzip();
    let made = opened_target.map(|directory| Made::of(directory, false)).transpose();
    let made = made.map_err(|error| (target.unwrap_or(source), error))?;
    let directory = Directory {
        source: opened,
        target: made.map(Arc::new),
        location: Location::root(),
        follows: true,
        claims: Arc::default(),
    };
    let item = Item::new(name, output_name);
    let length = u64::try_from(status.st_size).unwrap_or_default();
    Ok(Endpoints::File { directory: Arc::new(directory), item, length, target: place })
}

/// A path whose last name is not a symbolic link. Later steps do not follow one that takes its
/// place.
fn without_link(path: &Path) -> Result<PathBuf, FileError> {
    let (parent, name) = split(path)?;
    let parent = behind_links(parent)?;
    let directory = open_directory(&parent)?;
    refuse_planted_directory(directory.as_fd(), &parent)?;
    match kind_of_name(directory.as_fd(), name) {
        None | Some(FileType::Directory) => Ok(parent.join(name)),
        Some(_) => Err(no_output_directory(directory.as_fd(), name, Errno::NOTDIR)),
    }
}

/// Refuses a single file that must not be a source.
fn refuse_source(source: &Path, status: &Stat, options: &Options) -> Result<(), FileError> {
    if options.protected.contains(status) {
        return Err(Refusal::Protected.into());
    }
    let is_link = statat(CWD, source, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|itself| FileType::from_raw_mode(itself.st_mode) == FileType::Symlink);
    if is_link && options.remove_source {
        return Err(Refusal::LinkToRemove.into());
    }
    Ok(())
}

/// Refuses an output that would replace its own source, under whatever name.
fn refuse_same(source: &Stat, target: &OwnedFd, name: &OsStr) -> Result<(), FileError> {
    match statat(target, name, AtFlags::empty()) {
        Ok(there) if same_file(&there, source) => {
            Err(Refusal::OutputIsSource(shown(name).to_string()).into())
        }
        Ok(_) | Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(()),
        Err(errno) => {
            Err(FileError::System { action: "look at its output", errno: errno.system() })
        }
    }
}

/// The directory of a file's path, and the file's name.
fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    let name = path.file_name().ok_or(Refusal::NoFileName)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| cant_open_directory(path, errno))
}

/// Opens a directory that [`behind_links`] has found. A link that has taken its place since is not
/// followed.
fn open_target(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
        // It may still be made.
        Errno::NOENT => FileError::System { action: "open the directory", errno: errno.system() },
        errno => cant_open_directory(path, errno),
    })
}

/// Makes (or finds) the root of the target tree.
fn make_directory(
    path: &Path,
    source: &Stat,
    (metadata, options): (&Metadata, &Options),
) -> Result<Made, FileError> {
    let mode = metadata.directory_mode(source);
    let inherited = inherited_at(path)?;
    let at_first = inherited.mode_at_first(mode);
    let made = match mkdirat(CWD, path, metadata.mode_to_make(at_first, mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => {
            return Err(FileError::System { action: "make the directory", errno: errno.system() });
        }
    };
    let directory = open_target(path)?;
    refuse_planted_directory(directory.as_fd(), path)?;
    let is_new = made && is_empty(&directory)? || metadata.is_just_made(&directory, at_first)?;
    let is_unfinished = metadata.is_marked(directory.as_fd(), source);
    if is_new {
        metadata.mark(directory.as_fd(), source);
    }
    if is_new || options.target_is_new {
        let granted = metadata.settle(inherited, directory.as_fd(), source)?;
        if is_new && (mode.bits() & metadata.umask != 0 || at_first != mode) {
            metadata.widen(directory.as_fd(), mode & granted)?;
        }
    }
    Made::of(directory, is_new || is_unfinished || options.target_is_new)
}

/// The attributes that a directory made at a path inherits from its parent.
fn inherited_at(path: &Path) -> Result<Inherited, FileError> {
    let Ok((parent, _)) = split(path) else { return Ok(Inherited::ANYTHING) };
    match open_directory(parent) {
        Ok(parent) => {
            let status = fstat(&parent).map_err(FileError::system("read its status"))?;
            Ok(Inherited::from(parent.as_fd(), &status))
        }
        // Making an entry in a directory does not require permission to read it.
        Err(FileError::System { errno, .. }) if errno.is(Errno::ACCESS) => Ok(Inherited::ANYTHING),
        Err(error) => Err(error),
    }
}

/// Finds the root of the target tree for a plan; `None` if it could be made.
fn find_directory(path: &Path) -> Result<Option<Made>, FileError> {
    match open_target(path) {
        Ok(directory) => {
            refuse_planted_directory(directory.as_fd(), path)?;
            Made::of(directory, false).map(Some)
        }
        Err(FileError::System { errno, .. }) if errno.is(Errno::NOENT) => {
            let parent = open_directory(split(path)?.0)?;
            may_make(parent.as_fd()).map_err(FileError::system("make the directory"))?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a target that is the source or is inside it, whatever links lead there: the walk would
/// find its own outputs.
fn refuse_inside(source: &Path, status: &Stat, target: &Path) -> Result<(), FileError> {
    let (at, is_there) = place_of_target(target)?;
    let there = fstat(&at).map_err(FileError::system("read its status"))?;
    if is_there && same_file(&there, status) {
        return Err(Refusal::IsSource.into());
    }
    match is_at_or_above(status, at)? {
        true => Err(Refusal::InsideSource(shown(source).to_string()).into()),
        false => Ok(()),
    }
}

/// Refuses a target tree that is the source, is inside it or contains it, whatever links lead there.
pub(crate) fn refuse_overlap(source: &Path, target: &Path) -> Result<(), Failure> {
    let fail = |path: &Path, error| Failure { path: path.to_owned(), error };
    let opened = open_directory(source).map_err(|error| fail(source, error))?;
    let system = FileError::system("read its status");
    let status = fstat(&opened).map_err(|errno| fail(source, system(errno)))?;
    let behind = behind_links(target).map_err(|error| fail(target, error))?;
    refuse_inside(source, &status, &behind)
        .and_then(|()| refuse_around(source, &opened, &behind))
        .map_err(|error| fail(target, error))
}

/// Opens a target tree, or the directory in which it will be made; returns whether it exists.
pub(super) fn place_of_target(target: &Path) -> Result<(OwnedFd, bool), FileError> {
    match open_target(target) {
        Err(FileError::System { errno, .. }) if errno.is(Errno::NOENT) => {
            Ok((open_directory(split(target)?.0)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Refuses a target that contains the source, whatever links lead there: an output could have the
/// name of a source, or of an entry beside it.
fn refuse_around(source: &Path, opened: &OwnedFd, target: &Path) -> Result<(), FileError> {
    let status = match open_target(target) {
        Ok(directory) => fstat(&directory).map_err(FileError::system("read its status"))?,
        // Nothing is inside it yet.
        Err(FileError::System { errno, .. }) if errno.is(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let opened = opened.try_clone().map_err(|error| FileError::System {
        action: "open the directory",
        errno: SystemError::of(&error),
    })?;
    if is_at_or_above(&status, opened)? {
        return Err(Refusal::AroundSource(shown(source).to_string()).into());
    }
    Ok(())
}

/// Returns whether a directory is `below` or contains it.
fn is_at_or_above(directory: &Stat, below: OwnedFd) -> Result<bool, FileError> {
    each_above(below, |above| same_file(above, directory))
}

/// Examines a directory and each one that contains it, until one is found.
pub(super) fn each_above(
    below: OwnedFd,
    mut is_found: impl FnMut(&Stat) -> bool,
) -> Result<bool, FileError> {
    let mut at = below;
    loop {
        let here = fstat(&at).map_err(FileError::system("read its status"))?;
        if is_found(&here) {
            return Ok(true);
        }
        // Passing through a directory does not require permission to read it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = match openat(at.as_fd(), c"..", flags, Mode::empty()) {
            Ok(parent) => parent,
            // It can't be compared, but the walk can't come from there either.
            Err(Errno::ACCESS) => return Ok(false),
            Err(errno) => {
                return Err(FileError::System {
                    action: "open the directory",
                    errno: errno.system(),
                });
            }
        };
        let above = fstat(&parent).map_err(FileError::system("read its status"))?;
        if same_file(&above, &here) {
            return Ok(false);
        }
        at = parent;
    }
}

/// Returns whether two statuses belong to one file.
pub(super) fn same_file(a: &Stat, b: &Stat) -> bool {
    a.st_dev == b.st_dev && a.st_ino == b.st_ino
}
