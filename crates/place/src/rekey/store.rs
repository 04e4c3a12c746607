//! Writing files in the place of others.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;

use crate::place::{Abilities, Draft, Entry, Local, NewObject, Origin, Store, Tree};
use crate::{Fault, Name};

/// A local tree that notes the directories in which something was replaced. Each file gets a head.
pub(super) struct InPlace<'a> {
    local: &'a Local,
    head: &'a [u8],
    changed: Arc<Mutex<HashSet<PathBuf>>>,
}

impl<'a> InPlace<'a> {
    pub(super) fn new(local: &'a Local, head: &'a [u8]) -> InPlace<'a> {
        InPlace { local, head, changed: Arc::default() }
    }

    /// Gives the directories in which something was replaced the times that they had before.
    pub(super) fn settle_directories(&self, before: &HashMap<Name, Entry>) {
        for path in self.changed.lock().ignore_poison().drain() {
            let name = Name::found(path);
            let Some(Entry { metadata, .. }) = before.get(&name) else { continue };
            let directory = NewObject::new(&name, metadata);
            // Its time alone is at stake.
            let _ = self.local.settle(&directory, false);
        }
    }
}

impl Store for InPlace<'_> {
    fn abilities(&self) -> Abilities {
        // Each file waits for the disk, which serves many at once.
        Abilities::slow(SYNCED_AT_ONCE).with_metadata()
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.local.look(name)
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let head = self.head.len() as u64;
        let longest = object.longest.saturating_add(head);
        let mut draft = self.local.begin(&NewObject { longest, ..*object })?;
        if head > 0 {
            draft.write_at(self.head, 0)?;
        }
        let (directory, changed) = (directory_of(object.name), self.changed.clone());
        Ok(Box::new(Behind { draft, head, directory, changed }))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        self.local.origin()
    }

    fn sync(&self) -> Result<(), Fault> {
        self.local.sync()
    }

    fn tree(&self) -> Option<&dyn Tree> {
        Some(self)
    }

    fn notices(&self) -> Vec<String> {
        self.local.notices()
    }
}

impl Tree for InPlace<'_> {
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault> {
        self.local.make_directory(directory)
    }

    fn symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), Fault> {
        self.local.symlink(link, target)
    }

    fn hard_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), Fault> {
        self.local.hard_link(link, object)?;
        self.changed.lock().ignore_poison().insert(directory_of(link.name));
        Ok(())
    }

    fn settle(&self, directory: &NewObject<'_>, is_new: bool) -> Result<bool, Fault> {
        self.local.settle(directory, is_new)
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

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<(), Fault> {
        self.draft.publish(rest)?;
        self.changed.lock().ignore_poison().insert(self.directory);
        Ok(())
    }
}

fn directory_of(name: &Name) -> PathBuf {
    name.path().parent().unwrap_or(Path::new("")).to_owned()
}

/// The number of files that are synced at once.
const SYNCED_AT_ONCE: usize = 16;
