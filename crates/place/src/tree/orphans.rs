//! Finds outputs whose source is gone.
//!
//! A file system may list a name in another form than it was given (`a` for `A`). An entry that a
//! name of the source leads to is wanted, whatever name lists it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_pipeline::Worker;
use rustix::fs::{AtFlags, FileType, fstat, statat};
use rustix::io::Errno;

use super::descent::Descent;
use super::directory::{Directory, Made, open_directory};
use super::walk::{Below, Entry, Visitor, Walk};
use super::wanted::Wanted;
use super::work::TreeWork;
use crate::FileError;
use crate::entries::Entries;
use crate::identity::{FileState, Identity};
use crate::location::Location;
use crate::source::Source;
use evener_seal::{Blob, ReadAt, SegmentError, bytes_to_know, check_key, may_be_ours, zeros};

/// Entries of the target tree that may be removed.
#[derive(Default)]
pub(super) struct Orphans {
    pub(super) files: Vec<Orphan>,
    /// Directories without a counterpart, each before those in it.
    pub(super) directories: Vec<Place>,
    /// The counterparts that are empty.
    pub(super) of_empty: Vec<Arc<Location>>,
}

/// An output whose source is gone.
pub(super) struct Orphan {
    pub(super) place: Place,
    pub(super) name: OsString,
    /// The name that its source had.
    pub(super) stem: OsString,
    /// The kind of that source: a file, or a link whose name a file's output now needs.
    pub(super) kind: FileType,
    pub(super) state: FileState,
}

impl Orphan {
    /// Its path below the root of the target tree.
    pub(super) fn path(&self) -> PathBuf {
        self.place.target.path_of(&self.name)
    }
}

/// A directory of the target tree.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) target: Arc<Location>,
    pub(super) counterpart: Counterpart,
}

/// A directory of the source, which may be missing, or listed under another name than its
/// counterpart.
#[derive(Clone)]
pub(super) struct Counterpart {
    pub(super) location: Arc<Location>,
    /// The uppermost missing directory on the way there.
    gone: Option<Arc<Location>>,
}

/// A directory of the target tree at work, with its counterpart if there is one.
struct Pair<'a> {
    place: &'a Place,
    target: BorrowedFd<'a>,
    source: Option<BorrowedFd<'a>>,
}

/// The visitor of the target tree that finds them. It ends at the first failure.
struct Search<'a> {
    work: &'a TreeWork<'a>,
    root: &'a Directory,
    /// The user's name for the target.
    path: &'a Path,
    sources: Descent<'a>,
    /// The counterparts of the directories that the walk is yet to enter.
    waiting: Vec<Counterpart>,
    orphans: Orphans,
    failed: Option<(PathBuf, FileError)>,
}

impl Visitor for Search<'_> {
    const OPENING: &'static str = "open the output directory";

    fn is_over(&self) -> bool {
        self.failed.is_some()
    }

    fn entry(&mut self, _: &Entry<'_>) -> Result<bool, FileError> {
        Ok(false)
    }

    fn read(&mut self, directory: &Arc<Directory>, below: &mut Below) -> Result<(), FileError> {
        let Search { work, root, path, sources, waiting, orphans, .. } = self;
        let Some(counterpart) = waiting.pop() else { return Ok(()) };
        if work.is_stopped() {
            return Err(FileError::Interrupted);
        }
        let place = Place { target: directory.location.clone(), counterpart };
        let source = place.counterpart.open(sources)?;
        if source.is_none() {
            orphans.directories.push(place.clone());
        }
        let pair = Pair { place: &place, target: directory.source.as_fd(), source };
        // Nothing is taken from other file systems.
        if work.options.one_file_system
            && let Some(source) = source
            && fstat(source).map_err(FileError::system(LOOKING))?.st_dev != root.status.st_dev
        {
            return Ok(());
        }
        work.look_into(&pair, path, orphans, |name, in_source| {
            below.push(Location::below(&directory.location, name));
            waiting.push(pair.below(in_source));
        })
    }

    fn failed(&mut self, path: PathBuf, error: FileError) {
        self.failed = Some((path, error));
    }
}

impl TreeWork<'_> {
    /// Finds the outputs whose source is gone. `path` is the user's name for the target.
    ///
    /// # Errors
    /// When anything can't be examined: its path below the target.
    pub(super) fn find_orphans(
        &self,
        root: &Directory,
        target: &Made,
        path: &Path,
    ) -> Result<Orphans, (PathBuf, FileError)> {
        let opened = open_directory(target.as_fd(), OsStr::new("."), false)
            .map_err(FileError::system("open the output directory"))
            .and_then(|opened| Directory::root(opened, false));
        let mut search = Search {
            work: self,
            root,
            path,
            sources: Descent::new(root.source.as_fd(), root.follows),
            waiting: vec![Counterpart { location: Location::root(), gone: None }],
            orphans: Orphans::default(),
            failed: None,
        };
        Walk::new(opened.map_err(|error| (PathBuf::new(), error))?).run(&mut search);
        search.failed.map_or(Ok(search.orphans), Err)
    }

    /// Examines a directory of the target tree: adds its orphans, and calls `enter` with the name of
    /// each directory that is yet to be examined, and its counterpart's name.
    fn look_into(
        &self,
        pair: &Pair<'_>,
        root: &Path,
        orphans: &mut Orphans,
        mut enter: impl FnMut(&OsStr, &OsStr),
    ) -> Result<(), FileError> {
        let system = FileError::system("read the output directory");
        let listing = Entries::of(pair.target).map_err(&system)?;
        let wanted = match pair.source {
            Some(source) => {
                let names = Entries::of(source).map_err(FileError::system("read the directory"))?;
                if names.is_empty() {
                    orphans.of_empty.push(pair.place.counterpart.location.clone());
                }
                Wanted::find(&names, &self.options.names, pair.target, &listing)?
            }
            None => Wanted::default(),
        };
        for name in listing.names() {
            let there = statat(pair.target, name, AtFlags::SYMLINK_NOFOLLOW).map_err(&system)?;
            let notice = |reason: &str| {
                self.record.notice_of(root.join(pair.place.target.path_of(name)), reason);
            };
            let mut orphan = |stem: &OsStr, kind| {
                orphans.files.push(Orphan {
                    place: pair.place.clone(),
                    name: name.to_owned(),
                    stem: stem.to_owned(),
                    kind,
                    state: FileState::of(&there),
                });
            };
            let chosen = || self.options.selection.path_of(&pair.place.counterpart.location, name);
            match FileType::from_raw_mode(there.st_mode) {
                FileType::Directory if self.options.selection.takes_directory(&chosen()) => {
                    let has_gone = self.has_gone(pair.source, name, FileType::Directory)?;
                    match wanted.name_of(Identity::of(&there)).filter(|_| has_gone) {
                        Some(other) => enter(name, other),
                        None if has_gone && wanted.has_unknown_directories() => {
                            notice(ONE_NAME_KEPT);
                        }
                        None => enter(name, name),
                    }
                }
                FileType::Symlink
                    if self.options.selection.takes_file(&chosen())
                        && self.has_gone(pair.source, name, FileType::Symlink)? =>
                {
                    // A file that has taken its place would be decrypted to the link's name.
                    match self.has_gone(pair.source, name, FileType::RegularFile)? {
                        true => notice(LINK_KEPT),
                        false => orphan(name, FileType::Symlink),
                    }
                }
                FileType::RegularFile if !self.options.protected.contains(&there) => {
                    let Some(stem) = self.orphaned(pair, name)? else { continue };
                    if wanted.contains(pair.target, name)? {
                        continue;
                    }
                    match self.foreign(pair, name)? {
                        None => orphan(&stem, FileType::RegularFile),
                        Some(reason) => notice(reason),
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The name of a file's source, if that was taken and is gone.
    fn orphaned(&self, pair: &Pair<'_>, name: &OsStr) -> Result<Option<OsString>, FileError> {
        let Ok(stem) = self.options.names.open(name) else { return Ok(None) };
        if self.keys.is_wrapped_key_in(pair.target, name, false) {
            return Ok(None);
        }
        let selection = &self.options.selection;
        let was_taken =
            selection.takes_file(&selection.path_of(&pair.place.counterpart.location, &stem));
        let has_gone = was_taken && self.has_gone(pair.source, &stem, FileType::RegularFile)?;
        Ok(has_gone.then_some(stem))
    }

    /// Returns whether a directory of the source has nothing of this kind and name.
    pub(super) fn has_gone(
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
            Err(errno) => Err(FileError::system("look for its source")(errno)),
        }
    }

    /// The reason to keep a file: only one that the keys open is certainly Evener's. Age's files show
    /// no more than that certain programs have not made them.
    fn foreign(&self, pair: &Pair<'_>, name: &OsStr) -> Result<Option<&'static str>, FileError> {
        let sealed = Source::open(pair.target, name, false)?;
        let engine = self.run.reference.as_ref().or(self.run.seats.first());
        let Some(engine) = engine else { return Ok(Some(FOREIGN_KEPT)) };
        if !self.opens_outputs() {
            return Ok(Some(UNKNOWN_KEPT));
        }
        let length = sealed.length().min(bytes_to_know(self.keys));
        let mut beginning = zeros(length)?;
        sealed.read_exact_at(&mut beginning, 0)?;
        let mut scratch = zeros(length)?;
        let worker = &mut Worker::new(engine.as_ref(), 0);
        match check_key(self.keys, &beginning, &sealed, &mut scratch, worker) {
            Ok(()) if !self.keys.is_of_age() || may_be_ours(&sealed)? => Ok(None),
            Ok(()) => Ok(Some(OTHER_PROGRAM_KEPT)),
            Err(SegmentError::File(
                FileError::Format(_) | FileError::Rejected { .. } | FileError::RejectedEnd { .. },
            )) => Ok(Some(FOREIGN_KEPT)),
            Err(SegmentError::File(error)) => Err(error),
            Err(SegmentError::Engine(error)) => Err(error.into()),
        }
    }
}

impl Pair<'_> {
    /// The counterpart of a directory in this one, which has this name in the source.
    fn below(&self, name: &OsStr) -> Counterpart {
        let above = &self.place.counterpart;
        let has_gone = || self.source.is_none().then(|| above.location.clone());
        Counterpart {
            location: Location::below(&above.location, name),
            gone: above.gone.clone().or_else(has_gone),
        }
    }
}

impl Counterpart {
    /// Opens it; `None` when it is gone, or is no longer a directory.
    pub(super) fn open<'a>(
        &self,
        sources: &'a mut Descent<'_>,
    ) -> Result<Option<BorrowedFd<'a>>, FileError> {
        if let Some(gone) = &self.gone
            && matches!(sources.find(gone), Ok(None))
        {
            return Ok(None);
        }
        sources.find(&self.location).map_err(FileError::system(LOOKING))
    }
}

const LOOKING: &str = "look for the source of this directory";

const ONE_NAME_KEPT: &str = "this file system also finds it under the name of a directory of the \
     source, or may do so: it was kept with all in it; give it the name that it has in the source";

const LINK_KEPT: &str =
    "the source of this link has gone; it was kept, since nothing shows that Evener made it";

const UNKNOWN_KEPT: &str = "its source has gone, but recipients do not show that Evener made it, so \
     it was kept; an identity does";

const OTHER_PROGRAM_KEPT: &str =
    "its source has gone, but another program of age made it, so it was kept";

const FOREIGN_KEPT: &str =
    "its source has gone, but it was not made with this key and context, so it was kept";
