//! Hard links: a file with several names is done once and linked.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Stat, linkat, statat, syncfs, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Item};
use super::endpoints::same_file;
use super::work::TreeWork;
use crate::FileError;
use crate::output::link_over;
use crate::source::{Source, is_unchanged};

/// The files with several names that have been met.
#[derive(Default)]
pub(super) struct Links {
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    /// Each file under the name that was met first, by device and inode.
    first: HashMap<(u64, u64), First>,
    /// The others.
    further: Vec<Further>,
}

/// A file under its first name.
struct First {
    name: Name,
    /// Whether its output is published and, if sources are removed, on the device.
    is_done: bool,
}

/// Another name of a file.
struct Further {
    name: Name,
    /// The file's status when the name was met.
    status: Stat,
}

/// A name of a file, on both sides, as paths below the roots.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    source: PathBuf,
    target: PathBuf,
}

impl Links {
    /// Whether this is a further name of a file that is done under its first name; such names
    /// are kept for the end. Only outputs have links, so without outputs nothing is one.
    pub(super) fn is_further_name(
        &self,
        source: &Source,
        directory: &Directory,
        item: &Item,
        writes: bool,
    ) -> bool {
        let status = source.status();
        if !writes || status.st_nlink < 2 {
            return false;
        }
        let name =
            Name { source: directory.path_of(&item.name), target: directory.path_of(&item.target) };
        let mut met = self.lock();
        match met.first.get(&identity(status)) {
            None => {
                met.first.insert(identity(status), First { name, is_done: false });
                false
            }
            // An engine failed this file before.
            Some(first) if first.name == name => false,
            Some(_) => {
                met.further.push(Further { name, status: *status });
                true
            }
        }
    }

    /// Notes that a file is done, so that its further names can be linked to its output.
    pub(super) fn done(&self, source: &Source) {
        let status = source.status();
        if status.st_nlink > 1
            && let Some(first) = self.lock().first.get_mut(&identity(status))
        {
            first.is_done = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TreeWork<'_> {
    /// Links every further name to its first; returns how many there are.
    pub(super) fn make_links(&self, root: &Arc<Directory>) -> u64 {
        let Some(target) = &root.target else { return 0 };
        let Met { first, further } = std::mem::take(&mut *self.links.lock());
        let mut linked = Vec::with_capacity(further.len());
        for further in further {
            let Some(first) = first.get(&identity(&further.status)) else { continue };
            match self.make_link(target, &further.name, first) {
                Ok(()) => linked.push(further),
                Err(error) => self.record.failed(&further.name.source, error),
            }
        }
        self.options.control.done_files(linked.len() as u64);
        if self.options.remove_source && !linked.is_empty() {
            self.remove_further_names(root, target, &linked);
        }
        linked.len() as u64
    }

    fn make_link(&self, target: &impl AsFd, name: &Name, first: &First) -> Result<(), FileError> {
        // Another file may have the output's name if this one's could not be made.
        if !first.is_done {
            return Err(match self.is_stopped() {
                true => FileError::Interrupted,
                false => FileError::LinkedToFailed(first.name.source.display().to_string()),
            });
        }
        let (existing, new) = (&*first.name.target, &*name.target);
        match linkat(target, existing, target, new, AtFlags::empty()) {
            Err(Errno::EXIST) if self.options.resume || self.options.overwrite => {
                self.link_over_existing(target, existing, new)
            }
            Err(Errno::EXIST) => Err(FileError::Exists(new.display().to_string())),
            linked => linked.map_err(FileError::system("link its output")),
        }
    }

    fn link_over_existing(
        &self,
        target: &impl AsFd,
        existing: &Path,
        new: &Path,
    ) -> Result<(), FileError> {
        let system = FileError::system("link its output");
        let status = |path| statat(target, path, AtFlags::SYMLINK_NOFOLLOW);
        let (there, wanted) = (status(new).map_err(&system)?, status(existing).map_err(&system)?);
        if same_file(&there, &wanted) {
            return Ok(());
        }
        // An earlier run may have met this name first and made an output of its own for it.
        let is_ours = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
            && is_unchanged(&wanted, &there);
        if !self.options.overwrite && !is_ours {
            return Err(FileError::Differs(new.display().to_string()));
        }
        link_over(target.as_fd(), existing, new).map_err(&system)
    }

    /// Removes the sources of links, when the links are on the device. What they link to was
    /// verified before its own source was removed.
    fn remove_further_names(&self, root: &Directory, target: &impl AsFd, linked: &[Further]) {
        let synced =
            syncfs(target).map_err(FileError::system("sync its output, so its source was kept"));
        for Further { name, status } in linked {
            let removed = synced.clone().and_then(|()| {
                let system = FileError::system("remove the source");
                let there = statat(&root.source, &name.source, AtFlags::SYMLINK_NOFOLLOW);
                let there = there.map_err(&system)?;
                if !same_file(&there, status) || !is_unchanged(status, &there) {
                    return Err(FileError::ChangedSince);
                }
                unlinkat(&root.source, &name.source, AtFlags::empty()).map_err(&system)
            });
            if let Err(error) = removed {
                self.record.failed(&name.source, error);
            }
        }
    }
}

fn identity(status: &Stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}
