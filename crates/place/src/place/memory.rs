//! Objects in memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::{IgnorePoison, WipedBuffer};

use super::parts::buffer;
use super::{
    Abilities, Blob, Draft, Entry, Fault, Kind, Metadata, Name, NewObject, Origin, Store, Tree,
};

/// Objects in memory, wiped when they are dropped, with their directories, links and metadata.
/// Copies share them.
#[derive(Clone, Default)]
pub struct Memory {
    entries: Arc<Mutex<BTreeMap<Name, Stored>>>,
}

#[derive(Clone)]
struct Stored {
    what: What,
    metadata: Metadata,
}

#[derive(Clone)]
enum What {
    /// The names of one object have the same content.
    Object(Content),
    Directory,
    SymbolicLink(PathBuf),
}

/// The content of an object in [`Memory`]. It stays as it is, even if another takes its name.
#[derive(Clone, Debug)]
pub struct Content {
    buffer: Arc<WipedBuffer>,
    length: usize,
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        **self == **other
    }
}

impl Memory {
    /// A place without objects.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Puts an object there; replaces an entry with the same name.
    ///
    /// # Panics
    /// When there is no memory for it.
    pub fn insert(&self, name: Name, bytes: &[u8]) {
        let mut buffer = WipedBuffer::zeros(bytes.len());
        buffer.copy_from_slice(bytes);
        let content = Content { buffer: Arc::new(buffer), length: bytes.len() };
        let stored = Stored { what: What::Object(content), metadata: Metadata::default() };
        self.lock().insert(name, stored);
    }

    /// The content of an object, if there is one with this name.
    pub fn get(&self, name: &Name) -> Option<Content> {
        match &self.lock().get(name)?.what {
            What::Object(content) => Some(content.clone()),
            What::Directory | What::SymbolicLink(_) => None,
        }
    }

    /// The names of all objects, sorted.
    pub fn names(&self) -> Vec<Name> {
        let is_object = |stored: &Stored| matches!(stored.what, What::Object(_));
        let entries = self.lock();
        entries.iter().filter(|(_, it)| is_object(it)).map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Stored>> {
        self.entries.lock().ignore_poison()
    }

    /// Gives an entry its name, which one of the same kind may have if it may be replaced.
    fn put(&self, name: &Name, replaces: bool, stored: Stored) -> Result<(), Fault> {
        let mut entries = self.lock();
        if entries.get(name).is_some_and(|there| !(replaces && stored.may_replace(there))) {
            return Err(Fault::Exists(name.clone()));
        }
        let replaced = entries.insert(name.clone(), stored);
        // It is wiped when nobody waits for the lock.
        drop(entries);
        drop(replaced);
        Ok(())
    }
}

impl Stored {
    fn may_replace(&self, there: &Stored) -> bool {
        std::mem::discriminant(&self.what) == std::mem::discriminant(&there.what)
    }

    /// The entry with a name, as if it were the first name of an object.
    fn entry(&self, name: &Name) -> Entry {
        let (kind, length) = match &self.what {
            What::Object(content) => (Kind::Object, Some(content.len() as u64)),
            What::Directory => (Kind::Directory, None),
            What::SymbolicLink(target) => (Kind::SymbolicLink(target.clone()), None),
        };
        Entry { length, ..Entry::of(name.clone(), kind, self.metadata.clone()) }
    }
}

impl fmt::Debug for Memory {
    /// Prints names and lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.lock();
        let told = entries.iter().map(|(name, stored)| (name, stored.entry(name).length));
        f.debug_map().entries(told).finish()
    }
}

impl Origin for Memory {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK.with_metadata().sorted()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let mut first: HashMap<*const WipedBuffer, Name> = HashMap::new();
        let mut entry = |name: &Name, stored: &Stored| {
            let mut entry = stored.entry(name);
            if let What::Object(Content { buffer, .. }) = &stored.what {
                let first = first.entry(Arc::as_ptr(buffer)).or_insert_with(|| name.clone());
                if first != name {
                    entry.kind = Kind::HardLink(first.clone());
                }
            }
            Ok(entry)
        };
        let entries = self.lock();
        let mut sorted: Vec<_> = entries.iter().collect();
        sorted.sort_by_key(|(name, _)| (name.path().parent(), name.path().file_name()));
        let entries: Vec<_> = sorted.into_iter().map(|(name, it)| entry(name, it)).collect();
        Box::new(entries.into_iter())
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        let entries = self.lock();
        let below = entries.range::<Name, _>(directory..);
        let below = below.take_while(|(name, _)| name.path().starts_with(directory.path()));
        let within = below.filter(|(name, _)| name.path().parent() == Some(directory.path()));
        Ok(within.map(|(name, stored)| stored.entry(name)).collect())
    }

    fn open(&self, name: &Name, _: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let content = self.get(name).ok_or_else(|| Fault::Missing(name.clone()))?;
        Ok((Box::new(content), 0))
    }
}

impl Blob for Content {
    fn length(&self) -> u64 {
        self.length as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let start = usize::try_from(at).map_err(|_| Fault::Changed)?;
        let bytes = self.get(start..).and_then(|bytes| bytes.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(Fault::Changed)?);
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Store for Memory {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK.with_metadata()
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        Ok(self.lock().get(name).map(|stored| stored.entry(name)))
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let NewObject { name, replaces, longest, .. } = *object;
        if !replaces && self.look(name)?.is_some() {
            return Err(Fault::Exists(name.clone()));
        }
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let (memory, name, buffer) = (self.clone(), name.clone(), buffer(longest)?);
        let metadata = object.metadata.clone();
        Ok(Box::new(Written { memory, name, metadata, replaces, buffer, length: 0 }))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn tree(&self) -> Option<&dyn Tree> {
        Some(self)
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        let mut entries = self.lock();
        let mut next = entries.range::<Name, _>(name..).map(|(other, _)| other.path()).skip(1);
        if next.next().is_some_and(|next| next.starts_with(name.path())) {
            return Err(Fault::Refused("the directory is not empty".to_owned()));
        }
        let removed = entries.remove(name);
        drop(entries);
        removed.map(|_| ()).ok_or_else(|| Fault::Missing(name.clone()))
    }
}

impl Tree for Memory {
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault> {
        let NewObject { name, metadata, .. } = *directory;
        if self.look(name)?.is_some_and(|there| there.kind == Kind::Directory) {
            return Ok(false);
        }
        let stored = Stored { what: What::Directory, metadata: metadata.clone() };
        self.put(name, false, stored).map(|()| true)
    }

    fn symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), Fault> {
        let what = What::SymbolicLink(target.to_owned());
        self.put(link.name, link.replaces, Stored { what, metadata: link.metadata.clone() })
    }

    fn hard_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), Fault> {
        let missing = || Fault::Missing(object.clone());
        let content = self.get(object).ok_or_else(missing)?;
        let metadata = self.look(object)?.ok_or_else(missing)?.metadata;
        let is_the_same = |there: Content| Arc::ptr_eq(&content.buffer, &there.buffer);
        if self.get(link.name).is_some_and(is_the_same) {
            return Ok(());
        }
        self.put(link.name, link.replaces, Stored { what: What::Object(content), metadata })
    }

    fn settle(&self, directory: &NewObject<'_>, _: bool) -> Result<bool, Fault> {
        let there = self.look(directory.name)?;
        Ok(there.is_some_and(|there| there.metadata == *directory.metadata))
    }
}

/// An object that is being written.
struct Written {
    memory: Memory,
    name: Name,
    metadata: Metadata,
    replaces: bool,
    buffer: WipedBuffer,
    length: usize,
}

impl Draft for Written {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let start = usize::try_from(at).ok();
        let room = start.and_then(|start| self.buffer.get_mut(start..)?.get_mut(..bytes.len()));
        room.ok_or_else(|| Fault::Refused(TOO_LONG.to_owned()))?.copy_from_slice(bytes);
        self.length = self.length.max(start.unwrap_or(0) + bytes.len());
        Ok(())
    }

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault> {
        if !rest.is_empty() {
            return Err(Fault::Refused("memory takes no parts".to_owned()));
        }
        let Written { memory, name, metadata, replaces, buffer, length } = *self;
        let what = What::Object(Content { buffer: Arc::new(buffer), length });
        memory.put(&name, replaces, Stored { what, metadata }).map(|()| None)
    }
}

const TOO_LONG: &str = "more was written than was announced";
