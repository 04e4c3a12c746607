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
        let NewObject { name, replaces } = *object;
        if !replaces && self.get(name).is_some() {
            return Err(Fault::Exists(name.clone()));
        }
        let (memory, name) = (self.clone(), name.clone());
        Ok(Box::new(Written { memory, name, replaces, buffer: WipedBuffer::default(), length: 0 }))
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
        let end = start.and_then(|start| start.checked_add(bytes.len()));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Fault::Refused("is too long for memory".to_owned()));
        };
        if end > self.buffer.len() {
            let mut longer = buffer(end.max(self.buffer.len().saturating_mul(2)))?;
            longer[..self.length].copy_from_slice(&self.buffer[..self.length]);
            self.buffer = longer;
        }
        self.buffer[start..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
        Ok(())
    }

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<(), Fault> {
        debug_assert!(rest.is_empty(), "this place takes no parts");
        let Written { memory, name, replaces, buffer, length } = *self;
        let mut objects = memory.lock();
        if !replaces && objects.contains_key(&name) {
            return Err(Fault::Exists(name));
        }
        objects.insert(name, Content { buffer: Arc::new(buffer), length });
        Ok(())
    }
}
