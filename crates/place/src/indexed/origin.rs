//! A generation of a sealed tree as a place that is read from.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;
use evener_format::index::{self, Commitment, Content, EntryPath, Purpose};
use evener_format::{Cobblestone, Recipe};

use super::blob::SealedBlob;
use super::distinct::Distinct;
use super::reader::OF_INDEX;
use super::snapshot::{Damage, Line, Snapshot};
use super::wanted::Wanted;
use crate::FileError;
use crate::place::{Abilities, Blob, Entry, Kind, Metadata, Origin, ReadAhead, time};
use crate::{Fault, Name};

/// A generation of a sealed tree.
pub(super) struct Sealed<'a> {
    snapshot: &'a Snapshot<'a>,
    wanted: Wanted,
    /// True if all of it is verified.
    is_verified: bool,
    /// The files that the walk returns; `None` for all.
    only: Option<HashSet<PathBuf>>,
    /// The objects that the walk has returned and that are not open yet.
    found: Mutex<HashMap<Name, Content>>,
    recipes: Recipes,
}

/// The recipes of content, by key and generation.
#[derive(Default)]
pub(super) struct Recipes(Mutex<HashMap<(Commitment, u64), Arc<Recipe>>>);

impl<'a> Sealed<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<'a>, wanted: Wanted) -> Sealed<'a> {
        Sealed {
            snapshot,
            wanted,
            is_verified: false,
            only: None,
            found: Mutex::default(),
            recipes: Recipes::default(),
        }
    }

    /// The same generation, all of which is verified: no two entries may have the same file.
    pub(super) fn verified(self) -> Sealed<'a> {
        Sealed { is_verified: true, ..self }
    }

    /// The same generation, with these files alone.
    pub(super) fn only(self, files: HashSet<PathBuf>) -> Sealed<'a> {
        Sealed { only: Some(files), ..self }
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot<'a> {
        self.snapshot
    }

    /// The length of an object that the walk has just returned.
    pub(super) fn plain_length(&self, name: &Name) -> Option<u64> {
        self.found.lock().ignore_poison().get(name).map(|content| content.size)
    }

    /// The content of an object.
    fn content(&self, name: &Name) -> Result<Content, FileError> {
        if let Some(content) = self.found.lock().ignore_poison().remove(name) {
            return Ok(content);
        }
        let mut path = name.path().as_os_str().as_bytes().to_vec();
        for _ in 0..2 {
            match self.snapshot.find(&path)?.map(|entry| entry.kind) {
                Some(index::Kind::File(content)) => return Ok(content),
                Some(index::Kind::Further(first)) => path = first,
                Some(_) => break,
                None => return Err(Fault::Missing(name.clone()).into()),
            }
        }
        Err(Fault::Refused("it is no file".to_owned()).into())
    }
}

impl Sealed<'_> {
    /// Opens an object of which any part may be read, at any time.
    pub(super) fn open_part(
        &self,
        name: &Name,
        first: &mut [u8],
    ) -> Result<(SealedBlob, usize), Fault> {
        let failed = |error: FileError| match error {
            FileError::Place(fault) => fault,
            error => Fault::Failed(error.to_string()),
        };
        let content = self.content(name).map_err(failed)?;
        let recipe = self.recipes.of(self.snapshot, &content).map_err(failed)?;
        // Of a file that does not fit, all but the header is read with its segments.
        let fits = content.length <= first.len() as u64;
        let most = if fits { first.len() } else { first.len().min(Cobblestone::HEADER_LENGTH) };
        SealedBlob::open(self.snapshot, content, Some(recipe), &mut first[..most])
    }

    /// Opens an object of which any part may be read. Whoever reads all of it in order learns from
    /// the last read if it is not the one that its entry names.
    pub(super) fn open_in_order(&self, name: &Name) -> Result<SealedBlob, Fault> {
        let (blob, _) = self.open_part(name, &mut [])?;
        Ok(blob.read_ahead(self.snapshot, ReadAhead::MOST).read_in_order())
    }
}

impl Recipes {
    /// What opens a file's content.
    pub(super) fn of(
        &self,
        snapshot: &Snapshot<'_>,
        content: &Content,
    ) -> Result<Arc<Recipe>, FileError> {
        let which = (content.key, content.generation);
        if let Some(recipe) = self.0.lock().ignore_poison().get(&which) {
            return Ok(recipe.clone());
        }
        let key = snapshot.keys.listed(&snapshot.depot, content.key)?;
        let recipe = Arc::new(key.recipe(Purpose::Data, content.generation)?);
        self.0.lock().ignore_poison().insert(which, recipe.clone());
        Ok(recipe)
    }
}

impl Origin for Sealed<'_> {
    fn abilities(&self) -> Abilities {
        self.snapshot.depot.origin.abilities().with_metadata()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let index::Body { entries, nodes, .. } = &self.snapshot.generation.body;
        Box::new(Walk {
            place: self,
            lines: Box::new(self.snapshot.lines(self.wanted.clone())),
            order: Order::default(),
            distinct: self.is_verified.then(|| Distinct::new(*entries, nodes.len())),
        })
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let (blob, read) = self.open_part(name, first)?;
        Ok((Box::new(blob.read_whole(&first[..read])), read))
    }
}

impl Sealed<'_> {
    /// Returns whether an entry is among those that were asked for.
    fn takes(&self, entry: &Result<Entry, Fault>) -> bool {
        let (Some(only), Ok(entry)) = (&self.only, entry) else { return true };
        let is_file = matches!(entry.kind, Kind::Object | Kind::HardLink(_));
        let takes = !is_file || only.contains(entry.name.path());
        if !takes {
            self.found.lock().ignore_poison().remove(&entry.name);
        }
        takes
    }
}

/// A walk through an index.
struct Walk<'s> {
    place: &'s Sealed<'s>,
    lines: Box<dyn Iterator<Item = Result<Line, Damage>> + Send + 's>,
    order: Order,
    distinct: Option<Distinct>,
}

impl Walk<'_> {
    fn entry(&mut self, line: Line) -> Result<Entry, Fault> {
        let path = self.order.check(&line)?;
        if let Some(Err(reason)) = self.distinct.as_mut().map(|distinct| distinct.check(&line.1)) {
            return Err(Fault::Entry { name: Name::found(path), reason });
        }
        let (entry, content) = entry(path, line.1);
        if let Some(content) = content {
            self.place.found.lock().ignore_poison().insert(entry.name.clone(), content);
        }
        Ok(entry)
    }

    /// Of a later pass, only names that occur twice are told.
    fn again(&mut self, line: &Line) -> Option<Fault> {
        let reason = self.distinct.as_mut()?.check(&line.1).err()?;
        let path = EntryPath { directory: line.0.clone(), name: line.1.name.clone() }.whole();
        Some(Fault::Entry { name: Name::found(PathBuf::from(OsString::from_vec(path))), reason })
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Result<Entry, Fault>> {
        loop {
            let is_first = self.distinct.as_ref().is_none_or(Distinct::is_first_pass);
            match self.lines.next() {
                Some(Ok(line)) if is_first => {
                    let entry = self.entry(line);
                    if self.place.takes(&entry) {
                        return Some(entry);
                    }
                }
                Some(Ok(line)) => {
                    if let Some(fault) = self.again(&line) {
                        return Some(Err(fault));
                    }
                }
                Some(Err(damage)) if is_first => return Some(Err(fault_of(&damage))),
                Some(Err(_)) => {}
                None if self.distinct.as_mut().is_some_and(Distinct::next_pass) => {
                    self.lines = Box::new(self.place.snapshot.lines(self.place.wanted.clone()));
                }
                None => return None,
            }
        }
    }
}

/// Checks that each entry's directory is one.
#[derive(Default)]
pub(super) struct Order {
    /// Hashes of their paths: deep ones would take much memory.
    directories: HashSet<u64>,
    hasher: RandomState,
    last: Option<Arc<[u8]>>,
}

impl Order {
    /// The path of an entry.
    pub(super) fn check(&mut self, (directory, entry): &Line) -> Result<PathBuf, Fault> {
        let path = EntryPath { directory: directory.clone(), name: entry.name.clone() };
        let whole = path.whole();
        let name = PathBuf::from(OsString::from_vec(whole.clone()));
        let is_last = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, directory));
        if !is_last
            && !directory.is_empty()
            && !self.directories.contains(&self.hasher.hash_one(&**directory))
        {
            let reason = "its directory is not one in the index, so it was not taken".to_owned();
            return Err(Fault::Entry { name: Name::found(name), reason });
        }
        self.last = Some(directory.clone());
        if entry.kind == index::Kind::Directory {
            self.directories.insert(self.hasher.hash_one(&*whole));
        }
        Ok(name)
    }
}

/// An entry of a place, and its content if it is an object.
pub(super) fn entry(path: PathBuf, entry: index::Entry) -> (Entry, Option<Content>) {
    let name = Name::found(path);
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let (kind, content) = match entry.kind {
        index::Kind::File(content) => (Kind::Object, Some(content)),
        index::Kind::Directory => (Kind::Directory, None),
        index::Kind::Symlink(target) => (Kind::SymbolicLink(path(target)), None),
        index::Kind::Further(first) => (Kind::HardLink(Name::found(path(first))), None),
    };
    let xattr = |(name, value): (Vec<u8>, Vec<u8>)| (OsStr::from_bytes(&name).to_owned(), value);
    let metadata = Metadata {
        mode: entry.mode,
        modified: entry
            .modified
            .and_then(|(seconds, nanoseconds)| time((seconds, i64::from(nanoseconds)))),
        owner: entry.owner,
        xattrs: entry.attributes.into_iter().map(xattr).collect(),
    };
    let mut found = Entry::of(name, kind, metadata);
    found.length = content.map(|content| content.length);
    (found, content)
}

/// The fault of a damaged part of an index.
pub(super) fn fault_of(damage: &Damage) -> Fault {
    let Damage { error, file, is_unread, instead, .. } = damage;
    let name = damage.name();
    match instead {
        Some(reason) => Fault::Entry { name, reason: reason.clone() },
        None if *is_unread => {
            let reason =
                format!("{OF_INDEX}can't be read from here on (its file is {file}): {error}");
            Fault::Entry { name, reason }
        }
        None => {
            Fault::Damaged { name, reason: format!("{OF_INDEX}is damaged from here on: {error}") }
        }
    }
}
