//! The wrapped keys that this user has made on this machine: where, and for which recipients.
//!
//! A key that is wrapped for recipients could be anybody's, because recipients are not secret. A
//! key of the user's own could have been copied from another place, whose readers could then read
//! the files added here. So each run that makes a key pins it: it leaves a file in the user's own
//! state directory, named after the wrapped key's fingerprint, that says where the key belongs and
//! for which recipients it was made. If the pin can't be made or is lost, a later run merely makes
//! a fresh key.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use evener::keys::Fingerprint;
use evener::sealed_trees::state_directory;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use crate::objects::Address;
use crate::trouble::shown;

/// The directory of the pins, if the user has one.
pub(super) struct Pins(Option<PathBuf>);

/// The facts about a wrapped key that this user made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    /// The recipients, or the passphrase, as one word.
    pub(super) audience: String,
    /// The place that it was made for.
    pub(super) place: PathBuf,
}

/// The reason why a key is not used to encrypt.
pub(super) enum Doubt {
    /// It may be anybody's.
    Unknown,
    /// It is this user's, and was made for another place.
    Elsewhere(PathBuf),
    /// It is this user's and belongs to this place, but was not made for those that were named.
    OtherAudience,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Unknown => f.write_str(
                "it may be somebody else's: nothing shows that you made it on this machine, and \
                 whoever can write there could have put it there to read what you encrypt",
            ),
            Doubt::Elsewhere(place) => write!(
                f,
                "you made it for another place ({}), and somebody who can open it there may have \
                 copied it here, to read what you encrypt",
                shown(place)
            ),
            Doubt::OtherAudience => {
                f.write_str("you did not make it for the recipients or the passphrase given now")
            }
        }
    }
}

impl Pins {
    pub(super) fn of_user() -> Pins {
        Pins(state_directory("keys"))
    }

    /// Finds the pin of a wrapped key. Only a pin that this user alone can write to counts.
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<Pin> {
        let mut text = Vec::new();
        self.open(fingerprint).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
        Pin::parse(&text)
    }

    /// Holds the pin of a wrapped key in an object store, where a run can't lock the key itself. It
    /// marks the key as used, so the run that wrote the key does not remove it.
    pub(super) fn hold(&self, fingerprint: Fingerprint) -> io::Result<File> {
        let file = self.open(fingerprint)?;
        file.lock_shared()?;
        rustix::fs::fchmod(&file, Mode::RUSR)?;
        match rustix::fs::fstat(&file)?.st_nlink {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(file),
        }
    }

    /// Opens and locks the pin of a wrapped key that no other run has [held](Pins::hold).
    pub(super) fn open_unused(&self, fingerprint: Fingerprint) -> io::Result<File> {
        let file = self.open(fingerprint)?;
        file.try_lock()?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        match mode.contains(Mode::WUSR) {
            true => Ok(file),
            false => Err(io::ErrorKind::ResourceBusy.into()),
        }
    }

    /// Opens a pin that this user alone can write to.
    pub(super) fn open(&self, fingerprint: Fingerprint) -> io::Result<File> {
        let directory = self.directory()?;
        // Opening a pipe there would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, fingerprint.to_string(), flags, Mode::empty())?;
        match is_own(&rustix::fs::fstat(&file)?, FileType::RegularFile) {
            true => Ok(file.into()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Pins a wrapped key. Replaces an earlier pin at once, so there is always one of the two.
    pub(super) fn add(&self, fingerprint: Fingerprint, pin: &Pin) -> io::Result<()> {
        if let Some(directory) = &self.0 {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let directory = self.directory()?;
        let name = fingerprint.to_string();
        let draft = format!("{name}.{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&directory, &draft, flags | OFlags::CLOEXEC, mode)?;
        File::from(file).write_all(&pin.to_text())?;
        Ok(rustix::fs::renameat(&directory, &draft, &directory, name)?)
    }

    pub(super) fn remove(&self, fingerprint: Fingerprint) {
        if let Ok(directory) = self.directory() {
            // A pin of a key that no longer exists does no harm.
            let _ = rustix::fs::unlinkat(&directory, fingerprint.to_string(), AtFlags::empty());
        }
    }

    /// Opens the directory, unless somebody else could have made pins in it.
    fn directory(&self) -> io::Result<OwnedFd> {
        let path = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        match is_own(&rustix::fs::fstat(&directory)?, FileType::Directory) {
            true => Ok(directory),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

impl Pin {
    /// `AUDIENCE PLACE` and a newline; the place may hold anything.
    fn to_text(&self) -> Vec<u8> {
        [self.audience.as_bytes(), b" ", self.place.as_os_str().as_bytes(), b"\n"].concat()
    }

    /// The path or the address of the first key in the place.
    pub(super) fn first_key(&self) -> PathBuf {
        let address = self.place.to_str().filter(|place| Address::is_meant(place));
        match address.and_then(|place| place.rsplit_once(" at ")) {
            Some((address, server)) => format!("{address}.age at {server}").into(),
            None => {
                let mut key = self.place.clone();
                key.as_mut_os_string().push(".age");
                key
            }
        }
    }

    /// Returns `None` for text that was cut short.
    fn parse(text: &[u8]) -> Option<Pin> {
        let text = text.strip_suffix(b"\n")?;
        let space = text.iter().position(|&byte| byte == b' ')?;
        let audience = std::str::from_utf8(&text[..space]).ok()?.to_owned();
        let place = PathBuf::from(OsStr::from_bytes(&text[space + 1..]));
        let is_address = place.to_str().is_some_and(Address::is_meant);
        (is_address || place.is_absolute()).then_some(Pin { audience, place })
    }
}

/// Returns whether this user alone can write to it.
fn is_own(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && !Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH)
}

/// More bytes than the longest path takes.
const LONGEST: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::*;

    /// A run may be killed at any moment.
    #[test]
    fn a_pin_that_is_replaced_is_always_there() {
        let home = tempfile::tempdir().unwrap();
        let pins = Pins(Some(home.path().join("keys")));
        let key = Fingerprint::of(b"key");
        let pin = |number: u32| Pin { audience: format!("us-{number}"), place: "/key".into() };
        pins.add(key, &pin(0)).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 1..=2_000 {
                    pins.add(key, &pin(number)).unwrap();
                }
            });
            while !writer.is_finished() {
                assert!(pins.find(key).is_some());
            }
        });
        assert_eq!(pins.find(key), Some(pin(2_000)));
        assert_eq!(fs::read_dir(home.path().join("keys")).unwrap().count(), 1);
    }

    #[test]
    fn what_others_could_have_pinned_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("evener/keys");
        let pins = Pins(Some(directory.clone()));
        let (one, other) = (Fingerprint::of(b"one"), Fingerprint::of(b"other"));
        let pin_of_one = Pin { audience: "us".to_owned(), place: "/a b\n/key".into() };
        let has = |fingerprint| pins.find(fingerprint).is_some();
        assert!(!has(one));
        pins.add(one, &pin_of_one).unwrap();
        assert!(pins.find(one) == Some(pin_of_one.clone()) && !has(other));

        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!has(one), "{mode:o}");
            assert!(pins.add(other, &pin_of_one).is_err());
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let pin = directory.join(one.to_string());
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!has(one));
        symlink(&pin, directory.join(other.to_string())).unwrap();
        assert!(!has(other));
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o600)).unwrap();
        // Text that an earlier version wrote, and text that was cut short.
        for text in ["/a/key\n", "us /a", "us a\n", "us\n", ""] {
            fs::write(&pin, text).unwrap();
            assert!(!has(one), "{text:?}");
        }
        pins.remove(one);
        assert!(!pin.exists());

        let linked = Pins(Some(home.path().join("link")));
        symlink(&directory, home.path().join("link")).unwrap();
        assert!(linked.directory().is_err());
        assert!(Pins(None).find(one).is_none() && Pins(None).add(one, &pin_of_one).is_err());
    }
}
