//! Measures a tree beforehand, so that progress can show the remaining work.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::Path;

use evener_keys::{KeyRing, is_wrapped_key_in};
use rustix::fs::FileType;

use super::around::Around;
use super::choice::{Choice, Found};
use super::directory::Directory;
use super::mounts::is_mount_list_in;
use super::walk::{Entry, Step, Visitor, Walk};
use crate::identity::Identity;
use crate::{FileError, Operation, TreeOptions};

/// The total work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Files, counting every name of those that have several.
    pub files: u64,
    /// The bytes of the files to be read.
    pub bytes: u64,
}

/// Adds up the files of a tree that an operation with these keys would take, and their bytes. It
/// examines each file once and reads none, so on a disk it takes about as long as `du`; run it on a
/// thread beside the operation, with the operation's target if there is one. Changes meanwhile make
/// the total a little wrong.
///
/// Returns `None` if the tree can't be read, or if `is_over` says that the total is no longer
/// needed.
pub fn measure(
    operation: Operation,
    keys: &KeyRing,
    source: &Path,
    target: Option<&Path>,
    options: &TreeOptions,
    is_over: impl Fn() -> bool,
) -> Option<Total> {
    let root = Directory::at(source, options.follow_symlinks).ok()?;
    let around = root.follows.then(|| Around::of(root.source.as_fd(), target)).transpose();
    let (around, selection) = (around.ok()?, options.selection.watch());
    let mut measuring = Measuring {
        choice: Choice {
            operation,
            options,
            selection: &selection,
            around: around.as_ref(),
            keys: Some(keys),
        },
        is_over,
        linked: HashSet::new(),
        total: Total::default(),
    };
    Walk::new(root).run(&mut measuring);
    (!measuring.is_over()).then_some(measuring.total)
}

/// The visitor that adds up. The operation itself reports what can't be read.
struct Measuring<'a, F> {
    choice: Choice<'a>,
    is_over: F,
    /// The files with several names that were found.
    linked: HashSet<Identity>,
    total: Total,
}

impl<F: Fn() -> bool> Visitor for Measuring<'_, F> {
    fn is_over(&self) -> bool {
        (self.is_over)()
    }

    fn take(&mut self, step: &mut Step<'_>) -> Result<bool, FileError> {
        self.choice.around.map_or(Ok(()), |around| around.refuse(&step.directory.status))?;
        Ok(!step.is_elsewhere || !self.choice.options.one_file_system)
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError> {
        let Found { kind, status, is_taken } = self.choice.look_at(entry)?;
        if !is_taken || kind != FileType::RegularFile || self.choice.output_of(entry).is_err() {
            return Ok(is_taken && kind == FileType::Directory);
        }
        let status = status.map_or_else(|| entry.status(), Ok)?;
        self.total.files += 1;
        // Further names are linked to the output of the first.
        let is_new = self.choice.operation == Operation::Verify
            || status.st_nlink < 2
            || self.linked.insert(Identity::of(&status));
        if is_new {
            self.total.bytes += status.st_size as u64;
        }
        Ok(false)
    }
}

/// Returns whether a tree has files, as far as it can be read; those that Evener keeps beside
/// encrypted ones count only with `all`. With `follow`, the targets of symbolic links count.
pub fn has_files(tree: &Path, follow: bool, all: bool) -> bool {
    let mut search = Search { all, has_found: false };
    let walked = Directory::at(tree, follow).map(|root| Walk::new(root).run(&mut search));
    walked.is_ok() && search.has_found
}

/// The visitor that looks for a file.
struct Search {
    all: bool,
    has_found: bool,
}

impl Visitor for Search {
    fn is_over(&self) -> bool {
        self.has_found
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError> {
        let (kind, _) = entry.kind()?;
        let (name, source) = (entry.name, entry.directory.source.as_fd());
        let is_beside = || is_wrapped_key_in(source, name, true) || is_mount_list_in(source, name);
        self.has_found |= kind == FileType::RegularFile && (self.all || !is_beside());
        Ok(kind == FileType::Directory)
    }
}
