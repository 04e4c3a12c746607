//! Remembers which directories of the source were mount points.
//!
//! If a disk below the source is not mounted, its files seem to be gone. So the target of a tree
//! keeps a list of the source's mount points in the file `.evener-mounts`, and nothing is deleted
//! below a listed directory while it is not a mount point. The list holds only names that the
//! target shows anyway. It is in the target so that every update finds it, wherever and by whomever
//! it is run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use evener_core::IgnorePoison;
use rustix::fs::{
    AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fstat, openat, statat, statx,
};
use rustix::io::Errno;

use super::descent::Descent;
use super::directory::Directory;
use super::work::TreeWork;
use crate::location::Location;
use crate::output::Outputs;
use crate::source::Source;
use crate::{FileError, Operation, Refusal};
use evener_seal::Blob;

/// Returns whether a file is a target's list of mount points.
pub(crate) fn is_mount_list_in(directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let begins = || {
        let beginning = Source::open(directory, name, false)?.beginning(MAGIC.len() as u64)?;
        Ok::<_, FileError>(is_mount_list_beginning(&beginning))
    };
    name == MOUNT_LIST && begins() == Ok(true)
}

/// Returns whether these bytes begin a list of mount points.
pub(crate) fn is_mount_list_beginning(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The mount points of a source, as paths below its root.
#[derive(Default)]
pub(super) struct Mounts {
    root: OnceLock<Arc<Directory>>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The mount points of this run and of earlier ones.
    known: BTreeSet<PathBuf>,
    /// True if no other directory with outputs was a mount point at the last run.
    is_whole: bool,
    /// True if this run has left out directories of the source, which may be mount points.
    has_gap: bool,
    /// The reason that the list can't be kept.
    trouble: Option<FileError>,
}

impl Mounts {
    /// Returns whether every directory that is not listed was no mount point at the last run.
    pub(super) fn is_whole(&self) -> bool {
        self.list().is_whole
    }

    /// Notes that a directory of the source was left out.
    pub(super) fn leave_gap(&self) {
        self.list().has_gap = true;
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().ignore_poison()
    }
}

impl TreeWork<'_> {
    /// Reads the target's list. A list that can't be read counts as missing.
    pub(super) fn recall_mounts(&self, root: &Arc<Directory>) {
        let (Operation::Encrypt, Some(target)) = (self.operation, &root.target) else { return };
        if self.mounts.root.set(root.clone()).is_err() {
            return;
        }
        let mut list = self.mounts.list();
        match read(target.as_fd()) {
            Ok(None) => {}
            Ok(Some((known, is_whole))) => (list.known, list.is_whole) = (known, is_whole),
            Err(error) => list.trouble = Some(error),
        }
    }

    /// Notes a directory of the source if it is a mount point, before anything in it is stored.
    /// Returns whether it was a mount point and no longer is.
    pub(super) fn note_mount(&self, directory: &Directory) -> Result<bool, FileError> {
        let Directory { source, location, .. } = directory;
        if self.mounts.root.get().is_none() {
            return Ok(false);
        }
        let is_mount = self
            .is_entrance(source.as_fd())
            .map_err(FileError::system("see whether it is mounted"))?;
        let mut list = self.mounts.list();
        // Below a link into another file system, all directories belong to that.
        let is_new = |path: &Path| {
            !self.options.follow_symlinks || !list.known.iter().any(|it| path.starts_with(it))
        };
        if is_mount && !is_new(&location.path()) {
            return Ok(false);
        }
        if !is_mount {
            // Building a path takes as long as it is deep.
            let is_deeper = list.known.iter().all(|known| known.iter().count() < location.depth());
            return Ok(!is_deeper && list.known.contains(&location.path()));
        }
        if list.known.insert(location.path()) {
            self.keep(&mut list);
        }
        Ok(false)
    }

    /// The directories that were mount points and no longer are.
    pub(super) fn missing_mounts(&self) -> Vec<PathBuf> {
        let list = self.mounts.list();
        let places = list.known.iter().filter(|path| *path != Path::new(OTHER_SOURCE));
        places.filter(|path| self.is_mounted(path) != Ok(true)).cloned().collect()
    }

    /// Returns whether a directory of the source is a mount point, or a link to another file
    /// system.
    fn is_entrance(&self, directory: BorrowedFd<'_>) -> Result<bool, Errno> {
        let leads_away = match self.mounts.root.get().filter(|root| root.follows) {
            Some(root) => root.status.st_dev != fstat(directory)?.st_dev,
            None => false,
        };
        Ok(leads_away || is_mount_point(directory)?)
    }

    /// Notes that none of the outputs were of the source, for example because it is not mounted. To
    /// the next run, the outputs of this very run do not prove that the source is mounted.
    pub(super) fn note_other_source(&self) {
        let mut list = self.mounts.list();
        if list.known.insert(OTHER_SOURCE.into()) {
            self.keep(&mut list);
        }
    }

    /// Returns whether that was noted, by this run or an earlier one.
    pub(super) fn was_other_source(&self) -> bool {
        self.mounts.list().known.contains(Path::new(OTHER_SOURCE))
    }

    /// The mount point that holds the source, as a path upwards from the source's root; `None` if
    /// that is the system's root.
    fn holder(&self) -> Option<PathBuf> {
        let root = self.mounts.root.get()?;
        let mut upwards = PathBuf::new();
        let mut at = root.source.try_clone().ok()?;
        for _ in 0..MOST_UPWARDS {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = openat(&at, c"..", flags, Mode::empty()).ok()?;
            let (here, there) = (fstat(&at).ok()?, fstat(&above).ok()?);
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
                return None;
            }
            if is_mount_point(at.as_fd()).ok()? {
                return (!upwards.as_os_str().is_empty()).then_some(upwards);
            }
            upwards.push("..");
            at = above;
        }
        None
    }

    fn is_mounted(&self, path: &Path) -> Result<bool, Errno> {
        let Some(root) = self.mounts.root.get() else { return Ok(false) };
        let below = |above: Arc<Location>, name| Location::below(&above, name);
        let location = path.iter().fold(Location::root(), below);
        let mut way = Descent::new(root.source.as_fd(), root.follows);
        way.find(&location)?.map_or(Ok(false), |directory| self.is_entrance(directory))
    }

    /// Forgets directories that are no longer mount points, once no output is left of files that
    /// were only below them, or if `Delete::unmounted` permits it. All other directories
    /// were no mount points.
    pub(super) fn settle_mounts(&self) {
        let mut list = self.mounts.list();
        let List { known, is_whole, has_gap, .. } = &*list;
        let is_kept = |path: &&PathBuf| match **path == *OTHER_SOURCE {
            true => !self.options.existing.deletes_unmounted(),
            false => {
                self.is_mounted(path) != Ok(false) || !self.options.selection.takes_directory(path)
            }
        };
        let mut kept: BTreeSet<_> = known.iter().filter(is_kept).cloned().collect();
        kept.extend(self.holder());
        let now_whole = *is_whole || !has_gap || self.options.existing.deletes_unmounted();
        if kept != *known || now_whole != *is_whole {
            (list.known, list.is_whole) = (kept, now_whole);
            self.keep(&mut list);
        }
    }

    /// Reports why the list could not be read or written. An up-to-date target may be read-only.
    pub(super) fn tell_of_mounts(&self, target: &Path) {
        let Some(error) = self.mounts.list().trouble.take() else { return };
        let path = target.join(MOUNT_LIST);
        match &error {
            FileError::System { errno, .. }
                if ![Errno::ROFS, Errno::ACCESS, Errno::PERM].iter().any(|it| errno.is(*it)) =>
            {
                self.record.failed_of(path, error);
            }
            _ => {
                let reason = format!("the source's mount points are not remembered here: {error}");
                self.record.notice_of(path, reason);
            }
        }
    }

    /// Writes the list, unless the existing one can't be read: a later version may have made it.
    fn keep(&self, list: &mut List) {
        let target = self.mounts.root.get().and_then(|root| root.target.as_ref());
        let (Some(target), true, None) = (target, self.writes(), &list.trouble) else { return };
        let mut text = MAGIC.to_vec();
        text.extend_from_slice(if list.is_whole { WHOLE } else { PART });
        for path in &list.known {
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(0);
        }
        let outputs =
            Outputs::new(self.operation, true, false, &self.options.protected, &self.run.control);
        let written = outputs
            .create(target.as_fd(), OsStr::new(MOUNT_LIST), Mode::RUSR | Mode::WUSR)
            .and_then(|output| {
                output.write_all_at(&text, 0)?;
                output.publish(&outputs)
            });
        list.trouble = written.err();
    }
}

/// Reads a target's list, and whether it is whole.
fn read(target: BorrowedFd<'_>) -> Result<Option<(BTreeSet<PathBuf>, bool)>, FileError> {
    let unknown = || FileError::from(Refusal::UnknownMountList);
    let file = match Source::open(target, OsStr::new(MOUNT_LIST), false) {
        Err(FileError::System { errno, .. }) if errno.is(Errno::NOENT) => return Ok(None),
        Err(FileError::System { errno, .. }) if errno.is(Errno::LOOP) => return Err(unknown()),
        opened => opened?,
    };
    if file.length() > LONGEST {
        return Err(unknown());
    }
    let text = file.beginning(LONGEST)?;
    let rest = text.strip_prefix(MAGIC).ok_or_else(unknown)?;
    let (is_whole, paths) = match (rest.strip_prefix(WHOLE), rest.strip_prefix(PART)) {
        (Some(paths), _) => (true, paths),
        (_, Some(paths)) => (false, paths),
        (None, None) => return Err(unknown()),
    };
    let paths = match paths {
        [] => BTreeSet::new(),
        [paths @ .., 0] => {
            paths.split(|&byte| byte == 0).map(|path| OsStr::from_bytes(path).into()).collect()
        }
        _ => return Err(unknown()),
    };
    Ok(Some((paths, is_whole)))
}

/// Returns whether something is mounted at an open directory. If the kernel does not say, a
/// different file system from the parent directory's shows it.
fn is_mount_point(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    match statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty()) {
        Ok(found) if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            return Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
        }
        // Old kernels, and sandboxes that do not know the call.
        Ok(_) | Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let (itself, above) = (fstat(directory)?, statat(directory, c"..", AtFlags::empty())?);
    Ok(itself.st_dev != above.st_dev || itself.st_ino == above.st_ino)
}

/// The name of the list in the root of the target.
pub(super) const MOUNT_LIST: &str = ".evener-mounts";

/// The entry in the list for [`TreeWork::note_other_source`].
const OTHER_SOURCE: &str = "/";

/// More directories than there are above any source.
const MOST_UPWARDS: usize = 4096;

/// The list's beginning; then comes whether it is whole, and each path with a zero byte after it.
const MAGIC: &[u8] = b"evener-mounts:v1:";
const WHOLE: &[u8] = b"whole\n";
const PART: &[u8] = b"part\n";

/// The longest list that is read, in bytes.
const LONGEST: u64 = 1 << 20;
