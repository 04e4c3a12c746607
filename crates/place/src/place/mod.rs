//! Places: where objects lie.
//!
//! An object is bytes with a name. A place that is read from is an [`Origin`]; one that is written
//! to is a [`Store`]. [`transfer`] encrypts, decrypts or verifies the objects of one into the other,
//! by the code that also does local files. A store that also has directories and links is a
//! [`Tree`]. [`Local`] is a directory tree of this machine, and [`Memory`] keeps all of it too.
//!
//! All calls block, move whole segments and may come from any thread. A place whose calls take long
//! says by [`Abilities::requests`] how many it takes at once; each then has a thread.

mod complete;
mod each;
mod entry;
mod local;
mod memory;
mod parts;
mod pretence;
mod read_ahead;
mod structure;
mod transfer;

pub(crate) use each::{MOST_REPEATS, may_repeat};
pub(crate) use entry::time;
pub use entry::{Entry, Kind, Metadata, NewObject, Stamp, Version};
pub use local::Local;
pub use memory::{Content, Memory};
pub(crate) use parts::{Assembly, write_to};
pub use read_ahead::ReadAhead;
pub(crate) use transfer::seats_for;
pub use transfer::transfer;

use std::path::{Path, PathBuf};

use evener_format::Recipe;
use evener_seal::{self as seal, Fault, FileError, Name};

/// A place that objects are read from.
pub trait Origin: Send + Sync {
    /// How the place is best used.
    fn abilities(&self) -> Abilities;

    /// All entries: a directory before those in it, and an object before its further names;
    /// otherwise in any order, unless the place is [sorted](Abilities::sorted). An entry that can't
    /// be read is an error of its own, and the walk goes on. The iterator may wait between two entries for other calls to end, so it must hold no lock
    /// that they need.
    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_>;

    /// The entries directly in a directory, in any order, each under its own name as if it were the
    /// first of its object. There are none where there is no directory with this name.
    ///
    /// # Errors
    /// When it can't be read, and [`Fault::Refused`] where the place lists no single directories.
    fn list(&self, _directory: &Name) -> Result<Vec<Entry>, Fault> {
        Err(Fault::Refused("the place lists no single directories".to_owned()))
    }

    /// As [`Origin::list`], for a directory of any size: has each entry taken as it comes, until one
    /// is refused.
    ///
    /// # Errors
    /// Those of [`Origin::list`], and that of `take`.
    fn list_each(
        &self,
        directory: &Name,
        take: &mut dyn FnMut(Entry) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.list(directory)?.into_iter().try_for_each(take)
    }

    /// As [`Origin::list`], for a directory that has at most `most` entries.
    ///
    /// # Errors
    /// Those of [`Origin::list`], and [`Fault::Refused`] when there are more.
    fn list_at_most(&self, directory: &Name, most: usize) -> Result<Vec<Entry>, Fault> {
        let entries = self.list(directory)?;
        if entries.len() > most { Err(too_many(directory, most)) } else { Ok(entries) }
    }

    /// Opens an object and reads its first bytes, as many as `first` has room for: a place answers
    /// both with one call. Returns how many bytes it has read, which may be none.
    ///
    /// # Errors
    /// When it is gone or can't be read.
    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault>;

    /// The directory of this machine that the place is, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The beginning of its objects' names in errors: that directory, or an address.
    fn label(&self) -> PathBuf {
        self.path().map(Path::to_owned).unwrap_or_default()
    }
}

/// An object that is open for reading, at any offset and by several threads.
pub trait Blob: Send + Sync {
    /// Its length when it was opened, in bytes.
    fn length(&self) -> u64;

    /// Fills `buffer` from byte `at` on.
    ///
    /// # Errors
    /// [`Fault::Changed`] when the object is no longer the one that was opened, or has become
    /// shorter.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault>;

    /// Returns when everything that was read is certain to be of one version of the object.
    ///
    /// # Errors
    /// [`Fault::Changed`] when it is not.
    fn check(&self) -> Result<(), Fault>;

    /// Announces that all of it will be read once, from front to back. A place with slow requests
    /// may then make fewer and longer ones.
    fn will_read_all(&self) {}

    /// Its metadata when it was opened; `None` where the walk has told all that the place knows.
    fn metadata(&self) -> Option<&Metadata> {
        None
    }

    /// Its version; `None` where the place replaces objects whatever they are.
    fn version(&self) -> Option<Version> {
        None
    }

    /// Its identity and state when it was opened, where the place has them.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// What opens a sealed object, where the place knows that better than the operation's keys.
    fn recipe(&self) -> Option<&Recipe> {
        None
    }

    /// The number of bytes of a sealed object's plaintext, without the padding behind them, where
    /// the place knows it.
    fn plain_length(&self) -> Option<u64> {
        None
    }

    /// True if nothing is left to be done with it, so that it counts as skipped.
    #[doc(hidden)]
    fn needs_nothing(&self) -> bool {
        false
    }
}

/// A place that objects are written to.
pub trait Store: Send + Sync {
    /// How the place is best used.
    fn abilities(&self) -> Abilities;

    /// The object with a name, if there is one.
    ///
    /// # Errors
    /// When the place can't tell.
    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault>;

    /// Begins an object. Nothing is visible under its name until [`Draft::publish`].
    ///
    /// # Errors
    /// [`Fault::Exists`] where that is already known, and others of the place.
    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault>;

    /// The same place for reading; `None` where it can't be read.
    fn origin(&self) -> Option<&dyn Origin>;

    /// Returns when everything published will survive a power failure.
    ///
    /// # Errors
    /// When that can't be known.
    fn sync(&self) -> Result<(), Fault>;

    /// The same place with its directories and links; `None` where it has only objects.
    fn tree(&self) -> Option<&dyn Tree> {
        None
    }

    /// Does for an object that stays as it is what the place does for new ones, such as locking it for
    /// a time. Returns true if it did something.
    ///
    /// # Errors
    /// Those of the place.
    fn keep(&self, _name: &Name) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Removes an object, a link or an empty directory.
    ///
    /// # Errors
    /// [`Fault::Missing`] when there is none, and [`Fault::Refused`] where nothing can be removed.
    fn remove(&self, _name: &Name) -> Result<(), Fault> {
        Err(Fault::Refused("the place removes nothing".to_owned()))
    }

    /// Facts about the place for the user, such as metadata that it turned out not to keep.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// The directory of this machine that the place is, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The beginning of its objects' names in errors: that directory, or an address.
    fn label(&self) -> PathBuf {
        self.path().map(Path::to_owned).unwrap_or_default()
    }
}

/// A store that has directories and links besides objects. [`Fault::Exists`] is its error for a
/// name that is taken and may not be replaced, [`Fault::Refused`] for something that it can't have.
pub trait Tree: Send + Sync {
    /// Makes a directory in which objects can be made; it gets its own mode and times later, by
    /// [`Tree::settle`]. Returns false if it was there before.
    ///
    /// # Errors
    /// Those of the place.
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault>;

    /// Makes a symbolic link to a path.
    ///
    /// # Errors
    /// Those of the place.
    fn symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), Fault>;

    /// Gives a published object a further name. It is no error if it has that name already.
    ///
    /// # Errors
    /// Those of the place.
    fn hard_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), Fault>;

    /// Gives a directory the metadata of its source, when everything in it is done. `is_new` is the
    /// result of [`Tree::make_directory`]; a directory that was there before gets the metadata only
    /// if it looks unfinished. Returns whether it has them.
    ///
    /// # Errors
    /// Those of the place.
    fn settle(&self, directory: &NewObject<'_>, is_new: bool) -> Result<bool, Fault>;
}

/// An object that is being written. Dropping it abandons the object without a trace.
pub trait Draft: Send + Sync {
    /// Writes `bytes` at byte `at`, one call at a time. With [`Abilities::part`], each call brings
    /// one part of that length, in order; otherwise any bytes in any order, each once.
    ///
    /// # Errors
    /// Those of the place. The draft is dropped then.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault>;

    /// Gives the object its name. With [`Abilities::part`], `rest` is the last part, which is the
    /// whole content of a short object; otherwise it is empty. The place itself finds out what
    /// became of a call whose answer was lost. Returns the version of the object that this call has
    /// made, as [`Entry::version`] has it, where the place knows it.
    ///
    /// # Errors
    /// [`Fault::Exists`] when an object has the name and may not be replaced.
    fn publish(self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault>;
}

/// How a place is best used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    requests: usize,
    part: Option<usize>,
    keeps_metadata: bool,
    is_sorted: bool,
}

impl Abilities {
    /// A place with quick calls, which takes any bytes in any order.
    pub const QUICK: Abilities =
        Abilities { requests: 1, part: None, keeps_metadata: false, is_sorted: false };

    /// A place whose calls take long, and which takes up to `requests` of them at once.
    pub fn slow(requests: usize) -> Abilities {
        Abilities { requests: requests.max(1), ..Abilities::QUICK }
    }

    /// The same place, which takes parts of `length` bytes in order.
    #[must_use]
    pub fn in_parts(self, length: usize) -> Abilities {
        Abilities { part: Some(length.max(1)), ..self }
    }

    /// The same place, which keeps the [`Metadata`] of objects.
    #[must_use]
    pub fn with_metadata(self) -> Abilities {
        Abilities { keeps_metadata: true, ..self }
    }

    /// The same place, whose [`Origin::walk`] is sorted: first the place's own entry, if it has one,
    /// and then all others by the directories that they are in, and by name in each. Directories are
    /// compared component by component, and names as bytes. So all entries of a directory, its
    /// subdirectories among them, come before those in its subdirectories.
    #[must_use]
    pub fn sorted(self) -> Abilities {
        Abilities { is_sorted: true, ..self }
    }

    /// The number of calls that it takes at once: 1 where a call takes microseconds.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The length in bytes of every part but the last, for places that take objects in parts and in
    /// order; `None` for those that take any bytes in any order.
    pub fn part(&self) -> Option<usize> {
        self.part
    }

    /// True if it keeps the [`Metadata`] of objects.
    pub fn keeps_metadata(&self) -> bool {
        self.keeps_metadata
    }

    /// True if [`Origin::walk`] is [sorted](Abilities::sorted).
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }
}

/// The fault of a directory with more than `most` entries.
pub fn too_many(directory: &Name, most: usize) -> Fault {
    let path = evener_core::shown(directory.path());
    Fault::Refused(format!(
        "the directory `{path}` has more than {most} entries; somebody may have added them"
    ))
}

/// The most roots, wrapped keys or writers of a sealed tree, and the most wrapped keys beside plain
/// files: a store could list more without an end.
pub const MOST_LISTED: usize = 100_000;

/// An open object of an origin.
pub(crate) struct Reading(pub(crate) Box<dyn Blob>);

impl seal::ReadAt for Reading {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        Ok(self.0.read_at(buffer, offset)?)
    }
}

impl seal::Blob for Reading {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn recipe(&self) -> Option<&Recipe> {
        self.0.recipe()
    }
}
