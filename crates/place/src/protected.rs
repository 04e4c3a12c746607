//! Files that an operation must not touch, such as its keys.

use std::collections::HashSet;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Stat, statat};

use crate::identity::Identity;

/// Files that are never taken as sources: the operation's keys, the files that open those, and the
/// files that it writes to. A file is known by its device and inode, so its other names (hard
/// links, symbolic links to it) are left alone as well.
#[derive(Clone, Debug, Default)]
pub struct Protected {
    files: HashSet<Identity>,
}

impl Protected {
    /// Adds the file that a path leads to. A path that leads nowhere needs no protection.
    pub fn add(&mut self, path: &Path) {
        if let Ok(status) = statat(CWD, path, AtFlags::empty()) {
            self.files.insert(Identity::of(&status));
        }
    }

    pub(crate) fn contains(&self, status: &Stat) -> bool {
        !self.files.is_empty() && self.files.contains(&Identity::of(status))
    }
}
