//! The source and the target of an operation: two trees, or two files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::shown;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::around::{Around, with_those_above};
use super::directory::{Directory, Item, Made};
use crate::access::may_make;
use crate::identity::Identity;
use crate::inherited::Inherited;
use crate::metadata::Metadata;
use crate::naming::{
    behind_links, cant_open_directory, kind_of_name, no_output_directory, refuse_dangling,
    refuse_planted_directory,
};
use crate::unfinished::is_empty;
use crate::{Failure, FileError, Operation, Refusal, TreeOptions};

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
        options: &TreeOptions,
    ) -> Result<Endpoints, Failure> {
        let status = statat(CWD, source, AtFlags::empty()).map_err(FileError::system("open it"));
        let status = status.map_err(at(source))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => tree(source, &status, target, (metadata, options)),
            FileType::RegularFile => file(operation, source, &status, target, options),
            _ => Err(at(source)(Refusal::NeitherFileNorTree.into())),
        }
    }

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

/// For `map_err`: a failure of what a path leads to.
fn at(path: &Path) -> impl Fn(FileError) -> Failure + '_ {
    |error| Failure { path: path.to_owned(), error }
}

fn tree(
    source: &Path,
    status: &Stat,
    target: Option<&Path>,
    (metadata, options): (&Metadata, &TreeOptions),
) -> Result<Endpoints, Failure> {
    let opened = open_directory(source).map_err(at(source))?;
    let find = |target| {
        let found = find_target(source, status, &opened, target, (metadata, options));
        found.map_err(at(target))
    };
    let made = target.map(find).transpose()?.flatten();
    let around = options.follow_symlinks.then(|| Around::of(opened.as_fd(), target)).transpose();
    let around = around.map_err(at(source))?;
    let mut root = Directory::root(opened, options.follow_symlinks).map_err(at(source))?;
    root.target = made.map(Arc::new);
    Ok(Endpoints::Tree { root: Arc::new(root), around })
}

/// Makes (or, for a plan, finds) the root of the target tree, apart from the source.
fn find_target(
    source: &Path,
    status: &Stat,
    opened: &OwnedFd,
    target: &Path,
    (metadata, options): (&Metadata, &TreeOptions),
) -> Result<Option<Made>, FileError> {
    let target = &match options.program.shared.is_some() {
        false => {
            let behind = behind_links(target)?;
            refuse_dangling(target)?;
            behind
        }
        true => without_link(target)?,
    };
    refuse_nested(source, (status, opened), target)?;
    let found = match options.dry_run {
        false => make_directory(target, status, (metadata, options)).map(Some)?,
        true => find_directory(target)?,
    };
    if let (Some(shared), Some(made)) = (&options.program.shared, &found) {
        let (parent, name) = split(target)?;
        shared.claims.claim(open_directory(parent)?.as_fd(), made.identity, name)?;
    }
    Ok(found)
}

fn file(
    operation: Operation,
    source: &Path,
    status: &Stat,
    target: Option<&Path>,
    options: &TreeOptions,
) -> Result<Endpoints, Failure> {
    refuse_source(source, status, options).map_err(at(source))?;
    let (source_directory, name) = split(source).map_err(at(source))?;
    let opened = open_directory(source_directory).map_err(at(source))?;
    let suffixed = options.names.output(operation, name);
    let (opened_target, output_name) = match target {
        None => (None, suffixed.unwrap_or_default()),
        Some(target) if target.is_dir() => {
            let opened = open_behind(target).map_err(at(target))?;
            (Some((opened, target.to_owned())), suffixed.map_err(at(source))?)
        }
        Some(target) => {
            let (opened, place, name) = open_above(target).map_err(at(target))?;
            (Some((opened, place)), name)
        }
    };
    if let Some((target, _)) = &opened_target {
        refuse_same(status, target, &output_name).map_err(at(source))?;
    }
    let (opened_target, place) = opened_target.unzip();
    let made = opened_target.map(|directory| Made::of(directory, false)).transpose();
    let made = made.map_err(at(target.unwrap_or(source)))?;
    let mut directory = Directory::root(opened, true).map_err(at(source))?;
    directory.target = made.map(Arc::new);
    if let Some(shared) = &options.program.shared {
        directory.claims = shared.claims.clone();
    }
    let item = Item::new(name, output_name);
    let length = u64::try_from(status.st_size).unwrap_or_default();
    Ok(Endpoints::File { directory: Arc::new(directory), item, length, target: place })
}

/// Opens the directory to which a path leads.
fn open_behind(target: &Path) -> Result<OwnedFd, FileError> {
    let behind = behind_links(target)?;
    let opened = open_target(&behind)?;
    refuse_planted_directory(opened.as_fd(), &behind)?;
    Ok(opened)
}

/// Opens the directory of an output, and returns its path and the output's name. The target of a
/// link is replaced, not the link.
fn open_above(target: &Path) -> Result<(OwnedFd, PathBuf, OsString), FileError> {
    let behind = behind_links(target)?;
    refuse_dangling(target)?;
    let (directory, name) = split(&behind)?;
    let place = behind.parent().unwrap_or(Path::new("")).to_owned();
    Ok((open_directory(directory)?, place, name.to_owned()))
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
fn refuse_source(source: &Path, status: &Stat, options: &TreeOptions) -> Result<(), FileError> {
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
        Ok(there) if Identity::of(&there) == Identity::of(source) => {
            Err(Refusal::OutputIsSource(shown(name).to_string()).into())
        }
        Ok(_) | Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(()),
        Err(errno) => Err(FileError::system("look at its output")(errno)),
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
        Errno::NOENT => FileError::system("open the directory")(errno),
        errno => cant_open_directory(path, errno),
    })
}

/// Makes (or finds) the root of the target tree.
fn make_directory(
    path: &Path,
    source: &Stat,
    (metadata, options): (&Metadata, &TreeOptions),
) -> Result<Made, FileError> {
    let mode = metadata.directory_mode(source);
    let inherited = inherited_at(path)?;
    let at_first = inherited.mode_at_first(mode);
    let made = match mkdirat(CWD, path, metadata.mode_to_make(at_first, mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(FileError::system("make the directory")(errno)),
    };
    let directory = open_target(path)?;
    refuse_planted_directory(directory.as_fd(), path)?;
    let is_new = made && is_empty(&directory)? || metadata.is_just_made(&directory, at_first)?;
    let is_unfinished = metadata.is_marked(directory.as_fd(), source);
    if is_new {
        metadata.mark(directory.as_fd(), source);
    }
    if is_new || options.program.target_is_new {
        let granted = metadata.settle(inherited, directory.as_fd(), source)?;
        if is_new && (mode.bits() & metadata.umask != 0 || at_first != mode) {
            metadata.widen(directory.as_fd(), mode & granted)?;
        }
    }
    Made::of(directory, is_new || is_unfinished || options.program.target_is_new)
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
    match place_of_target(path)? {
        (directory, true) => {
            refuse_planted_directory(directory.as_fd(), path)?;
            Made::of(directory, false).map(Some)
        }
        (parent, false) => {
            may_make(parent.as_fd()).map_err(FileError::system("make the directory"))?;
            Ok(None)
        }
    }
}

/// Refuses a target that is the source, is inside it or contains it, whatever links lead there: the
/// walk would find its own outputs, or an output could have the name of a source, or of an entry
/// beside it.
fn refuse_nested(
    source: &Path,
    (status, opened): (&Stat, &OwnedFd),
    target: &Path,
) -> Result<(), FileError> {
    let (at, is_there) = place_of_target(target)?;
    let there = fstat(&at).map_err(FileError::system("read its status"))?;
    let (there, itself) = (Identity::of(&there), Identity::of(status));
    if is_there && there == itself {
        return Err(Refusal::IsSource.into());
    }
    let name = || shown(source).to_string();
    if with_those_above(at.as_fd())?.contains(&itself) {
        return Err(Refusal::InsideSource(name()).into());
    }
    if is_there && with_those_above(opened.as_fd())?.contains(&there) {
        return Err(Refusal::AroundSource(name()).into());
    }
    Ok(())
}

/// Refuses a target tree that is the source, is inside it or contains it, whatever links lead there.
pub(crate) fn refuse_overlap(source: &Path, target: &Path) -> Result<(), Failure> {
    let opened = open_directory(source).map_err(at(source))?;
    let status = fstat(&opened).map_err(FileError::system("read its status"));
    let status = status.map_err(at(source))?;
    let behind = behind_links(target).map_err(at(target))?;
    refuse_nested(source, (&status, &opened), &behind).map_err(at(target))
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
