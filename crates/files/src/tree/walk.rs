//! The walk through the source tree. It feeds the queue, and makes directories and links.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use evener_core::shown;
use evener_keys::is_wrapped_key_in;
use rustix::fs::{AtFlags, FileType, RawDir, RawDirEntry, Stat, fstat, statat};
use rustix::io::Errno;

use super::descent::Open;
use super::directory::{Directory, Item, Made, make_below, open_directory};
use super::endpoints::{no_target_name, same_file, target_name};
use super::finish::Visited;
use super::mounts::is_mount_list_in;
use super::work::TreeWork;
use crate::identity::Identity;
use crate::left_out;
use crate::location::Location;
use crate::naming::no_output_directory;
use crate::seal::Feed;
use crate::temporary::{is_temporary_name, sweep};
use crate::{FileError, Operation, Refusal};

/// A directory on the way down, with the subdirectories still to be entered.
struct Level {
    location: Arc<Location>,
    status: Stat,
    subdirectories: Vec<OsString>,
}

impl TreeWork<'_> {
    /// Walks the tree depth first. It feeds all files of a directory first, then enters each
    /// subdirectory. At any time, some of the directories on the way down are open, and those whose
    /// files wait in the queue.
    pub(super) fn walk(&self, root: &Arc<Directory>, feed: &Feed<'_, Self>) {
        if let Some(target) = &root.target {
            self.directories.is_new_target(target.identity);
        }
        self.recall_mounts(root);
        let Some(level) = self.enter(root, feed) else { return };
        let mut above = HashSet::from([Identity::of(&level.status)]);
        let device = level.status.st_dev;
        let (mut levels, mut open) = (vec![level], Open::default());
        while let Some(level) = levels.last_mut() {
            if self.is_stopped() {
                feed.stop();
                return;
            }
            let Some(name) = level.subdirectories.pop() else {
                above.remove(&Identity::of(&level.status));
                levels.pop();
                continue;
            };
            open.lead_to(levels.len() - 1);
            let opened = open.deepest(|above: Option<&Arc<Directory>>, depth| {
                self.reopen(above.unwrap_or(root), &levels[depth])
            });
            let parent = match opened {
                Ok(parent) => parent.unwrap_or(root).clone(),
                Err(error) => {
                    self.fail_subdirectories(levels.last_mut(), name, &error);
                    continue;
                }
            };
            let entered = self.descend(&parent, &name, &above, device);
            let entered = entered.map(|it| it.and_then(|it| Some((self.enter(&it, feed)?, it))));
            match entered {
                Ok(Some((level, directory))) => {
                    above.insert(Identity::of(&level.status));
                    levels.push(level);
                    open.enter(directory);
                }
                Ok(None) => {}
                Err(error) => self.record.failed(&parent.path_of(&name), error),
            }
        }
    }

    /// Opens the directory of a level again, which is in the directory `above`.
    fn reopen(&self, above: &Arc<Directory>, level: &Level) -> Result<Arc<Directory>, FileError> {
        let Some((_, name)) = level.location.above() else { return Ok(above.clone()) };
        let system = FileError::system("open the directory again");
        let follows = self.options.follow_symlinks;
        let source = open_directory(above.source.as_fd(), name, follows).map_err(&system)?;
        let is_the_same = fstat(&source).is_ok_and(|now| same_file(&now, &level.status));
        let open_target = |above: &Arc<Made>| {
            let directory = open_directory(above.as_fd(), name, false).map_err(&system)?;
            Made::of(directory, false)
        };
        let target = match &above.target {
            // A plan continues without a counterpart.
            Some(target) if self.writes() => Some(open_target(target)?),
            Some(target) => open_target(target).ok(),
            None => None,
        };
        let has_moved = target.as_ref().is_some_and(|it| !self.directories.is_target(it.identity));
        if !is_the_same || has_moved {
            return Err(Refusal::DirectoryMoved.into());
        }
        Ok(Arc::new(Directory {
            source,
            target: target.map(Arc::new),
            location: level.location.clone(),
            follows,
            claims: Arc::default(),
        }))
    }

    /// Records why a subdirectory and the remaining ones beside it can't be entered.
    fn fail_subdirectories(&self, level: Option<&mut Level>, name: OsString, error: &FileError) {
        let Some(Level { location, subdirectories, .. }) = level else { return };
        for name in subdirectories.drain(..).chain([name]) {
            self.record.failed(&location.path_of(&name), error.clone());
        }
    }

    /// Opens a subdirectory and makes its counterpart; `None` if it is left out. `above` has the
    /// directories on the way there, and `device` is the root's device.
    fn descend(
        &self,
        parent: &Directory,
        name: &OsStr,
        above: &HashSet<Identity>,
        device: u64,
    ) -> Result<Option<Arc<Directory>>, FileError> {
        let follows = self.options.follow_symlinks;
        let source = open_directory(parent.source.as_fd(), name, follows)
            .map_err(FileError::system("open the directory"))?;
        let status = fstat(&source).map_err(FileError::system("read its status"))?;
        if above.contains(&Identity::of(&status)) {
            return Err(Refusal::LinkUpwards.into());
        }
        if self.directories.is_target(Identity::of(&status)) {
            return Err(Refusal::HoldsOutputs.into());
        }
        self.around.map_or(Ok(()), |around| around.refuse(&status))?;
        let named = self.at_name(&parent.location, name);
        let mut target = match &parent.target {
            None => None,
            Some(made) => {
                let counterpart = || self.counterpart((parent, made), name, &status);
                let made = parent
                    .claims
                    .take_name(made.as_fd(), name, || self.in_target(parent, counterpart));
                made.map_err(&named)?
            }
        };
        let is_source = |target: &Made| {
            target.identity == Identity::of(&status) || self.directories.is_source(target.identity)
        };
        if target.as_ref().is_some_and(is_source) {
            return Err(Refusal::HoldsSources.into());
        }
        if let Some(target) = &target
            && !self.directories.is_new_target(target.identity)
        {
            return Err(FileError::SameName(shown(&parent.path_of(name)).to_string()));
        }
        if let (Some(target), Some(parent)) = (&mut target, &parent.target) {
            self.look_at_mounted(parent, target)?;
            target.settle(parent.inherited, &status, &self.metadata).map_err(&named)?;
        }
        let location = Location::below(&parent.location, name);
        if self.options.one_file_system && status.st_dev != device {
            self.note_mount(source.as_fd(), &location)?;
            self.record.left_out(&location.path(), left_out::OTHER_FILE_SYSTEM);
            let target = target.map(|made| (made.identity, made.is_new));
            self.directories.visited(Visited { location, status, target });
            return Ok(None);
        }
        let (target, claims) = (target.map(Arc::new), Arc::default());
        Ok(Some(Arc::new(Directory { source, target, location, follows, claims })))
    }

    /// Makes (or finds) a directory of the target tree. A new one is usable by its owner; it gets
    /// the rest of its own mode when everything in it is done.
    fn counterpart(
        &self,
        (directory, parent): (&Directory, &Made),
        name: &OsStr,
        source: &Stat,
    ) -> Result<Option<Made>, FileError> {
        if !self.options.dry_run {
            return make_below(parent, name, source, &self.metadata).map(Some);
        }
        match open_directory(parent.as_fd(), name, false) {
            Ok(directory) => Made::of(directory, false).map(Some),
            Err(Errno::NOENT) => {
                self.may_make_in(directory, parent)
                    .map_err(FileError::system("make its output directory"))?;
                Ok(None)
            }
            Err(errno) => Err(no_output_directory(parent.as_fd(), name, errno)),
        }
    }

    /// Feeds the files of a directory and returns it as a level, or records why it can't be
    /// read.
    fn enter(&self, directory: &Arc<Directory>, feed: &Feed<'_, Self>) -> Option<Level> {
        self.list(directory, feed)
            .inspect_err(|error| self.record.failed(&directory.location.path(), error.clone()))
            .ok()
    }

    fn list(&self, directory: &Arc<Directory>, feed: &Feed<'_, Self>) -> Result<Level, FileError> {
        let system = FileError::system("read the directory");
        let status = fstat(&directory.source).map_err(&system)?;
        let target = directory.target.as_ref().map(|made| (made.identity, made.is_new));
        self.take_over(directory, &status);
        self.directories.visited(Visited { location: directory.location.clone(), status, target });
        let was_mount = self.note_mount(directory.source.as_fd(), &directory.location)?;
        let mut is_empty = true;
        self.sweep_target(directory)?;
        let mut subdirectories = Vec::new();
        let mut files = Vec::with_capacity(BATCH);
        let mut buffer = [MaybeUninit::uninit(); NAMES_AT_ONCE];
        let mut entries = RawDir::new(&directory.source, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // It was removed meanwhile.
                Err(Errno::NOENT) => break,
                entry => entry.map_err(&system)?,
            };
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            is_empty = false;
            match self.sort(directory, &entry) {
                Ok(Entry::File(item)) => files.push(item),
                Ok(Entry::Directory(name)) => subdirectories.push(name),
                Ok(Entry::Done) => {}
                Err(error) => {
                    let name = OsStr::from_bytes(entry.file_name().to_bytes());
                    self.record.failed(&directory.path_of(name), error);
                }
            }
            if files.len() == BATCH {
                self.feed_files(directory, std::mem::take(&mut files), feed);
                if self.is_stopped() {
                    break;
                }
                files.reserve(BATCH);
            }
        }
        if !files.is_empty() {
            self.feed_files(directory, files, feed);
        }
        if was_mount && is_empty && !self.options.existing.deletes_unmounted() {
            return Err(FileError::Unmounted);
        }
        Ok(Level { location: directory.location.clone(), status, subdirectories })
    }

    /// Removes unfinished files of killed runs from the target of a directory, if outputs of
    /// earlier runs are expected.
    pub(super) fn sweep_target(&self, directory: &Directory) -> Result<(), FileError> {
        match &directory.target {
            Some(target) if self.writes() && self.may_find_outputs() => {
                let swept = sweep(target.as_fd());
                let error = swept.map_err(FileError::system("look for old temporary files"));
                error.map_err(self.at_name(&directory.location, OsStr::new("")))
            }
            _ => Ok(()),
        }
    }

    fn feed_files(&self, directory: &Arc<Directory>, files: Vec<Item>, feed: &Feed<'_, Self>) {
        self.record.fed(files.len() as u64);
        feed.push(directory.clone(), files);
    }

    /// Decides the action for an entry, and recreates it if it is a symbolic link.
    fn sort(&self, directory: &Directory, entry: &RawDirEntry<'_>) -> Result<Entry, FileError> {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let source = directory.source.as_fd();
        let mut kind = entry.file_type();
        let mut status = None;
        if kind == FileType::Unknown || kind == FileType::Symlink && self.options.follow_symlinks {
            let follow = self.options.follow_symlinks;
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            let found = statat(source, name, flags).map_err(FileError::system("open it"))?;
            kind = FileType::from_raw_mode(found.st_mode);
            status = Some(found);
        }
        // If everything is taken, no path need be built.
        let takes_all = self.options.selection.takes_everything();
        // Refuses a followed link into a file system of the kernel.
        let refuse_link = || match (self.around, &status) {
            (Some(around), Some(found)) if entry.file_type() != kind => {
                around.refuse_link(source, name, found)
            }
            _ => Ok(()),
        };
        let chosen = || self.options.selection.path_of(&directory.location, name);
        let takes_directory = || takes_all || self.selection.takes_directory(&chosen());
        let takes_file =
            || takes_all || self.selection.takes_file(&self.plain_path(directory, name));
        let takes_link = || takes_all || self.selection.takes_file(&chosen());
        match kind {
            FileType::Directory if takes_directory() => {
                refuse_link()?;
                if self.operation != Operation::Verify {
                    self.refuse_collision(directory, name)?;
                }
                Ok(Entry::Directory(name.to_owned()))
            }
            FileType::RegularFile if takes_file() => {
                refuse_link()?;
                self.sort_file(directory, name, status)
            }
            FileType::Symlink if takes_link() => {
                self.copy_symlink(directory, entry.file_name())?;
                Ok(Entry::Done)
            }
            FileType::Directory => {
                self.mounts.leave_gap();
                Ok(Entry::Done)
            }
            FileType::RegularFile | FileType::Symlink => Ok(Entry::Done),
            other => {
                if takes_link() {
                    self.record.left_out(&directory.path_of(name), left_out::special(other));
                }
                Ok(Entry::Done)
            }
        }
    }

    /// The path that globs and paths are compared with: a file's path below the root, without the
    /// suffix that encryption appends.
    fn plain_path(&self, directory: &Directory, name: &OsStr) -> PathBuf {
        let stem = match self.operation {
            Operation::Encrypt => None,
            operation => target_name(operation, name, &self.options.suffix),
        };
        self.options.selection.path_of(&directory.location, stem.as_deref().unwrap_or(name))
    }

    fn sort_file(
        &self,
        directory: &Directory,
        name: &OsStr,
        status: Option<Stat>,
    ) -> Result<Entry, FileError> {
        if is_temporary_name(name.as_bytes()) {
            self.record.left_out(&directory.path_of(name), left_out::UNFINISHED);
            return Ok(Entry::Done);
        }
        let sealed = self.operation != Operation::Encrypt;
        if sealed && is_mount_list_in(directory.source.as_fd(), name) {
            return Ok(Entry::Done);
        }
        let may_be_key = sealed && !self.keys.is_of_age();
        if may_be_key && is_wrapped_key_in(directory.source.as_fd(), name, directory.follows) {
            // A wrapped key that opens files in this run is in use.
            let flags = AtFlags::empty();
            let is_used = statat(&directory.source, name, flags)
                .is_ok_and(|status| self.options.protected.contains(&status));
            if !is_used {
                self.record.left_out(&directory.path_of(name), left_out::WRAPPED_KEY);
            }
            return Ok(Entry::Done);
        }
        let Some(target) = target_name(self.operation, name, &self.options.suffix) else {
            let reason = no_target_name(name, &self.options.suffix).to_string();
            self.record.left_out(&directory.path_of(name), reason);
            return Ok(Entry::Done);
        };
        self.refuse_own_name(directory, &target)?;
        if self.options.measure_total {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let status = status.map_or_else(|| statat(&directory.source, name, flags), Ok);
            let status = status.map_err(FileError::system("open it"))?;
            self.options.control.found(0, status.st_size as u64);
        }
        Ok(Entry::File(Item::new(name, target)))
    }

    /// Refuses a symbolic link or a directory that has the name of a neighbouring file's output:
    /// their names stay as they are, and chance would decide which of the two came first.
    pub(super) fn refuse_collision(
        &self,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<(), FileError> {
        let back = match self.operation {
            Operation::Encrypt => Operation::Decrypt,
            Operation::Decrypt | Operation::Verify => Operation::Encrypt,
        };
        let Some(file) = target_name(back, name, &self.options.suffix) else { return Ok(()) };
        let follow = self.options.follow_symlinks;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let is_file = statat(&directory.source, &file, flags)
            .is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::RegularFile);
        if is_file && self.selection.takes_file(&self.plain_path(directory, &file)) {
            return Err(Refusal::NameOfOutput(shown(&file).to_string()).into());
        }
        Ok(())
    }
}

/// The action for a directory's entry.
enum Entry {
    File(Item),
    Directory(OsString),
    Done,
}

/// The bytes of a directory that are read at once.
const NAMES_AT_ONCE: usize = 32 << 10;

/// The number of names in one task: enough that claiming costs little, few enough that the workers
/// end together.
const BATCH: usize = 32;
