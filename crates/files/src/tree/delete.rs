//! Deletes outputs whose source is gone.
//!
//! A file system may list a name otherwise than it was given (`a` for `A`). What a name of the
//! source leads to is wanted, whatever name lists it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use evener_pipeline::Worker;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Made, open_path};
use super::endpoints::target_name;
use super::listing::{Listing, Wanted};
use super::walk::is_wrapped_key;
use super::work::TreeWork;
use crate::FileError;
use crate::Operation;
use crate::error::IntoSystemError;
use crate::identity::{FileState, Identity};
use crate::options::Agree;
use crate::prepare::{bytes_to_know, check_key};
use crate::segment::SegmentError;
use crate::source::Source;
use crate::workspace::zeros;

/// Entries of the target tree that may be removed, as paths below its root.
#[derive(Default)]
struct Orphans {
    files: Vec<Orphan>,
    /// Directories without a counterpart, each before those in it.
    directories: Vec<PathBuf>,
}

/// An output whose source has gone.
struct Orphan {
    place: Place,
    name: OsString,
    /// The name that its source had.
    stem: OsString,
    /// What had that name: a file, or a link whose name an output of a file needs now.
    kind: FileType,
    state: FileState,
}

/// A directory of the target tree, as paths below the roots.
#[derive(Clone, Default)]
struct Place {
    target: PathBuf,
    /// That of its counterpart, which may be listed under another name.
    source: PathBuf,
}

/// A directory of the target tree at work, with its counterpart if there is one.
struct Pair {
    place: Place,
    target: OwnedFd,
    source: Option<OwnedFd>,
}

impl TreeWork<'_> {
    /// Removes the outputs whose source has gone, and directories that are empty then. `path` is
    /// what the user calls the target. Where anything was not done, or can't be looked at, nothing
    /// is removed: a source that is not seen need not have gone.
    pub(super) fn delete_orphans(&self, root: &Directory, path: &Path, agree: &Agree) {
        let Some(target) = &root.target else { return };
        if self.is_stopped() || !self.record.is_success() {
            self.record.notice_of(path.to_owned(), NOT_ALL_DONE);
            return;
        }
        let orphans = match self.find_orphans(root, target, path) {
            Ok(orphans) => orphans,
            Err((at, error)) => {
                self.record.failed_of(path.join(at), error);
                self.record.notice_of(path.to_owned(), NOT_ALL_DONE);
                return;
            }
        };
        if !orphans.files.is_empty() && !self.record.found_outputs() {
            // So is the directory of a disk that is not mounted.
            let reason = match is_empty(root.source.as_fd()) {
                true => SOURCE_EMPTY,
                false => NONE_OF_SOURCE,
            };
            self.record.failed_of(path.to_owned(), FileError::Refused(reason.to_owned()));
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
        // A slash at the end shows people what is a directory.
        let directories = orphans.directories.iter().map(|below| path.join(below).join(""));
        let all: Vec<_> = files.chain(directories).collect();
        if all.is_empty() {
            return;
        }
        if !self.options.control.asking(|| agree(&all)) {
            self.record.notice_of(path.to_owned(), "nothing was deleted");
            return;
        }
        self.delete(root, target, path, &orphans);
    }

    fn find_orphans(
        &self,
        root: &Directory,
        target: &Made,
        path: &Path,
    ) -> Result<Orphans, (PathBuf, FileError)> {
        let mut orphans = Orphans::default();
        let mut waiting = vec![Place::default()];
        while let Some(place) = waiting.pop() {
            let below = place.target.clone();
            if self.is_stopped() {
                return Err((below, FileError::Interrupted));
            }
            let failed = |error| (below.clone(), error);
            let pair = self.open_pair(root, target, &place).map_err(failed)?;
            if pair.source.is_none() {
                orphans.directories.push(below.clone());
            }
            self.look_into(&pair, path, &mut orphans, &mut waiting).map_err(failed)?;
        }
        Ok(orphans)
    }

    fn open_pair(&self, root: &Directory, target: &Made, place: &Place) -> Result<Pair, FileError> {
        let system = FileError::system("open the output directory");
        let opened = open_path(target.as_fd(), &place.target, false).map_err(system)?;
        let source = self.open_source(root, &place.source)?;
        Ok(Pair { place: place.clone(), target: opened, source })
    }

    /// A directory of the source; `None` when it has gone, or is no directory any more.
    fn open_source(&self, root: &Directory, below: &Path) -> Result<Option<OwnedFd>, FileError> {
        match open_path(root.source.as_fd(), below, self.options.follow_symlinks) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(FileError::System {
                action: "look for the source of this directory",
                errno: errno.system(),
            }),
        }
    }

    /// Looks at a directory of the target tree: adds its orphans, and those of its directories
    /// that are yet to be looked at.
    fn look_into(
        &self,
        pair: &Pair,
        root: &Path,
        orphans: &mut Orphans,
        waiting: &mut Vec<Place>,
    ) -> Result<(), FileError> {
        let system = FileError::system("read the output directory");
        let listing = Listing::of(&pair.target).map_err(&system)?;
        let wanted = match &pair.source {
            Some(source) => {
                let names = Listing::of(source).map_err(FileError::system("read the directory"))?;
                Wanted::find(&names, &self.options.suffix, &pair.target, &listing)?
            }
            None => Wanted::default(),
        };
        for name in listing.names() {
            let place = Place {
                target: pair.place.target.join(name),
                source: pair.place.source.join(name),
            };
            let there = statat(&pair.target, name, AtFlags::SYMLINK_NOFOLLOW).map_err(&system)?;
            let shown = root.join(&place.target);
            match FileType::from_raw_mode(there.st_mode) {
                FileType::Directory if self.options.selection.takes_directory(&place.source) => {
                    if !self.has_gone(pair.source.as_ref(), name, FileType::Directory)? {
                        waiting.push(place);
                    } else if let Some(other) = wanted.name_of(Identity::of(&there)) {
                        waiting.push(Place { source: pair.place.source.join(other), ..place });
                    } else if wanted.has_unknown_directories() {
                        self.record.notice_of(shown, ONE_NAME_KEPT);
                    } else {
                        waiting.push(place);
                    }
                }
                FileType::Symlink
                    if self.options.selection.takes_file(&place.source)
                        && self.has_gone(pair.source.as_ref(), name, FileType::Symlink)? =>
                {
                    // A file that has taken its place would be decrypted to the link's name.
                    if self.has_gone(pair.source.as_ref(), name, FileType::RegularFile)? {
                        self.record.notice_of(shown, LINK_KEPT);
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
                    if wanted.contains(&pair.target, name)? {
                        continue;
                    }
                    if !self.is_ours(pair, name)? {
                        self.record.notice_of(shown, FOREIGN_KEPT);
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

    /// The name that a file's source had, if that was taken and has gone.
    fn orphaned(&self, pair: &Pair, name: &OsStr) -> Result<Option<OsString>, FileError> {
        let is_key = pair.place.target.as_os_str().is_empty() && is_wrapped_key(name);
        let stem = target_name(Operation::Decrypt, name, &self.options.suffix);
        let Some(stem) = stem.filter(|_| !is_key) else { return Ok(None) };
        let was_taken = self.options.selection.takes_file(&pair.place.source.join(&stem));
        let has_gone =
            was_taken && self.has_gone(pair.source.as_ref(), &stem, FileType::RegularFile)?;
        Ok(has_gone.then_some(stem))
    }

    /// Whether there is nothing of this kind and name in a directory of the source.
    fn has_gone(
        &self,
        source: Option<&OwnedFd>,
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

    /// Whether one of the keys opens a file: no other is Evener's for certain.
    fn is_ours(&self, pair: &Pair, name: &OsStr) -> Result<bool, FileError> {
        let sealed = Source::open(pair.target.as_fd(), name, false)?;
        let engine = self.options.reference.as_ref().or(self.options.seats.first());
        let Some(engine) = engine else { return Ok(false) };
        let length = sealed.length().min(bytes_to_know(self.keys));
        let mut beginning = zeros(length)?;
        sealed.read_exact_at(&mut beginning, 0)?;
        let mut scratch = zeros(length)?;
        let worker = &mut Worker::new(engine.as_ref(), 0);
        match check_key(self.keys, &beginning, sealed.length(), &mut scratch, worker) {
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
        for orphan in &orphans.files {
            if self.is_stopped() {
                self.record.failed_of(path.join(orphan.path()), FileError::Interrupted);
                return;
            }
            match self.delete_file(root, target, orphan, &mut moved) {
                Ok(()) => self.record.deleted(&path.join(orphan.path())),
                Err(error) => self.record.failed_of(path.join(orphan.path()), error),
            }
        }
        for below in orphans.directories.iter().rev() {
            if let Err(error) = self.delete_directory(root, target, below) {
                self.record.failed_of(path.join(below), error);
            }
        }
    }

    /// Removes an output, if it is what it was when it was found, and its source has not come back.
    /// `moved` has the state of each file that has lost another of its names here since.
    fn delete_file(
        &self,
        root: &Directory,
        target: &Made,
        orphan: &Orphan,
        moved: &mut HashMap<FileState, FileState>,
    ) -> Result<(), FileError> {
        let system = FileError::system("delete it");
        let pair = self.open_pair(root, target, &orphan.place)?;
        // While it is open its number can't become another file's.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&pair.target, &orphan.name, flags, Mode::empty()).map_err(&system)?;
        let expected = moved.get(&orphan.state).unwrap_or(&orphan.state);
        let is_the_same = FileState::of(&fstat(&file).map_err(&system)?) == *expected;
        let source = pair.source.as_ref();
        if !is_the_same || !self.has_gone(source, &orphan.stem, orphan.kind)? {
            return Err(FileError::Refused(CHANGED_KEPT.to_owned()));
        }
        unlinkat(&pair.target, &orphan.name, AtFlags::empty()).map_err(&system)?;
        // Without a name left, some file systems tell nothing of it any more.
        if let Ok(now) = fstat(&file) {
            moved.insert(orphan.state, FileState::of(&now));
        }
        Ok(())
    }

    /// Removes a directory if it is empty and its source has not come back.
    fn delete_directory(
        &self,
        root: &Directory,
        target: &Made,
        below: &Path,
    ) -> Result<(), FileError> {
        let Some(name) = below.file_name() else { return Ok(()) };
        if self.open_source(root, below)?.is_some() {
            return Ok(());
        }
        let system = FileError::system("delete the directory");
        let above = below.parent().unwrap_or(Path::new(""));
        let parent = open_path(target.as_fd(), above, false).map_err(&system)?;
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            // It holds what is not Evener's.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(system(errno)),
        }
    }
}

impl Orphan {
    fn path(&self) -> PathBuf {
        self.place.target.join(&self.name)
    }
}

/// Whether a directory holds nothing, or can't be read.
fn is_empty(directory: impl AsFd) -> bool {
    let is_entry = |name: &[u8]| !matches!(name, b"." | b"..");
    !Dir::read_from(directory)
        .is_ok_and(|entries| entries.flatten().any(|entry| is_entry(entry.file_name().to_bytes())))
}

const SOURCE_EMPTY: &str = "nothing was deleted, since the source is empty, as the directory of a \
     disk that is not mounted is; if all of it is to go, remove this tree yourself";

const NONE_OF_SOURCE: &str = "nothing was deleted, since none of the outputs here is of this \
     source as it is now: this may be another source, or one that is not mounted; if all of it is \
     to go, remove this tree yourself";

const ONE_NAME_KEPT: &str = "this file system also finds it under the name of a directory of the \
     source, or may do so: it was kept with all in it; give it the name that it has in the source";

const NOT_ALL_DONE: &str = "nothing was deleted, since not all could be done, and deletions come \
     last; where there is no space left, make room by hand";

const LINK_KEPT: &str =
    "the source of this link has gone; it was kept, since nothing shows that Evener made it";

const FOREIGN_KEPT: &str =
    "its source has gone, but it was not made with this key and context, so it was kept";

const CHANGED_KEPT: &str = "was changed meanwhile, or its source has come back, so it was kept";
