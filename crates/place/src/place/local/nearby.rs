//! The directories of a local tree that stay open. Whatever they are used for next, one is near it:
//! in a deep tree, each directory is opened a few times, and not once for every directory below it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::tree::Made;

/// Open directories by their paths.
#[derive(Debug, Default)]
pub(super) struct Nearby {
    open: HashMap<PathBuf, Opened>,
    users: [User; 2],
}

/// The users of directories: those who make the tree may be far ahead of those who work on files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Tree,
    Files,
}

#[derive(Debug)]
struct Opened {
    directory: Arc<Made>,
    /// When each user has used it last, if it has.
    used: [Option<u64>; 2],
}

#[derive(Debug, Default)]
struct User {
    /// The last directory that it has used.
    last: PathBuf,
    /// The number of directories that it has used, of which the same one several times in a row is one.
    now: u64,
}

impl Nearby {
    /// The last open directory on the way to one, and its own path; `None` if that is the root.
    pub(super) fn last_on_way<'p>(
        &mut self,
        path: &'p Path,
        by: Use,
    ) -> Option<(&'p Path, Arc<Made>)> {
        let user = &mut self.users[by as usize];
        // Comparing bytes is faster than comparing components.
        if user.last.as_os_str() != path.as_os_str() {
            path.clone_into(&mut user.last);
            user.now += 1;
        }
        let last = path.ancestors().find(|above| self.open.contains_key(*above))?;
        let opened = self.open.get_mut(last)?;
        opened.used[by as usize] = Some(user.now);
        Some((last, opened.directory.clone()))
    }

    /// Keeps a directory open that is so many levels above one, if that is worth it.
    pub(super) fn keep(&mut self, path: &Path, directory: &Arc<Made>, levels: usize, by: Use) {
        if !is_step(path.iter().count(), levels) {
            return;
        }
        if self.open.len() >= MOST_OPEN {
            let depths = self.users.each_ref().map(|user| user.last.iter().count());
            self.open.retain(|path, opened| {
                let users = self.users.iter().zip(depths).zip(opened.used);
                users.into_iter().any(|((user, last), used)| {
                    let is_above = || {
                        let depth = path.iter().count();
                        user.last.starts_with(path) && is_step(depth, last - depth)
                    };
                    used.is_some_and(|used| user.now - used < LAST_USED) || is_above()
                })
            });
        }
        let mut opened = Opened { directory: directory.clone(), used: [None; 2] };
        if levels == 0 {
            opened.used[by as usize] = Some(self.users[by as usize].now);
        }
        self.open.insert(path.to_owned(), opened);
    }

    /// Closes a directory, because it is gone.
    pub(super) fn remove(&mut self, path: &Path) {
        self.open.remove(path);
    }
}

/// Returns whether a directory stays open for the sake of one so many levels below it. Of those that
/// are far above it these are few, and the same while it comes nearer.
fn is_step(depth: usize, levels: usize) -> bool {
    levels < 2 || depth.is_multiple_of(1 << (levels.ilog2() - 1))
}

/// The number of open directories at which those are closed that nobody is near.
const MOST_OPEN: usize = 64;

/// The number of directories that each user has used last, all of which stay open.
const LAST_USED: u64 = 8;
