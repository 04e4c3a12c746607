//! Hard links: a file with several names is done once and linked.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, linkat, statat, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Item};
use super::endpoints::same_file;
use super::work::TreeWork;
use crate::FileError;
use crate::source::Source;

/// The files with several names that have been met.
#[derive(Default)]
pub(super) struct Links {
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    /// The first name met of each file, by device and inode.
    first: HashMap<(u64, u64), Name>,
    /// The others, each with the first.
    further: Vec<(Name, Name)>,
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
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (status.st_dev, status.st_ino);
        match met.first.get(&key).cloned() {
            None => {
                met.first.insert(key, name);
                false
            }
            // An engine failed this file before.
            Some(first) if first == name => false,
            Some(first) => {
                met.further.push((name, first));
                true
            }
        }
    }
}

impl TreeWork<'_> {
    /// Links every further name to its first; returns how many there are.
    pub(super) fn make_links(&self, root: &Arc<Directory>) -> u64 {
        let Some(target) = &root.target else { return 0 };
        let met =
            std::mem::take(&mut *self.links.met.lock().unwrap_or_else(PoisonError::into_inner));
        let mut made = 0;
        for (name, first) in met.further {
            match self.make_link(root, target, &name, &first) {
                Ok(()) => {
                    made += 1;
                    self.options.control.done_files(1);
                }
                Err(error) => self.record.failed(&name.source, error),
            }
        }
        made
    }

    fn make_link(
        &self,
        root: &Directory,
        target: &impl AsFd,
        name: &Name,
        first: &Name,
    ) -> Result<(), FileError> {
        let link = || linkat(target, &first.target, target, &name.target, AtFlags::empty());
        let system = FileError::system("link its output");
        match link() {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                return Err(FileError::LinkedToFailed(first.source.display().to_string()));
            }
            Err(Errno::EXIST) if self.options.resume || self.options.overwrite => {
                let status = |path| statat(target, path, AtFlags::SYMLINK_NOFOLLOW);
                let there = status(&name.target).map_err(&system)?;
                let wanted = status(&first.target).map_err(&system)?;
                if !same_file(&there, &wanted) {
                    if !self.options.overwrite {
                        return Err(FileError::Differs(name.target.display().to_string()));
                    }
                    unlinkat(target, &name.target, AtFlags::empty()).map_err(&system)?;
                    link().map_err(&system)?;
                }
            }
            Err(Errno::EXIST) => {
                return Err(FileError::Exists(name.target.display().to_string()));
            }
            Err(errno) => return Err(system(errno)),
        }
        if self.options.remove_source {
            // Its first name's output was verified before that source was removed.
            unlinkat(&root.source, &name.source, AtFlags::empty())
                .map_err(FileError::system("remove the source"))?;
        }
        Ok(())
    }
}
