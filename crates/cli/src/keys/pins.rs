//! Which wrapped keys this user has made on this machine.
//!
//! A key that is wrapped for recipients could be anybody's: recipients are not secret. So each
//! run that makes one pins it: it leaves an empty file in the user's own state directory whose
//! name is the wrapped key's fingerprint. Where the pin can't be made or is lost, nothing worse
//! happens than that a later run makes a fresh key.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evener::keys::Fingerprint;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

/// The directory of the pins: `XDG_STATE_HOME/evener/keys`, or the same below `.local/state` in
/// the home directory. `None` where there is neither.
pub(super) struct Pins(Option<PathBuf>);

impl Pins {
    pub(super) fn of_user() -> Pins {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local").join("state")));
        Pins(state.map(|state| state.join("evener").join("keys")))
    }

    /// Whether a wrapped key is pinned. Only what this user alone can write to counts.
    pub(super) fn has(&self, fingerprint: Fingerprint) -> bool {
        let Ok(directory) = self.open() else { return false };
        rustix::fs::statat(&directory, fingerprint.to_string(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| is_own(&stat, FileType::RegularFile))
    }

    /// Pins a wrapped key. The pin holds the key's path, for people.
    pub(super) fn add(&self, fingerprint: Fingerprint, path: &Path) -> io::Result<()> {
        if let Some(directory) = &self.0 {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let directory = self.open()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&directory, fingerprint.to_string(), flags, mode)?;
        let mut file = std::fs::File::from(file);
        let path = std::path::absolute(path)?;
        file.write_all(path.as_os_str().as_bytes()).and_then(|()| file.write_all(b"\n"))
    }

    pub(super) fn remove(&self, fingerprint: Fingerprint) {
        if let Ok(directory) = self.open() {
            // A pin of a key that is no more does no harm.
            let _ = rustix::fs::unlinkat(&directory, fingerprint.to_string(), AtFlags::empty());
        }
    }

    /// Opens the directory, unless somebody else could have made pins in it.
    fn open(&self) -> io::Result<OwnedFd> {
        let path = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        match is_own(&rustix::fs::fstat(&directory)?, FileType::Directory) {
            true => Ok(directory),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Whether this user alone can write to it.
fn is_own(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && !Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_others_could_have_pinned_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("evener/keys");
        let pins = Pins(Some(directory.clone()));
        let (one, other) = (Fingerprint::of(b"one"), Fingerprint::of(b"other"));
        assert!(!pins.has(one));
        pins.add(one, Path::new("/a/key")).unwrap();
        assert!(pins.has(one) && !pins.has(other));
        assert_eq!(fs::read(directory.join(one.to_string())).unwrap(), b"/a/key\n");

        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!pins.has(one), "{mode:o}");
            assert!(pins.add(other, Path::new("/a/key")).is_err());
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let pin = directory.join(one.to_string());
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!pins.has(one));
        symlink(&pin, directory.join(other.to_string())).unwrap();
        assert!(!pins.has(other));
        pins.remove(one);
        assert!(!pin.exists());

        let linked = Pins(Some(home.path().join("link")));
        symlink(&directory, home.path().join("link")).unwrap();
        assert!(linked.open().is_err());
        assert!(!Pins(None).has(one) && Pins(None).add(one, Path::new("x")).is_err());
    }
}
