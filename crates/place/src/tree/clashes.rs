//! Finds target entries that conflict, where outputs of earlier runs existed.
//!
//! Two sources have one output if a file system treats their names as one. And if a file has become
//! a link or a directory, or vice versa, an output of the old kind would be decrypted to the same
//! name as the new one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use evener_core::shown;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use super::Operation;
use super::descent::{Descent, Ways};
use super::directory::Directory;
use super::finish::Visited;
use super::wanted::{beginning, look_up};
use super::work::TreeWork;
use crate::entries::Entries;
use crate::location::Location;
use crate::source::Source;
use crate::{FileError, Refusal};
use evener_seal::opens_header;

/// A directory on both sides, with the entries of each.
struct Pair<'a> {
    location: &'a Location,
    source: BorrowedFd<'a>,
    target: BorrowedFd<'a>,
    wanted: Entries,
    there: Entries,
}

impl TreeWork<'_> {
    /// Records conflicts in the target tree as failures.
    pub(super) fn find_clashes(&self, root: &Directory, visited: &[Visited]) {
        let Some(ways) = &mut root.ways() else { return };
        for directory in visited.iter().filter(|directory| directory.target.is_some()) {
            if self.is_stopped() {
                return;
            }
            if let Err(error) = self.look_at(ways, &directory.location) {
                self.record.failed(&directory.location.path(), error);
            }
        }
    }

    fn look_at(&self, ways: &mut Ways<'_>, location: &Arc<Location>) -> Result<(), FileError> {
        let system = FileError::system("read the directory again");
        let (source, wanted) = list(&mut ways.sources, location).map_err(&system)?;
        let (target, there) = match list(&mut ways.targets, location) {
            Ok(listed) => listed,
            Err(errno) => {
                let path = self.target.clone().unwrap_or_default().join(location.path());
                self.record.failed_of(path, system(errno));
                return Ok(());
            }
        };
        let pair = &Pair { location, source, target, wanted, there };
        if self.writes() {
            self.find_shared_files(pair)?;
            self.find_shared_directories(pair)?;
        }
        // In a dry run, entries to be deleted are still there.
        let is_to_go = self.options.existing.delete().is_some() && self.options.dry_run;
        if self.operation == Operation::Encrypt && !is_to_go {
            self.find_two_kinds(pair)?;
        }
        Ok(())
    }

    /// Finds files of the source that share one output. File numbers do not show it: some file
    /// systems give a file a number for each spelling of its name.
    fn find_shared_files(&self, pair: &Pair<'_>) -> Result<(), FileError> {
        let is_listed = |name: &OsStr| pair.there.kind(name).is_some();
        let mut outputs = Vec::new();
        for name in pair.wanted.names() {
            let target = self.options.names.output(self.operation, name).ok();
            let Some(target) = target.filter(|_| self.takes(pair, name)) else { continue };
            if self.kind_of_source(pair, name)? == Some(FileType::RegularFile) {
                outputs.push((name, target));
            }
        }
        if outputs.iter().all(|(_, target)| is_listed(target)) {
            return Ok(());
        }
        let mut first = HashMap::new();
        // The source whose output is listed keeps it.
        outputs.sort_by_key(|(_, target)| !is_listed(target));
        for (name, target) in outputs {
            let Some((_, FileType::RegularFile)) = look_up(pair.target, &target)? else {
                continue;
            };
            let output = Source::open(pair.target, &target, false)?;
            // Further names are linked at the end, and checked there.
            if output.status().st_nlink > 1 {
                continue;
            }
            let status = output.status();
            let file = (
                (status.st_size, status.st_mtime, status.st_mtime_nsec),
                (status.st_ctime, status.st_ctime_nsec),
                beginning(pair.target, &target)?,
            );
            let Some(other) = first.insert(file, name) else { continue };
            // Where it was seen before it took the place of the first, that one is done.
            if !is_listed(&target) && !self.record.has_failed(&pair.location.path_of(other)) {
                self.fail_once(pair, name, FileError::SameName(shown(&target).to_string()));
            }
        }
        Ok(())
    }

    /// Finds directories of the source that share one output directory, where only theirs exist.
    fn find_shared_directories(&self, pair: &Pair<'_>) -> Result<(), FileError> {
        let is_directory = |kind| kind == Some(FileType::Directory);
        let is_other =
            |name: &&OsStr| is_directory(pair.there.kind(name)) && pair.wanted.kind(name).is_none();
        let mut others = None;
        for name in pair.wanted.names() {
            if !is_directory(pair.wanted.kind(name)) || pair.there.kind(name).is_some() {
                continue;
            }
            if !matches!(look_up(pair.target, name)?, Some((_, FileType::Directory))) {
                continue;
            }
            // Each takes a directory that has no counterpart of its own name.
            let others = others
                .get_or_insert_with(|| pair.there.names().into_iter().filter(is_other).count());
            match others.checked_sub(1) {
                Some(left) => *others = left,
                None => {
                    self.fail_once(pair, name, FileError::SameName(shown(name).to_string()));
                }
            }
        }
        Ok(())
    }

    /// Finds outputs of two kinds that would be decrypted to one name.
    fn find_two_kinds(&self, pair: &Pair<'_>) -> Result<(), FileError> {
        for name in pair.wanted.names() {
            let sealed = self.options.names.output(self.operation, name);
            let (Ok(sealed), Some(plain)) = (sealed, pair.there.kind(name)) else { continue };
            if pair.there.kind(&sealed) != Some(FileType::RegularFile) || !self.takes(pair, name) {
                continue;
            }
            let is_clash = match self.kind_of_source(pair, name)? {
                Some(FileType::RegularFile) => {
                    matches!(plain, FileType::Directory | FileType::Symlink)
                }
                Some(FileType::Directory | FileType::Symlink) => {
                    let sealed = Source::open(pair.target, &sealed, false)?;
                    opens_header(self.keys, &sealed)?
                }
                _ => false,
            };
            if is_clash {
                let (plain, sealed) = (shown(name).to_string(), shown(&sealed).to_string());
                let refusal = Refusal::TwoKinds { plain, sealed };
                self.record.failed(&pair.location.path_of(name), refusal.into());
            }
        }
        Ok(())
    }

    fn kind_of_source(&self, pair: &Pair<'_>, name: &OsStr) -> Result<Option<FileType>, FileError> {
        match pair.wanted.kind(name) {
            Some(FileType::Symlink) if self.options.follow_symlinks => {
                let there = statat(pair.source, name, AtFlags::empty());
                Ok(there.ok().map(|there| FileType::from_raw_mode(there.st_mode)))
            }
            kind => Ok(kind),
        }
    }

    fn takes(&self, pair: &Pair<'_>, name: &OsStr) -> bool {
        self.options.selection.takes_file(&self.choice().plain_path(pair.location, name))
    }

    fn fail_once(&self, pair: &Pair<'_>, name: &OsStr, error: FileError) {
        let path = pair.location.path_of(name);
        if !self.record.has_failed(&path) {
            self.record.failed(&path, error);
        }
    }
}

fn list<'a>(
    way: &'a mut Descent<'_>,
    location: &Arc<Location>,
) -> Result<(BorrowedFd<'a>, Entries), Errno> {
    let directory = way.to(location)?;
    Ok((directory, Entries::of(directory)?))
}
