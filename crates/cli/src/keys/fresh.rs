//! Wrapped keys that a run writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evener::keys::{Fingerprint, KeyError, KeyFile, KeyMaterial};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::Keyholder;
use super::pins::{Doubt, Pin, Pins};
use super::place::{Created, KeyPlace};
use super::wrapped::open_all;
use crate::ends::directory_of;
use crate::trouble::{Trouble, shown};

/// A wrapped key that is yet to be written.
pub(crate) struct FreshKey {
    pub(super) place: KeyPlace,
    pub(super) contents: Vec<u8>,
    pub(super) audience: String,
    /// The first key there that others may be able to open, and the reason.
    pub(super) left_alone: Option<(PathBuf, Doubt)>,
}

/// A wrapped key that this run has written.
pub(crate) struct WrittenKey {
    place: KeyPlace,
    path: PathBuf,
    fingerprint: Fingerprint,
    is_first: bool,
    made_directory: bool,
    notices: [Option<&'static str>; 2],
}

impl FreshKey {
    /// Writes the key to disk, synced, under the first free name, and makes the directory if it
    /// does not exist.
    pub(crate) fn write(&self) -> Result<WrittenKey, Trouble> {
        let made_directory = self.make_directory()?;
        let (pins, fingerprint) = (Pins::of_user(), Fingerprint::of(&self.contents));
        // First, so that no run is killed between the two.
        let pinned = self.place.canonical().and_then(|place| {
            let audience = self.audience.clone();
            pins.add(fingerprint, &Pin { audience, place })
        });
        let Created { path, notice, is_first } =
            self.place.create(&self.contents).inspect_err(|_| {
                pins.remove(fingerprint);
                if made_directory {
                    // If this fails, an empty directory stays.
                    let _ = fs::remove_dir(&self.place.directory);
                }
            })?;
        let notices = [notice, pinned.err().map(|_| NO_PIN)];
        let place = self.place.clone();
        Ok(WrittenKey { place, path, fingerprint, is_first, made_directory, notices })
    }

    /// The bytes of its file.
    pub(crate) fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// The keys of earlier runs in its place that can be opened.
    pub(super) fn earlier_keys(
        &self,
        keyholder: &Keyholder<'_>,
    ) -> Result<Vec<KeyMaterial>, Trouble> {
        let opened = open_all(&self.place, keyholder)?;
        Ok(opened.keys.into_iter().map(|key| key.material).collect())
    }

    /// Returns whether its place has wrapped keys that something may open.
    pub(super) fn has_earlier_keys(&self) -> bool {
        let is_key = |file: KeyFile| file.recipients().is_some();
        self.place.existing().iter().any(|path| self.place.read(path).is_ok_and(is_key))
    }

    /// Refuses to be another key in a place that has one.
    pub(crate) fn refuse_second(&self) -> Result<(), Trouble> {
        if let Some((there, why)) = &self.left_alone {
            return Err(Trouble::Usage(format!(
                "the key in {0} is not used: {why}; --update adds no second key beside it, so if \
                 you are sure who can open it, name it with --key {0}",
                shown(there)
            )));
        }
        let Some(there) = self.place.existing().into_iter().next() else { return Ok(()) };
        Err(Trouble::Usage(format!(
            "--update goes on with the key in {}, and does not add another: open that with \
             --identity or --passphrase, or name it with --key",
            shown(&there)
        )))
    }

    /// Fails as [`FreshKey::write`] would if the key can't be written. Writes nothing.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        let may_make = |directory: &Path| {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            accessat(CWD, directory, access, AtFlags::EACCESS).map_err(io::Error::from)
        };
        if self.place.is_in_store() {
            return Ok(());
        }
        let directory = &self.place.directory;
        if directory.exists() {
            let path = self.place.path(1);
            let failed = |cause| KeyError::Io { action: "make the key file", path, cause };
            return Ok(may_make(directory).map_err(failed)?);
        }
        let failed = |cause| Trouble::File { action: "make", path: directory.clone(), cause };
        may_make(directory_of(directory)).map_err(failed)
    }

    fn make_directory(&self) -> Result<bool, Trouble> {
        if self.place.is_in_store() {
            return Ok(false);
        }
        let path = &self.place.directory;
        let failed = |cause| Trouble::File { action: "make", path: path.clone(), cause };
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        }
        let parent = File::open(directory_of(path)).map_err(failed)?;
        // Some file systems keep no directories on stable storage and return an error that says so.
        match parent.sync_all() {
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(failed(error)),
            _ => Ok(true),
        }
    }
}

pub(super) const NO_PIN: &str = "no note of this key could be kept in $XDG_STATE_HOME or \
     $HOME/.local/state, so a later run does not use it again unless --key names it; set one of them \
     to a directory of your own that can be written to";

impl WrittenKey {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its path, and the fingerprint of its bytes.
    pub(crate) fn identity(&self) -> (PathBuf, Fingerprint) {
        (self.path.clone(), self.fingerprint)
    }

    /// Notices for the user about how it was made.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &'static str> {
        self.notices.into_iter().flatten()
    }

    /// Returns whether its directory was made for it.
    pub(crate) fn made_directory(&self) -> bool {
        self.made_directory
    }

    /// Returns whether it is in an object store.
    pub(crate) fn is_in_store(&self) -> bool {
        self.place.is_in_store()
    }

    /// Returns whether it is the only key in its place.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Removes a key that this run has encrypted nothing with, unless another run uses it.
    pub(crate) fn remove(self) {
        let pins = Pins::of_user();
        let held = match self.place.is_in_store() {
            true => pins.open_unused(self.fingerprint),
            false => File::open(&self.path),
        };
        let Ok(file) = held else { return };
        if file.try_lock().is_err() {
            return;
        }
        // A key that can't be removed opens nothing, and does no harm.
        if self.place.remove(&self.path).is_ok() {
            pins.remove(self.fingerprint);
        }
        if self.made_directory {
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}
