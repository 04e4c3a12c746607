//! Decides which files of secrets and recipients are private enough.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, fstatfs, fstatvfs};

use super::{KeyError, Unlock};
use crate::mounts::{has_mode_of_mount, is_private_mount};

/// Facts about a file with a name.
pub(super) struct Status {
    metadata: Metadata,
    is_read_only: bool,
    has_mode_of_mount: bool,
}

impl Status {
    pub(super) fn of(file: &File, metadata: Metadata) -> Status {
        let (is_read_only, has_mode_of_mount) =
            (is_on_read_only_mount(file), has_mode_of_mount(file));
        Status { metadata, is_read_only, has_mode_of_mount }
    }

    /// The description of the file for an `Unlock` that may accept it.
    fn exposed<'a>(&self, path: &'a Path) -> Exposed<'a> {
        let Status { metadata, is_read_only, has_mode_of_mount } = self;
        let (is_read_only, has_mode_of_mount) = (*is_read_only, *has_mode_of_mount);
        Exposed { path, mode: metadata.mode() & 0o7777, is_read_only, has_mode_of_mount }
    }
}

/// A file with a secret that other users may access.
#[derive(Clone, Copy, Debug)]
pub struct Exposed<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its permission bits.
    pub mode: u32,
    /// True if its file system is mounted read-only, as for the secrets of containers, so its user
    /// can't change its mode.
    pub is_read_only: bool,
    /// True if its file system has no file modes, as with FAT, exFAT and NTFS, so the mode can't be
    /// changed either.
    pub has_mode_of_mount: bool,
}

/// Refuses a file with a secret that other users may use or have made: its group or others may
/// read, write or execute it, or it belongs neither to this process's user nor to root. `metadata`
/// is that of the open file.
///
/// # Errors
/// [`KeyError::OpenToOthers`] and [`KeyError::OfOthers`].
pub fn check_private(metadata: &Metadata, path: &Path) -> Result<(), KeyError> {
    let metadata = metadata.clone();
    check(&Status { metadata, is_read_only: false, has_mode_of_mount: false }, path, |_| false)
}

/// As [`check_private`] for an open file, unless `unlock` accepts a file that its group or others
/// may use. It checks regular files and FIFOs: the process that opened an unnamed pipe decides on
/// access to that.
///
/// # Errors
/// [`KeyError::OpenToOthers`], [`KeyError::OfOthers`], and [`KeyError::Io`] when the file's status
/// can't be read.
pub fn check_secret_file(file: &File, path: &Path, unlock: &dyn Unlock) -> Result<(), KeyError> {
    let action = "look at the file of a secret";
    let metadata =
        file.metadata().map_err(|cause| KeyError::Io { action, path: path.to_owned(), cause })?;
    if !has_access_of_its_own(file, &metadata) {
        return Ok(());
    }
    check(&Status::of(file, metadata), path, |exposed| unlock.takes_exposed(exposed))
}

pub(super) fn check(
    status: &Status,
    path: &Path,
    takes: impl FnOnce(&Exposed<'_>) -> bool,
) -> Result<(), KeyError> {
    let metadata = &status.metadata;
    let exposed = status.exposed(path);
    if is_open_to_others(metadata) && !takes(&exposed) {
        let Exposed { mode, has_mode_of_mount, .. } = exposed;
        return Err(KeyError::OpenToOthers { path: path.to_owned(), mode, has_mode_of_mount });
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if is_of_others(metadata) {
        return Err(KeyError::OfOthers { path: path.to_owned(), owner, user });
    }
    Ok(())
}

/// Returns whether a file's group or others may use it, by its mode and its mount.
pub(super) fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & 0o077 != 0 && !is_private_mount(metadata.dev())
}

fn is_on_read_only_mount(file: &File) -> bool {
    fstatvfs(file).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Refuses a file of recipients that other users may change: they could add their own recipient,
/// who would read everything.
pub(super) fn check_recipients(
    file: &File,
    path: &Path,
    metadata: &Metadata,
    unlock: &dyn Unlock,
) -> Result<(), KeyError> {
    let mode = metadata.mode() & 0o7777;
    let is_writable = mode & 0o022 != 0 && !is_private_mount(metadata.dev());
    let is_of_others = is_of_others(metadata);
    if !has_access_of_its_own(file, metadata) || !is_writable && !is_of_others {
        return Ok(());
    }
    let exposed = Status::of(file, metadata.clone()).exposed(path);
    if unlock.takes_recipients(&exposed) {
        return Ok(());
    }
    let has_mode_of_mount = exposed.has_mode_of_mount;
    let (path, owner) = (path.to_owned(), metadata.uid());
    Err(match is_writable {
        true => KeyError::WritableByOthers { path, mode, has_mode_of_mount },
        false => {
            let user = rustix::process::geteuid().as_raw();
            KeyError::RecipientsOfOthers { path, owner, user }
        }
    })
}

/// Returns whether a file's own mode and owner decide who may use it. That holds for a regular
/// file, and for a FIFO, as any user who may open it can write to it. For an unnamed pipe, a device
/// or a socket, access is decided elsewhere.
pub(super) fn has_access_of_its_own(file: &File, metadata: &Metadata) -> bool {
    let is_nameless = || {
        let kind = fstatfs(file).map(|about| u64::try_from(about.f_type));
        matches!(kind, Ok(Ok(PIPES)))
    };
    metadata.is_file() || metadata.file_type().is_fifo() && !is_nameless()
}

/// Returns whether a file belongs neither to this process's user nor to root.
fn is_of_others(metadata: &Metadata) -> bool {
    ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// The type of file system that holds unnamed pipes: Linux's `PIPEFS_MAGIC`.
const PIPES: u64 = 0x5049_5045;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::key_file::read;
    use crate::{NoUnlock, create};

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// Accepts exposed files only if nobody could make them private, and records what it saw.
    struct Lenient(std::cell::Cell<Option<(u32, bool)>>);

    impl Unlock for Lenient {
        fn takes_exposed(&self, file: &Exposed<'_>) -> bool {
            self.0.set(Some((file.mode, file.is_read_only)));
            true
        }
    }

    #[test]
    fn whoever_opens_a_file_may_take_one_that_is_open_to_others() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        let lenient = Lenient(None.into());
        read(&path, "read").unwrap().check_private(&path, &lenient).unwrap();
        assert_eq!(lenient.0.get(), None, "it is private");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        read(&path, "read").unwrap().check_private(&path, &lenient).unwrap();
        assert_eq!(lenient.0.take(), Some((0o444, false)));
        check_secret_file(&File::open(&path).unwrap(), &path, &lenient).unwrap();
        assert_eq!(lenient.0.take(), Some((0o444, false)));
        assert!(check_secret_file(&File::open(&path).unwrap(), &path, &NoUnlock).is_err());
    }

    #[test]
    fn a_file_open_to_others_is_refused() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        for (mode, fine) in [
            (0o400, true),
            (0o600, true),
            (0o700, true),
            (0o640, false),
            (0o604, false),
            (0o620, false),
            (0o644, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let contents = read(&path, "read").unwrap();
            match contents.check_private(&path, &NoUnlock) {
                Ok(()) => assert!(fine, "{mode:o}"),
                Err(error) => {
                    assert!(!fine, "{mode:o}");
                    let message = error.to_string();
                    assert!(message.contains("chmod 600"), "{message}");
                    assert!(message.contains(&format!("{mode:04o}")), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let directory = directory();
        let path = directory.path().join("key");
        create(&path, b"secret").unwrap();
        if std::os::unix::fs::chown(&path, Some(4321), None).is_err() {
            evener_core::lacking!("only root can give a file to another user");
            return;
        }
        let message =
            read(&path, "read").unwrap().check_private(&path, &NoUnlock).unwrap_err().to_string();
        assert!(message.contains("belongs to user 4321") && message.contains("chown"), "{message}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        read(&path, "read").unwrap().check_private(&path, &NoUnlock).unwrap();
    }
}
