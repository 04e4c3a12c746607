//! Where an operation reads and writes: two trees, or two files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::shown;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, statat,
};
use rustix::io::Errno;

use super::Operation;
use super::directory::{Directory, Item, Made};
use super::names::Claims;
use crate::metadata::Metadata;
use crate::naming::behind_links;
use crate::{Failure, FileError, Options};

/// What the user's two paths turned out to be.
pub(super) enum Endpoints {
    /// A tree, and the tree it goes to.
    Tree { root: Arc<Directory> },
    /// One file in its directory.
    File { directory: Arc<Directory>, item: Item },
}

impl Endpoints {
    pub(super) fn find(
        operation: Operation,
        source: &Path,
        target: Option<&Path>,
        options: &Options,
    ) -> Result<Endpoints, Failure> {
        let fail = |path: &Path, error| Failure { path: path.to_owned(), error };
        let status = statat(CWD, source, AtFlags::empty())
            .map_err(|errno| fail(source, FileError::System { action: "open it", errno }))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                tree(source, &status, target, options).map_err(|(path, e)| fail(path, e))
            }
            FileType::RegularFile => {
                file(operation, source, &status, target, options).map_err(|(path, e)| fail(path, e))
            }
            _ => Err(fail(source, FileError::Refused("is neither a file nor a tree".to_owned()))),
        }
    }
}

impl Endpoints {
    /// What the paths of files are relative to: the tree, or the directory of a single file.
    pub(super) fn root<'p>(&self, source: &'p Path) -> &'p Path {
        match self {
            Endpoints::Tree { .. } => source,
            Endpoints::File { .. } => source.parent().unwrap_or(Path::new("")),
        }
    }
}

/// The name of a file's output; `None` when a sealed file does not have the suffix.
pub(super) fn target_name(operation: Operation, name: &OsStr, suffix: &OsStr) -> Option<OsString> {
    match operation {
        Operation::Encrypt => {
            let mut target = name.to_owned();
            target.push(suffix);
            Some(target)
        }
        Operation::Decrypt | Operation::Verify => {
            let stem = name.as_bytes().strip_suffix(suffix.as_bytes())?;
            (!stem.is_empty()).then(|| OsStr::from_bytes(stem).to_owned())
        }
    }
}

fn tree<'p>(
    source: &'p Path,
    status: &Stat,
    target: Option<&'p Path>,
    options: &Options,
) -> Result<Endpoints, (&'p Path, FileError)> {
    let opened = open_directory(source).map_err(|error| (source, error))?;
    let target = match target {
        None => None,
        Some(target) => {
            refuse_inside(source, status, target).map_err(|error| (target, error))?;
            let made = match options.dry_run {
                false => make_directory(target, status, options).map(Some),
                true => find_directory(target),
            };
            made.map_err(|error| (target, error))?
        }
    };
    let root = Directory {
        source: opened,
        target,
        path: PathBuf::new(),
        follows: options.follow_symlinks,
        claims: Claims::default(),
    };
    Ok(Endpoints::Tree { root: Arc::new(root) })
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
    let (target, target_name) = match target {
        None => (None, suffixed.unwrap_or_default()),
        Some(target) if target.is_dir() => {
            let opened = open_directory(target).map_err(|error| (target, error))?;
            let lacking = || FileError::Suffix(shown(&options.suffix).to_string());
            (Some(opened), suffixed.ok_or_else(|| (source, lacking()))?)
        }
        Some(target) => {
            // What a link points to is replaced, not the link.
            let behind = behind_links(target).map_err(|error| (target, error))?;
            let (directory, name) = split(&behind).map_err(|error| (target, error))?;
            let opened = open_directory(directory).map_err(|error| (target, error))?;
            (Some(opened), name.to_owned())
        }
    };
    if let Some(target) = &target {
        refuse_same(status, target, &target_name).map_err(|error| (source, error))?;
    }
    let target = target.map(|directory| Made::of(directory, false)).transpose();
    let directory = Directory {
        source: opened,
        target: target.map_err(|error| (source, error))?,
        path: PathBuf::new(),
        follows: true,
        claims: Claims::default(),
    };
    let item = Item { name: name.to_owned(), target: target_name };
    Ok(Endpoints::File { directory: Arc::new(directory), item })
}

/// Refuses a single file that is not to be taken as a source.
fn refuse_source(source: &Path, status: &Stat, options: &Options) -> Result<(), FileError> {
    if options.protected.contains(status) {
        return Err(FileError::Refused(PROTECTED.to_owned()));
    }
    let is_link = statat(CWD, source, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|itself| FileType::from_raw_mode(itself.st_mode) == FileType::Symlink);
    if is_link && options.remove_source {
        let reason = "is a symbolic link; to have the source removed, name the file itself";
        return Err(FileError::Refused(reason.to_owned()));
    }
    Ok(())
}

/// Refuses an output in the place of its own source, under whatever name.
fn refuse_same(source: &Stat, target: &OwnedFd, name: &OsStr) -> Result<(), FileError> {
    match statat(target, name, AtFlags::empty()) {
        Ok(there) if same_file(&there, source) => {
            let name = shown(name);
            Err(FileError::Refused(format!("the output `{name}` is the source itself")))
        }
        Ok(_) | Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(()),
        Err(errno) => Err(FileError::System { action: "look at its output", errno }),
    }
}

/// The directory of a file's path and the file's name.
fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    let name =
        path.file_name().ok_or_else(|| FileError::Refused("does not name a file".to_owned()))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(FileError::system("open the directory"))
}

/// Makes (or finds) the root of the target tree.
fn make_directory(path: &Path, source: &Stat, options: &Options) -> Result<Made, FileError> {
    let metadata = Metadata::of(options);
    let mode = metadata.directory_mode(source);
    let is_new = match mkdirat(CWD, path, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(FileError::System { action: "make the directory", errno }),
    };
    let directory = open_directory(path)?;
    if is_new && mode.bits() & metadata.umask != 0 {
        fchmod(&directory, mode).map_err(FileError::system("set its mode"))?;
    }
    Made::of(directory, is_new || options.target_is_new)
}

/// Finds the root of the target tree for a plan; `None` where it could be made.
fn find_directory(path: &Path) -> Result<Option<Made>, FileError> {
    match open_directory(path) {
        Ok(directory) => Made::of(directory, false).map(Some),
        Err(FileError::System { errno: Errno::NOENT, .. }) => {
            open_directory(split(path)?.0).map(|_| None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a target that is the source or lies inside it, whatever links lead there: the walk
/// would find its own outputs.
fn refuse_inside(source: &Path, status: &Stat, target: &Path) -> Result<(), FileError> {
    let mut at = match open_directory(target) {
        Ok(directory) => directory,
        // Not there yet: what counts is where it will be made.
        Err(FileError::System { errno: Errno::NOENT, .. }) => open_directory(split(target)?.0)?,
        Err(error) => return Err(error),
    };
    loop {
        let here = fstat(&at).map_err(FileError::system("read its status"))?;
        if same_file(&here, status) {
            let source = shown(source);
            return Err(FileError::Refused(format!("lies inside the source `{source}`")));
        }
        let parent = openat(
            at.as_fd(),
            c"..",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let parent = match parent {
            Ok(parent) => parent,
            // It can't be compared, but nor can the walk come from there.
            Err(Errno::ACCESS) => return Ok(()),
            Err(errno) => return Err(FileError::System { action: "open the directory", errno }),
        };
        let above = fstat(&parent).map_err(FileError::system("read its status"))?;
        if same_file(&above, &here) {
            return Ok(());
        }
        at = parent;
    }
}

/// Why a file is left alone.
pub(super) const PROTECTED: &str =
    "is a key of this operation, opens one, or is written by it, so it is left alone";

/// Whether two statuses are of one file.
pub(super) fn same_file(a: &Stat, b: &Stat) -> bool {
    a.st_dev == b.st_dev && a.st_ino == b.st_ino
}
