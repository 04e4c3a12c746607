//! Deletes outputs whose source is gone.
//!
//! A file system may list a name in another form than it was given (`a` for `A`). An entry that a
//! name of the source leads to is wanted, whatever name lists it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_keys::is_wrapped_key_in;
use evener_pipeline::Worker;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::descent::Descent;
use super::directory::{Directory, Made};
use super::endpoints::target_name;
use super::full;
use super::listing::{Listing, Wanted};
use super::work::TreeWork;
use crate::Agree;
use crate::Operation;
use crate::error::IntoSystemError;
use crate::identity::{FileState, Identity};
use crate::location::Location;
use crate::seal::{Blob, ReadAt, SegmentError, bytes_to_know, check_key, zeros};
use crate::source::Source;
use crate::{FileError, Refusal};

/// Entries of the target tree that may be removed, as paths below its root.
#[derive(Default)]
struct Orphans {
    files: Vec<Orphan>,
    /// Directories without a counterpart, each before those in it.
    directories: Vec<Place>,
    /// The counterparts that are empty.
    of_empty: Vec<Arc<Location>>,
}

/// An output whose source is gone.
struct Orphan {
    place: Place,
    name: OsString,
    /// The name that its source had.
    stem: OsString,
    /// The kind of that source: a file, or a link whose name a file's output now needs.
    kind: FileType,
    state: FileState,
}

/// A directory of the target tree.
#[derive(Clone)]
struct Place {
    target: Arc<Location>,
    /// The location of its counterpart, which may be listed under another name.
    source: Arc<Location>,
    /// The uppermost missing directory on the way to its counterpart.
    gone: Option<Arc<Location>>,
}

/// A directory of the target tree at work, with its counterpart if there is one.
struct Pair<'a> {
    place: &'a Place,
    target: BorrowedFd<'a>,
    source: Option<BorrowedFd<'a>>,
}

/// The paths down both trees.
struct Ways<'t> {
    sources: Descent<'t>,
    targets: Descent<'t>,
}

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
            let is_empty = is_empty(root.source.as_fd());
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
        if !self.options.control.asking(|| agree(&all)) {
            self.record.notice_of(path.to_owned(), "nothing was deleted");
            return;
        }
        self.delete(root, target, path, &orphans);
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
            let lost = orphans.files.iter().any(|orphan| is_below(orphan.place.source.path()))
                || orphans.directories.iter().any(|it| is_below(it.target.path()));
            if lost {
                self.record.failed_of(full(path, &place), error);
                is_found = true;
            }
        }
        is_found
    }

    fn find_orphans(
        &self,
        root: &Directory,
        target: &Made,
        path: &Path,
    ) -> Result<Orphans, (PathBuf, FileError)> {
        let mut orphans = Orphans::default();
        let (source, ways) = (Location::root(), &mut self.ways(root, target));
        let mut waiting = vec![Place { target: Location::root(), source, gone: None }];
        while let Some(place) = waiting.pop() {
            let failed = |error| (place.target.path(), error);
            if self.is_stopped() {
                return Err(failed(FileError::Interrupted));
            }
            let pair = self.open_pair(ways, &place).map_err(failed)?;
            if pair.source.is_none() {
                orphans.directories.push(place.clone());
            }
            if self.is_elsewhere(root, &pair).map_err(failed)? {
                continue;
            }
            self.look_into(&pair, path, &mut orphans, &mut waiting).map_err(failed)?;
        }
        Ok(orphans)
    }

    fn ways<'t>(&self, root: &'t Directory, target: &'t Made) -> Ways<'t> {
        let sources = Descent::new(root.source.as_fd(), self.options.follow_symlinks);
        Ways { sources, targets: Descent::new(target.as_fd(), false) }
    }

    fn open_pair<'a>(
        &self,
        ways: &'a mut Ways<'_>,
        place: &'a Place,
    ) -> Result<Pair<'a>, FileError> {
        let system = FileError::system("open the output directory");
        let target = ways.targets.to(&place.target).map_err(system)?;
        Ok(Pair { place, target, source: open_source(&mut ways.sources, place)? })
    }

    /// Returns whether a directory of the source is one from which nothing is taken.
    fn is_elsewhere(&self, root: &Directory, pair: &Pair<'_>) -> Result<bool, FileError> {
        let (true, Some(source)) = (self.options.one_file_system, pair.source) else {
            return Ok(false);
        };
        let system = FileError::system("look for the source of this directory");
        let device =
            |directory: BorrowedFd<'_>| fstat(directory).map(|it| it.st_dev).map_err(&system);
        Ok(device(source)? != device(root.source.as_fd())?)
    }

    /// Examines a directory of the target tree: adds its orphans, and its directories that are yet
    /// to be examined.
    fn look_into(
        &self,
        pair: &Pair<'_>,
        root: &Path,
        orphans: &mut Orphans,
        waiting: &mut Vec<Place>,
    ) -> Result<(), FileError> {
        let system = FileError::system("read the output directory");
        let listing = Listing::of(pair.target).map_err(&system)?;
        let wanted = match pair.source {
            Some(source) => {
                let names = Listing::of(source).map_err(FileError::system("read the directory"))?;
                if names.is_empty() {
                    orphans.of_empty.push(pair.place.source.clone());
                }
                Wanted::find(&names, &self.options.suffix, pair.target, &listing)?
            }
            None => Wanted::default(),
        };
        for name in listing.names() {
            let there = statat(pair.target, name, AtFlags::SYMLINK_NOFOLLOW).map_err(&system)?;
            let shown = || root.join(pair.place.target.path_of(name));
            let chosen = || self.options.selection.path_of(&pair.place.source, name);
            match FileType::from_raw_mode(there.st_mode) {
                FileType::Directory if self.options.selection.takes_directory(&chosen()) => {
                    if !self.has_gone(pair.source, name, FileType::Directory)? {
                        waiting.push(pair.below(name, name));
                    } else if let Some(other) = wanted.name_of(Identity::of(&there)) {
                        waiting.push(pair.below(name, other));
                    } else if wanted.has_unknown_directories() {
                        self.record.notice_of(shown(), ONE_NAME_KEPT);
                    } else {
                        waiting.push(pair.below(name, name));
                    }
                }
                FileType::Symlink
                    if self.options.selection.takes_file(&chosen())
                        && self.has_gone(pair.source, name, FileType::Symlink)? =>
                {
                    // A file that has taken its place would be decrypted to the link's name.
                    if self.has_gone(pair.source, name, FileType::RegularFile)? {
                        self.record.notice_of(shown(), LINK_KEPT);
                        continue;
                    }
                    orphans.files.push(Orphan {
                        place: pair.place.clone(),
                        name: name.to_owned(),
                        stem: name.to_owned(),
                        kind: FileType::Symlink,
                        state: FileState::of(&there),
                    });
                }
                FileType::RegularFile if !self.options.protected.contains(&there) => {
                    let Some(stem) = self.orphaned(pair, name)? else { continue };
                    if wanted.contains(pair.target, name)? {
                        continue;
                    }
                    if !self.is_ours(pair, name)? {
                        self.record.notice_of(shown(), FOREIGN_KEPT);
                        continue;
                    }
                    orphans.files.push(Orphan {
                        place: pair.place.clone(),
                        name: name.to_owned(),
                        stem,
                        kind: FileType::RegularFile,
                        state: FileState::of(&there),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The name of a file's source, if that was taken and is gone.
    fn orphaned(&self, pair: &Pair<'_>, name: &OsStr) -> Result<Option<OsString>, FileError> {
        let stem = target_name(Operation::Decrypt, name, &self.options.suffix);
        let Some(stem) = stem else { return Ok(None) };
        if !self.keys.is_of_age() && is_wrapped_key_in(pair.target, name, false) {
            return Ok(None);
        }
        let selection = &self.options.selection;
        let was_taken = selection.takes_file(&selection.path_of(&pair.place.source, &stem));
        let has_gone = was_taken && self.has_gone(pair.source, &stem, FileType::RegularFile)?;
        Ok(has_gone.then_some(stem))
    }

    /// Returns whether a directory of the source has nothing of this kind and name.
    fn has_gone(
        &self,
        source: Option<BorrowedFd<'_>>,
        name: &OsStr,
        kind: FileType,
    ) -> Result<bool, FileError> {
        let Some(source) = source else { return Ok(true) };
        let follow = self.options.follow_symlinks;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match statat(source, name, flags) {
            Ok(there) => Ok(FileType::from_raw_mode(there.st_mode) != kind),
            Err(Errno::NOENT) => Ok(true),
            Err(errno) => {
                Err(FileError::System { action: "look for its source", errno: errno.system() })
            }
        }
    }

    /// Returns whether one of the keys opens a file: no other file is certainly Evener's.
    fn is_ours(&self, pair: &Pair<'_>, name: &OsStr) -> Result<bool, FileError> {
        let sealed = Source::open(pair.target, name, false)?;
        let engine = self.options.reference.as_ref().or(self.options.seats.first());
        let Some(engine) = engine else { return Ok(false) };
        let length = sealed.length().min(bytes_to_know(self.keys));
        let mut beginning = zeros(length)?;
        sealed.read_exact_at(&mut beginning, 0)?;
        let mut scratch = zeros(length)?;
        let worker = &mut Worker::new(engine.as_ref(), 0);
        match check_key(self.keys, &beginning, &sealed, &mut scratch, worker) {
            Ok(()) => Ok(true),
            Err(SegmentError::File(
                FileError::Format(_) | FileError::Rejected { .. } | FileError::RejectedEnd { .. },
            )) => Ok(false),
            Err(SegmentError::File(error)) => Err(error),
            Err(SegmentError::Engine(error)) => Err(error.into()),
        }
    }

    fn delete(&self, root: &Directory, target: &Made, path: &Path, orphans: &Orphans) {
        let mut moved = HashMap::new();
        let ways = &mut self.ways(root, target);
        for orphan in &orphans.files {
            if self.is_stopped() {
                self.record.failed_of(path.join(orphan.path()), FileError::Interrupted);
                return;
            }
            let place = (&orphan.place.target, &orphan.place.source);
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
            let (target, source) = (above(&place.target), above(&place.source));
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
        let pair = self.open_pair(ways, &orphan.place)?;
        // While the file is open, its number can't become another file's.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(pair.target, &orphan.name, flags, Mode::empty()).map_err(&system)?;
        let expected = moved.get(&orphan.state).unwrap_or(&orphan.state);
        let is_the_same = FileState::of(&fstat(&file).map_err(&system)?) == *expected;
        if !is_the_same || !self.has_gone(pair.source, &orphan.stem, orphan.kind)? {
            return Err(Refusal::ChangedKept.into());
        }
        unlinkat(pair.target, &orphan.name, AtFlags::empty()).map_err(&system)?;
        // Some file systems report nothing about a file without a name.
        if let Ok(now) = fstat(&file) {
            moved.insert(orphan.state, FileState::of(&now));
        }
        Ok(())
    }
}

impl Pair<'_> {
    /// A directory in this one, and the name of its counterpart.
    fn below(&self, name: &OsStr, source: &OsStr) -> Place {
        let above = self.place;
        let has_gone = || self.source.is_none().then(|| above.source.clone());
        Place {
            target: Location::below(&above.target, name),
            source: Location::below(&above.source, source),
            gone: above.gone.clone().or_else(has_gone),
        }
    }
}

/// The counterpart of a directory; `None` when it is gone, or is no longer a directory.
fn open_source<'a>(
    sources: &'a mut Descent<'_>,
    place: &Place,
) -> Result<Option<BorrowedFd<'a>>, FileError> {
    let system = FileError::system("look for the source of this directory");
    let is_gone = |errno| matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
    if let Some(gone) = &place.gone
        && sources.to(gone).is_err_and(is_gone)
    {
        return Ok(None);
    }
    match sources.to(&place.source) {
        Ok(directory) => Ok(Some(directory)),
        Err(errno) if is_gone(errno) => Ok(None),
        Err(errno) => Err(system(errno)),
    }
}

/// Removes a directory if it is empty and its source has not come back.
fn delete_directory(ways: &mut Ways<'_>, place: &Place) -> Result<(), FileError> {
    let Some((above, name)) = place.target.above() else { return Ok(()) };
    if open_source(&mut ways.sources, place)?.is_some() {
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

impl Orphan {
    fn path(&self) -> PathBuf {
        self.place.target.path_of(&self.name)
    }
}

/// Returns whether a directory is empty or can't be read.
fn is_empty(directory: impl AsFd) -> bool {
    let is_entry = |name: &[u8]| !matches!(name, b"." | b"..");
    !Dir::read_from(directory)
        .is_ok_and(|entries| entries.flatten().any(|entry| is_entry(entry.file_name().to_bytes())))
}

const ONE_NAME_KEPT: &str = "this file system also finds it under the name of a directory of the \
     source, or may do so: it was kept with all in it; give it the name that it has in the source";

const NOT_ALL_DONE: &str = "nothing was deleted, since not all could be done, and deletions come \
     last; where there is no space left, make room by hand";

const LINK_KEPT: &str =
    "the source of this link has gone; it was kept, since nothing shows that Evener made it";

const FOREIGN_KEPT: &str =
    "its source has gone, but it was not made with this key and context, so it was kept";
