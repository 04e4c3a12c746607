//! Looks at the names that files are to get, and refuses those that belong to somebody else.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, lstat, stat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::{FileError, Refusal};

pub(crate) use evener_keys::naming::{Naming, has_no_links, rename_to_free};

/// Refuses a name that anything but a regular file has: files do not replace devices, FIFOs and
/// symbolic links.
pub(crate) fn refuse_special(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), FileError> {
    match kind_of_name(directory, name) {
        None | Some(FileType::RegularFile) => Ok(()),
        Some(kind) => Err(FileError::Special {
            name: evener_core::shown(name).to_string(),
            kind: noun_of(kind),
        }),
    }
}

/// The kind of a name's entry, without following a symbolic link; `None` if it can't be read.
pub(crate) fn kind_of_name(directory: BorrowedFd<'_>, name: &OsStr) -> Option<FileType> {
    let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(there.st_mode))
}

/// The noun for a kind of file, as in "the output is a device".
pub(crate) fn noun_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        FileType::Directory => "a directory",
        _ => "a file",
    }
}

/// Returns whether a path leads to a FIFO, device or socket, which takes bytes, and not to a name
/// that another file can get.
pub(crate) fn is_device(directory: BorrowedFd<'_>, path: &Path) -> bool {
    let there = statat(directory, path, AtFlags::SYMLINK_NOFOLLOW);
    there.is_ok_and(|there| {
        matches!(
            FileType::from_raw_mode(there.st_mode),
            FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice | FileType::Socket
        )
    })
}

/// The error for a path that does not lead to a directory, with the part that is not one.
pub(crate) fn cant_open_directory(path: &Path, errno: Errno) -> FileError {
    let failed = FileError::system("open the directory")(errno);
    if !matches!(errno, Errno::NOTDIR | Errno::NOENT) {
        return failed;
    }
    let parts: Vec<_> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    let is_directory =
        |part: &Path| stat(part).is_ok_and(|there| is_of_kind(&there, FileType::Directory));
    let Some(part) = parts.into_iter().rev().find(|part| !is_directory(part)) else {
        return failed;
    };
    let name = evener_core::shown(part).to_string();
    let refusal = match (stat(part), lstat(part)) {
        (Ok(there), _) => {
            let kind = noun_of(FileType::from_raw_mode(there.st_mode));
            Refusal::NoDirectory { name, kind }
        }
        (Err(Errno::NOENT), Ok(_)) => Refusal::DanglingDirectory(name),
        (Err(Errno::NOENT), Err(_)) => Refusal::MissingDirectory(name),
        _ => return failed,
    };
    refusal.into()
}

fn is_of_kind(status: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(status.st_mode) == kind
}

/// The error for a name that does not lead to an output directory; `errno` comes from opening it.
pub(crate) fn no_output_directory(parent: BorrowedFd<'_>, name: &OsStr, errno: Errno) -> FileError {
    match kind_of_name(parent, name) {
        Some(kind) if kind != FileType::Directory => FileError::NoDirectory {
            name: evener_core::shown(name).to_string(),
            kind: noun_of(kind),
        },
        _ => FileError::system("open its output directory")(errno),
    }
}

/// Follows a path that may be a symbolic link to a file, or to the place where one is to be made.
///
/// # Errors
/// [`FileError::Refused`] when a stranger has put a link on the way into a common directory, such
/// as /tmp, whether or not the kernel is set to refuse that.
pub(crate) fn behind_links(path: &Path) -> Result<PathBuf, FileError> {
    let failed = |errno: Errno| FileError::system("follow its symbolic links")(errno);
    let mut at = without_slash(path);
    let mut links = 0;
    while let Ok(text) = std::fs::read_link(&at) {
        links += 1;
        if links > MOST_LINKS {
            return Err(failed(Errno::LOOP));
        }
        refuse_stranger(&at, Refusal::PlantedLink)?;
        at = without_slash(&at.parent().unwrap_or(Path::new("")).join(text));
    }
    // The kernel may refuse links on the way that are not the path's last part.
    match std::fs::metadata(path) {
        Err(error) if links > 0 && error.kind() != ErrorKind::NotFound => {
            Err(failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))
        }
        _ => Ok(at),
    }
}

/// Refuses to add to a file that a stranger has put into a common directory, such as /tmp, or to
/// the target of a stranger's link there: a FIFO, for example, from which the stranger reads.
///
/// # Errors
/// [`FileError::Refused`] for such a path, and the system's error if it can't be examined.
pub fn refuse_planted(path: &Path) -> Result<(), FileError> {
    // Whoever started the program has opened these descriptors for it.
    if ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"].iter().any(|it| path.starts_with(it)) {
        return Ok(());
    }
    let behind = behind_links(path)?;
    if stat(&behind).is_err() {
        return Ok(());
    }
    refuse_stranger(&behind, Refusal::Planted)
}

/// Refuses a dangling symbolic link: a file would be made at its target, which may not be where the
/// user meant.
pub(crate) fn refuse_dangling(path: &Path) -> Result<(), FileError> {
    match (lstat(path), stat(path)) {
        (Ok(itself), Err(Errno::NOENT)) if is_of_kind(&itself, FileType::Symlink) => {
            Err(Refusal::Dangling.into())
        }
        _ => Ok(()),
    }
}

/// Refuses a file in a directory where everybody can make names, unless it belongs to the user, the
/// system or the directory's owner: the rule of Linux's `protected_symlinks` and `protected_fifos`.
fn refuse_stranger(path: &Path, refusal: fn(String) -> Refusal) -> Result<(), FileError> {
    let failed = FileError::system("read the status of what it leads to");
    let itself = lstat(path).map_err(&failed)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = stat(parent.unwrap_or(Path::new("."))).map_err(&failed)?;
    refuse_of_stranger(&itself, &directory, path, refusal)
}

/// Refuses an open directory that a stranger has put into a common directory, such as /tmp: the
/// stranger could read what is written there, and exchange it.
///
/// # Errors
/// [`FileError::Refused`] for such a directory, and the system's error if it can't be examined.
pub(crate) fn refuse_planted_directory(
    opened: BorrowedFd<'_>,
    path: &Path,
) -> Result<(), FileError> {
    let failed = FileError::system("read the status of what it leads to");
    let itself = fstat(opened).map_err(&failed)?;
    match statat(opened, c"..", AtFlags::empty()) {
        Ok(above) => refuse_of_stranger(&itself, &above, path, Refusal::Planted),
        // In that case no names can be made in it either.
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

/// Refuses the file with the status `itself`, in the directory with the status `directory`.
fn refuse_of_stranger(
    itself: &Stat,
    directory: &Stat,
    path: &Path,
    refusal: fn(String) -> Refusal,
) -> Result<(), FileError> {
    let common = Mode::SVTX | Mode::WOTH;
    let is_common = Mode::from_raw_mode(directory.st_mode).contains(common);
    let trusted = [geteuid().as_raw(), 0, directory.st_uid];
    if !is_common || trusted.contains(&itself.st_uid) {
        return Ok(());
    }
    Err(refusal(evener_core::shown(path).to_string()).into())
}

/// The path without a slash at its end, so that it names a link itself.
fn without_slash(path: &Path) -> PathBuf {
    path.components().as_path().to_owned()
}

/// The number of links that the kernel follows.
const MOST_LINKS: u32 = 40;
