//! Read-only directories of the target tree. An earlier run has given them the mode of their
//! source, such as 0555, of which Go's module cache is full, and then not even their owner can make
//! names there. A directory in which this run must make names is writable until the run ends. A
//! directory with another mode than its source's stays as it is: its user has chosen that.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::IgnorePoison;
use rustix::fs::{Mode, Stat, fchmod, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::descent::{Descent, Ways};
use super::directory::{Directory, Made};
use super::full;
use super::work::TreeWork;
use crate::FileError;
use crate::access;
use crate::identity::{Identity, permissions};
use crate::location::Location;
use crate::unfinished::{has_mode_mark, mark_mode, unmark};

/// The directories that are writable for this run.
#[derive(Default)]
pub(super) struct Opened {
    directories: Mutex<HashMap<Identity, Closing>>,
}

/// How to close a directory again.
struct Closing {
    /// Its location below the root of the target tree.
    location: Arc<Location>,
    mode: Mode,
}

impl Opened {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Closing>> {
        self.directories.lock().ignore_poison()
    }
}

impl TreeWork<'_> {
    /// Calls `act` for the counterpart of a directory, which is made writable first if necessary.
    pub(super) fn in_target<T>(
        &self,
        directory: &Directory,
        act: impl Fn() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let source = Some(directory.source.as_fd());
        let open = |target: &Made| self.make_writable(target.as_fd(), source, &directory.location);
        match act() {
            Err(error) if is_denied(&error) && directory.target.as_deref().is_some_and(open) => {
                act()
            }
            done => done,
        }
    }

    /// The same for the directory at `location` below the root of the target tree, whose source has
    /// the location `source`. A directory whose source is gone may be emptied, as its user has
    /// agreed.
    pub(super) fn in_target_at<T>(
        &self,
        root: &Directory,
        (location, source): (&Arc<Location>, &Arc<Location>),
        mut act: impl FnMut() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let open = || {
            let mut ways = root.ways()?;
            let target = ways.targets.to(location).ok()?;
            let source = ways.sources.find(source).ok()?;
            Some(self.make_writable(target, source, location))
        };
        match act() {
            Err(error) if is_denied(&error) && open() == Some(true) => act(),
            done => done,
        }
    }

    /// Checks whether names can be made in the counterpart of a directory, once it is writable.
    pub(super) fn may_make_in(&self, directory: &Directory, target: &Made) -> Result<(), Errno> {
        access::may_make(target.as_fd()).or_else(|errno| {
            let there = fstat(target.as_fd())?;
            match self.is_read_only(&there, Some(directory.source.as_fd())) {
                true => Ok(()),
                false => Err(errno),
            }
        })
    }

    /// Takes over a directory that a killed run has left writable.
    pub(super) fn take_over(&self, directory: &Directory) {
        let Some(target) = directory.target.as_ref().filter(|target| !target.is_new) else {
            return;
        };
        let mode = self.metadata.wanted_mode(&directory.status);
        let is_open = target.mode != mode && target.mode == mode | Mode::RWXU;
        if is_open && self.writes() && has_mode_mark(target.as_fd(), mode) {
            let closing = Closing { location: directory.location.clone(), mode };
            self.note_opened(target.identity, closing, &mut self.opened.lock());
        }
    }

    /// Gives all of them their modes back. `path` is the user's name for the target.
    pub(super) fn close_directories(&self, root: &Directory, path: &Path) {
        let mut all: Vec<_> = self.opened.lock().drain().collect();
        // Nested directories come first.
        all.sort_by_key(|(_, closing)| Reverse(closing.location.depth()));
        let Some(Ways { targets, .. }) = &mut root.ways() else { return };
        for (identity, closing) in all {
            if let Err(errno) = close(targets, identity, &closing) {
                let error = FileError::system("give the directory its mode back")(errno);
                self.record.failed_of(full(path, &closing.location.path()), error);
            }
            self.run.control.temporaries().fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Makes a directory writable for the run. Returns whether it is.
    fn make_writable(
        &self,
        target: BorrowedFd<'_>,
        source: Option<BorrowedFd<'_>>,
        location: &Arc<Location>,
    ) -> bool {
        let mut opened = self.opened.lock();
        let Ok(there) = fstat(target) else { return false };
        let (identity, mode) = (Identity::of(&there), permissions(&there));
        if opened.contains_key(&identity) {
            return true;
        }
        if !self.writes() || !self.is_read_only(&there, source) {
            return false;
        }
        // From here on, an interruption waits.
        self.note_opened(identity, Closing { location: location.clone(), mode }, &mut opened);
        if fchmod(target, mode | Mode::RWXU).is_err() {
            return false;
        }
        mark_mode(target, mode);
        true
    }

    fn note_opened(
        &self,
        identity: Identity,
        closing: Closing,
        opened: &mut HashMap<Identity, Closing>,
    ) {
        if opened.insert(identity, closing).is_none() {
            self.run.control.temporaries().fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns whether a directory is this user's, and read-only like its source.
    fn is_read_only(&self, there: &Stat, source: Option<BorrowedFd<'_>>) -> bool {
        let mode = permissions(there);
        let has_mode_of_source = match source {
            // A directory to be deleted.
            None => true,
            Some(source) => {
                self.directories.is_target(Identity::of(there))
                    && fstat(source).is_ok_and(|status| {
                        mode == self.metadata.wanted_mode(&status)
                            & self.metadata.granted(there, &status)
                    })
            }
        };
        there.st_uid == geteuid().as_raw()
            && !mode.contains(Mode::WUSR | Mode::XUSR)
            && has_mode_of_source
    }
}

/// Gives a directory its mode back, unless it is gone or was replaced.
fn close(targets: &mut Descent<'_>, identity: Identity, closing: &Closing) -> Result<(), Errno> {
    let Some(directory) = targets.find(&closing.location)? else { return Ok(()) };
    if Identity::of(&fstat(directory)?) != identity {
        return Ok(());
    }
    unmark(directory);
    fchmod(directory, closing.mode)
}

fn is_denied(error: &FileError) -> bool {
    matches!(error, FileError::System { errno, .. } if errno.is(Errno::ACCESS))
}
