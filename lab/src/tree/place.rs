//! The directories in which trees are built.

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{fstatfs, fstatvfs, syncfs};
use tempfile::TempDir;

use crate::LabError;

/// A private directory on a file system; removed when dropped.
pub(crate) struct Place {
    /// `tmpfs`, or `disk` for everything else.
    pub(crate) name: &'static str,
    /// The kernel's name of the file system, if known, such as `ext4`.
    pub(crate) file_system: String,
    root: TempDir,
    handle: File,
    discarded: Cell<u32>,
}

impl Place {
    /// Makes a directory below `parent` that only this user may enter.
    pub(crate) fn below(parent: &Path) -> Result<Place, LabError> {
        let root = tempfile::Builder::new()
            .prefix("evener-bench-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(LabError::file("create a directory in", parent))?;
        let handle = File::open(root.path()).map_err(LabError::file("open", root.path()))?;
        let magic = fstatfs(&handle)
            .map_err(|error| LabError::file("look at", root.path())(error.into()))?
            .f_type;
        let file_system = name_of(magic as i64);
        let name = if file_system == "tmpfs" { "tmpfs" } else { "disk" };
        Ok(Place { name, file_system, root, handle, discarded: Cell::new(0) })
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Rejects a workload that needs more than the free space.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<(), LabError> {
        let found = fstatvfs(&self.handle)
            .map_err(|error| LabError::file("look at", self.root.path())(error.into()))?;
        let available = found.f_bavail.saturating_mul(found.f_frsize);
        if available >= bytes {
            return Ok(());
        }
        let place = self.root.path().to_owned();
        Err(LabError::Space { place, available: available >> 20, needed: bytes >> 20 })
    }

    /// Moves a contender's output away.
    ///
    /// On ext4 the output remains until the place is dropped, if there is enough space: to allocate
    /// an inode, ext4 skips all inodes deleted in the last minutes (`recently_deleted` in
    /// fs/ext4/ialloc.c), so removing some thousand files makes the next turn ten times slower. A
    /// tree of few files is removed, because it would only fill the page cache.
    pub(crate) fn discard(&self, path: &Path) -> Result<(), LabError> {
        let has_room = || fstatvfs(&self.handle).is_ok_and(|s| s.f_bavail > s.f_blocks / 4);
        if self.file_system != "ext4" || !holds_many_files(path) || !has_room() {
            return remove(path);
        }
        let number = self.discarded.replace(self.discarded.get() + 1);
        let aside = self.root.path().join(format!("discarded-{number}"));
        fs::rename(path, &aside).map_err(LabError::file("rename", path))
    }

    /// Waits until the file system has nothing left to write.
    pub(crate) fn settle(&self) -> Result<(), LabError> {
        syncfs(&self.handle).map_err(|error| LabError::file("sync", self.root.path())(error.into()))
    }
}

/// Returns whether there are 100 files or more below a directory.
fn holds_many_files(directory: &Path) -> bool {
    let (mut directories, mut files) = (vec![directory.to_owned()], 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                _ => files += 1,
            }
            if files >= 100 {
                return true;
            }
        }
    }
    false
}

/// Removes a tree, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LabError::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// The name of a magic number in `linux/magic.h`.
fn name_of(magic: i64) -> String {
    match magic {
        0x0102_1994 => "tmpfs".to_owned(),
        0xEF53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683E => "btrfs".to_owned(),
        0x794C_7630 => "overlayfs".to_owned(),
        0x2FC1_2FC1 => "zfs".to_owned(),
        other => format!("{other:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_there_until_dropped() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let inside = place.path("inside");
        fs::create_dir(&inside).unwrap();
        place.settle().unwrap();
        place.check_room(1).unwrap();
        let error = place.check_room(u64::MAX).unwrap_err();
        assert!(matches!(error, LabError::Space { .. }), "{error}");
        remove(&inside).unwrap();
        remove(&inside).unwrap();
        let root = place.path("");
        drop(place);
        assert!(!root.exists());
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(name_of(0xEF53), "ext4");
        assert_eq!(name_of(0x1234), "0x1234");
    }
}
