//! Writing files in the place of others.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;

use super::origin::Versions;
use crate::place::{Abilities, Draft, Entry, NewObject, Origin, Store, Tree};
use crate::{Fault, Name};

/// A store that notes the directories in which something was replaced. Each file gets a head, and
/// replaces the version that was opened.
pub(super) struct InPlace<'a> {
    store: &'a dyn Store,
    head: &'a [u8],
    versions: Versions,
    changed: Arc<Mutex<HashSet<PathBuf>>>,
}

impl<'a> InPlace<'a> {
    pub(super) fn new(store: &'a dyn Store, head: &'a [u8], versions: Versions) -> InPlace<'a> {
        InPlace { store, head, versions, changed: Arc::default() }
    }

    fn below(&self) -> Result<&dyn Tree, Fault> {
        self.store.tree().ok_or_else(|| Fault::Refused("it has no directories".to_owned()))
    }

    /// Gives the directories in which something was replaced the times that they had before.
    pub(super) fn settle_directories(&self, before: &HashMap<Name, Entry>) {
        for path in self.changed.lock().ignore_poison().drain() {
            let name = Name::found(path);
            let Some(Entry { metadata, .. }) = before.get(&name) else { continue };
            let directory = NewObject::new(&name, metadata);
            // Its time alone is at stake.
            let _ = self.settle(&directory, false);
        }
    }
}

impl Store for InPlace<'_> {
    fn abilities(&self) -> Abilities {
        match self.store.tree() {
            // Each file waits for the disk, which serves many at once.
            Some(_) => Abilities::slow(SYNCED_AT_ONCE).with_metadata(),
            None => self.store.abilities(),
        }
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.store.look(name)
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let head = self.head.len() as u64;
        let longest = object.longest.saturating_add(head);
        let version = self.versions.lock().ignore_poison().remove(object.name);
        let (version, changed) = match &version {
            Some(version) => (Some(&*version.text), version.changed),
            None => (object.version, object.changed),
        };
        let mut draft = self.store.begin(&NewObject { longest, version, changed, ..*object })?;
        if head > 0 {
            draft.write_at(self.head, 0)?;
        }
        let (directory, changed) = (directory_of(object.name), self.changed.clone());
        Ok(Box::new(Behind { draft, head, directory, changed }))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        self.store.origin()
    }

    fn sync(&self) -> Result<(), Fault> {
        self.store.sync()
    }

    fn tree(&self) -> Option<&dyn Tree> {
        self.store.tree().map(|_| self as &dyn Tree)
    }

    fn notices(&self) -> Vec<String> {
        self.store.notices()
    }
}

impl Tree for InPlace<'_> {
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault> {
        self.below()?.make_directory(directory)
    }

    fn symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), Fault> {
        self.below()?.symlink(link, target)
    }

    fn hard_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), Fault> {
        self.below()?.hard_link(link, object)?;
        self.changed.lock().ignore_poison().insert(directory_of(link.name));
        Ok(())
    }

    fn settle(&self, directory: &NewObject<'_>, is_new: bool) -> Result<bool, Fault> {
        self.below()?.settle(directory, is_new)
    }
}

/// A file that follows a head.
struct Behind {
    draft: Box<dyn Draft>,
    head: u64,
    directory: PathBuf,
    changed: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Draft for Behind {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        self.draft.write_at(bytes, self.head + at)
    }

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault> {
        let version = self.draft.publish(rest)?;
        self.changed.lock().ignore_poison().insert(self.directory);
        Ok(version)
    }
}

fn directory_of(name: &Name) -> PathBuf {
    name.path().parent().unwrap_or(Path::new("")).to_owned()
}

/// The number of files that are synced at once.
const SYNCED_AT_ONCE: usize = 16;
