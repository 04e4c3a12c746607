//! Objects in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::{IgnorePoison, WipedBuffer};

use super::parts::buffer;
use super::{Abilities, Blob, Draft, Entry, Fault, Name, NewObject, Origin, Store};

/// Objects in memory, wiped when they are dropped. Copies share them.
#[derive(Clone, Default)]
pub struct Memory {
    objects: Arc<Mutex<BTreeMap<Name, Content>>>,
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

    /// Puts an object there; replaces one with the same name.
    ///
    /// # Panics
    /// When there is no memory for it.
    pub fn insert(&self, name: Name, bytes: &[u8]) {
        let mut buffer = WipedBuffer::zeros(bytes.len());
        buffer.copy_from_slice(bytes);
        self.lock().insert(name, Content { buffer: Arc::new(buffer), length: bytes.len() });
    }

    /// The content of an object, if there is one with this name.
    pub fn get(&self, name: &Name) -> Option<Content> {
        self.lock().get(name).cloned()
    }

    /// The names of all objects, sorted.
    pub fn names(&self) -> Vec<Name> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Content>> {
        self.objects.lock().ignore_poison()
    }
}

impl fmt::Debug for Memory {
    /// Prints names and lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.lock();
        f.debug_map().entries(objects.iter().map(|(name, bytes)| (name, bytes.len()))).finish()
    }
}

impl Origin for Memory {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let objects = self.lock();
        let entry = |(name, bytes): (&Name, &Content)| {
            Ok(Entry::new(name.clone(), Some(bytes.len() as u64)))
        };
        let entries: Vec<_> = objects.iter().map(entry).collect();
        Box::new(entries.into_iter())
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
        Abilities::QUICK
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        let content = self.get(name);
        Ok(content.map(|bytes| Entry::new(name.clone(), Some(bytes.len() as u64))))
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let NewObject { name, replaces, longest } = *object;
        if !replaces && self.get(name).is_some() {
            return Err(Fault::Exists(name.clone()));
        }
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let (memory, name, buffer) = (self.clone(), name.clone(), buffer(longest)?);
        Ok(Box::new(Written { memory, name, replaces, buffer, length: 0 }))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// An object that is being written.
struct Written {
    memory: Memory,
    name: Name,
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

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<(), Fault> {
        if !rest.is_empty() {
            return Err(Fault::Refused("memory takes no parts".to_owned()));
        }
        let Written { memory, name, replaces, buffer, length } = *self;
        let mut objects = memory.lock();
        if !replaces && objects.contains_key(&name) {
            return Err(Fault::Exists(name));
        }
        let replaced = objects.insert(name, Content { buffer: Arc::new(buffer), length });
        // It is wiped when nobody waits for the lock.
        drop(objects);
        drop(replaced);
        Ok(())
    }
}

const TOO_LONG: &str = "more was written than was announced";
