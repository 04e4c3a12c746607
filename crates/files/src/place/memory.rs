//! Objects in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::IgnorePoison;
use zeroize::Zeroizing;

use super::{Abilities, Blob, Draft, Entry, Fault, Name, NewObject, Origin, Store};

/// Objects in memory, wiped when they are dropped. Copies share them.
#[derive(Clone, Default)]
pub struct Memory {
    objects: Arc<Mutex<BTreeMap<Name, Content>>>,
}

type Content = Arc<Zeroizing<Vec<u8>>>;

impl Memory {
    /// A place without objects.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Puts an object there; replaces one with the same name.
    pub fn insert(&self, name: Name, bytes: Vec<u8>) {
        self.lock().insert(name, Arc::new(Zeroizing::new(bytes)));
    }

    /// The content of an object, if there is one with this name.
    pub fn get(&self, name: &Name) -> Option<Arc<Zeroizing<Vec<u8>>>> {
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

impl std::fmt::Debug for Memory {
    /// Prints names and lengths only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        Ok((Box::new(Held(content)), 0))
    }
}

/// One object. It stays as it is, even if another takes its name.
struct Held(Content);

impl Blob for Held {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let start = usize::try_from(at).map_err(|_| Fault::Changed)?;
        let bytes = self.0.get(start..).and_then(|bytes| bytes.get(..buffer.len()));
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
        Ok(Box::new(Written { memory, name, replaces, bytes: Zeroizing::default() }))
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
    bytes: Zeroizing<Vec<u8>>,
}

impl Draft for Written {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let start = usize::try_from(at).ok();
        let end = start.and_then(|start| start.checked_add(bytes.len()));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Fault::Refused("is too long for memory".to_owned()));
        };
        if end > self.bytes.len() {
            grow(&mut self.bytes, end)?;
        }
        self.bytes[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<(), Fault> {
        debug_assert!(rest.is_empty(), "this place takes no parts");
        let Written { memory, name, replaces, bytes } = *self;
        let mut objects = memory.lock();
        if !replaces && objects.contains_key(&name) {
            return Err(Fault::Exists(name));
        }
        objects.insert(name, Arc::new(bytes));
        Ok(())
    }
}

/// Makes a buffer longer, and wipes the memory that it leaves.
fn grow(bytes: &mut Zeroizing<Vec<u8>>, length: usize) -> Result<(), Fault> {
    if length > bytes.capacity() {
        let mut longer = Vec::new();
        let room = length.max(bytes.capacity().saturating_mul(2));
        longer
            .try_reserve_exact(room)
            .map_err(|_| Fault::Failed(format!("there is no memory for {room} bytes")))?;
        longer.extend_from_slice(bytes);
        *bytes = Zeroizing::new(longer);
    }
    bytes.resize(length, 0);
    Ok(())
}
