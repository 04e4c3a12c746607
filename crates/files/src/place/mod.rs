//! Places: where objects lie.
//!
//! An object is bytes with a name. A place that is read from is an [`Origin`]; one that is written
//! to is a [`Store`]. [`transfer`] encrypts, decrypts or verifies the objects of one into the other,
//! by the code that also does local files.
//!
//! All calls block, move whole segments and may come from any thread. A place whose calls take long
//! says by [`Abilities::requests`] how many it takes at once; each then has a thread.

pub(crate) mod fault;
mod memory;
pub(crate) mod name;
mod parts;
mod transfer;

pub use fault::Fault;
pub use memory::{Content, Memory};
pub use name::{MalformedPath, Name};
pub use transfer::transfer;

use crate::{FileError, seal};

/// A place that objects are read from.
pub trait Origin: Send + Sync {
    /// How the place is best used.
    fn abilities(&self) -> Abilities;

    /// All objects, in any order. An entry that can't be read is an error of its own, and the walk
    /// goes on. The iterator may wait between two entries for other calls to end, so it must hold no
    /// lock that they need.
    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_>;

    /// Opens an object and reads its first bytes, as many as `first` has room for: a place answers
    /// both with one call. Returns how many bytes it has read, which may be none.
    ///
    /// # Errors
    /// When it is gone or can't be read.
    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault>;
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
    /// became of a call whose answer was lost.
    ///
    /// # Errors
    /// [`Fault::Exists`] when an object has the name and may not be replaced.
    fn publish(self: Box<Self>, rest: &[u8]) -> Result<(), Fault>;
}

/// How a place is best used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    requests: usize,
    part: Option<usize>,
}

impl Abilities {
    /// A place with quick calls, which takes any bytes in any order.
    pub const QUICK: Abilities = Abilities { requests: 1, part: None };

    /// A place whose calls take long, and which takes up to `requests` of them at once.
    pub fn slow(requests: usize) -> Abilities {
        Abilities { requests: requests.max(1), part: None }
    }

    /// The same place, which takes parts of `length` bytes in order.
    #[must_use]
    pub fn in_parts(self, length: usize) -> Abilities {
        Abilities { part: Some(length.max(1)), ..self }
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
}

/// An object of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// Its length in bytes, if the place tells it with the name.
    pub length: Option<u64>,
}

impl Entry {
    /// An object with a name, and its length in bytes if that is known.
    pub fn new(name: Name, length: Option<u64>) -> Entry {
        Entry { name, length }
    }
}

/// An object that is to be written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewObject<'a> {
    /// Its name.
    pub name: &'a Name,
    /// True if it may replace an object that has the name.
    pub replaces: bool,
    /// The most bytes that it can have.
    pub longest: u64,
}

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
}
