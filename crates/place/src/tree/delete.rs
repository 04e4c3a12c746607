//! Deletes outputs whose source is gone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::descent::Ways;
use super::directory::Directory;
use super::full;
use super::orphans::{Orphan, Orphans, Place};
use super::work::TreeWork;
use crate::Agree;
use crate::entries::is_empty;
use crate::identity::FileState;
use crate::location::Location;
use crate::{FileError, Refusal};

impl TreeWork<'_> {
    /// Removes the outputs whose source is gone, and directories left empty. `path` is the user's
    /// name for the target. If anything was not done, or can't be examined, nothing is removed: an
    /// unseen source need not be gone.
    pub(super) fn delete_orphans(&self, root: &Directory, path: &Path, agree: &Agree) {
        let Some(target) = &root.target else { return };
        if self.is_stopped() || !self.record.is_success() {
            self.record.notice_of(path.to_owned(), NOT_ALL_DONE);
            return;
        }
        let mut orphans = match self.find_orphans(root, target, path) {
            Ok(orphans) => orphans,
            Err((at, error)) => {
                self.record.failed_of(path.join(at), error);
                self.record.notice_of(path.to_owned(), NOT_ALL_DONE);
                return;
            }
        };
        if !orphans.files.is_empty() && !self.record.found_outputs() {
            // The directory of an unmounted disk is empty too.
            let is_empty = is_empty(&root.source).unwrap_or(true);
            let refusal = if is_empty { Refusal::SourceEmpty } else { Refusal::NoneOfSource };
            self.record.failed_of(path.to_owned(), refusal.into());
            if !is_empty {
                self.note_other_source();
            }
            return;
        }
        if self.was_other_source()
            && !self.options.existing.deletes_unmounted()
            && !orphans.files.is_empty()
        {
            self.record.failed_of(path.to_owned(), FileError::OtherSource);
            return;
        }
        if self.may_be_unmounted(&mut orphans, path) {
            self.record.notice_of(path.to_owned(), NOT_ALL_DONE);
            return;
        }
        let files = orphans.files.iter().map(|orphan| path.join(orphan.path()));
        if self.options.dry_run {
            for file in files {
                self.record.deleted(&file);
                self.record.notice_of(file, "its source has gone, so it would be deleted");
            }
            return;
        }
        // A slash at the end marks directories for the reader.
        let directories = orphans.directories.iter();
        let directories = directories.map(|place| path.join(place.target.path()).join(""));
        let all: Vec<_> = files.chain(directories).collect();
        if all.is_empty() {
            if self.record.is_success() {
                self.settle_mounts();
            }
            return;
        }
        if !self.run.control.asking(|| agree(&all)) {
            self.record.notice_of(path.to_owned(), "nothing was deleted");
            return;
        }
        self.delete(root, path, &orphans);
        if self.record.is_success() {
            self.settle_mounts();
        }
    }

    /// Returns whether an entry only seems to have lost its source, because a disk is not mounted.
    /// That is a failure.
    fn may_be_unmounted(&self, orphans: &mut Orphans, path: &Path) -> bool {
        if self.options.existing.deletes_unmounted() {
            return false;
        }
        let missing = self.missing_mounts().into_iter().map(|place| (place, FileError::Unmounted));
        let empty = std::mem::take(&mut orphans.of_empty).into_iter();
        let empty = empty.filter(|_| !self.mounts.is_whole()).map(|place| place.path());
        let empty = empty.map(|place| (place, FileError::PerhapsUnmounted));
        let mut is_found = false;
        for (place, error) in missing.chain(empty) {
            // The disk that holds the source itself is above it.
            let is_below = |path: PathBuf| place.starts_with("..") || path.starts_with(&place);
            let lost = orphans
                .files
                .iter()
                .any(|orphan| is_below(orphan.place.counterpart.location.path()))
                || orphans.directories.iter().any(|it| is_below(it.target.path()));
            if lost {
                self.record.failed_of(full(path, &place), error);
                is_found = true;
            }
        }
        is_found
    }

    fn delete(&self, root: &Directory, path: &Path, orphans: &Orphans) {
        let mut moved = HashMap::new();
        let Some(ways) = &mut root.ways() else { return };
        for orphan in &orphans.files {
            if self.is_stopped() {
                self.record.failed_of(path.join(orphan.path()), FileError::Interrupted);
                return;
            }
            let place = (&orphan.place.target, &orphan.place.counterpart.location);
            let delete = || self.delete_file(ways, orphan, &mut moved);
            match self.in_target_at(root, place, delete) {
                Ok(()) => self.record.deleted(&path.join(orphan.path())),
                Err(error) => self.record.failed_of(path.join(orphan.path()), error),
            }
        }
        for place in orphans.directories.iter().rev() {
            let above = |location: &Arc<Location>| {
                location.above().map_or_else(|| location.clone(), |(above, _)| above.clone())
            };
            let (target, source) = (above(&place.target), above(&place.counterpart.location));
            let delete = || delete_directory(ways, place);
            if let Err(error) = self.in_target_at(root, (&target, &source), delete) {
                self.record.failed_of(path.join(place.target.path()), error);
            }
        }
    }

    /// Removes an output, if it is unchanged since it was found and its source has not come back.
    /// `moved` has the new state of each file that has lost another of its names here.
    fn delete_file(
        &self,
        ways: &mut Ways<'_>,
        orphan: &Orphan,
        moved: &mut HashMap<FileState, FileState>,
    ) -> Result<(), FileError> {
        let system = FileError::system("delete it");
        let opening = FileError::system("open the output directory");
        let target = ways.targets.to(&orphan.place.target).map_err(opening)?;
        let source = orphan.place.counterpart.open(&mut ways.sources)?;
        // While the file is open, its number can't become another file's.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(target, &orphan.name, flags, Mode::empty()).map_err(&system)?;
        let expected = moved.get(&orphan.state).unwrap_or(&orphan.state);
        let is_the_same = FileState::of(&fstat(&file).map_err(&system)?) == *expected;
        if !is_the_same || !self.has_gone(source, &orphan.stem, orphan.kind)? {
            return Err(Refusal::ChangedKept.into());
        }
        unlinkat(target, &orphan.name, AtFlags::empty()).map_err(&system)?;
        // Some file systems report nothing about a file without a name.
        if let Ok(now) = fstat(&file) {
            moved.insert(orphan.state, FileState::of(&now));
        }
        Ok(())
    }
}

/// Removes a directory if it is empty and its source has not come back.
fn delete_directory(ways: &mut Ways<'_>, place: &Place) -> Result<(), FileError> {
    let Some((above, name)) = place.target.above() else { return Ok(()) };
    if place.counterpart.open(&mut ways.sources)?.is_some() {
        return Ok(());
    }
    let system = FileError::system("delete the directory");
    let parent = ways.targets.to(above).map_err(&system)?;
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        // It holds entries that are not Evener's.
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(system(errno)),
    }
}

const NOT_ALL_DONE: &str = "nothing was deleted: deletions come last, and only after everything \
     before them succeeded; if the target is full, make room by hand";
