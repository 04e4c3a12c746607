//! Sources that do not walk in the order of an index.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::place::{Abilities, Blob, Entry, Kind, Metadata, Origin};
use crate::{Control, Fault, Name};

/// A source whose walk is [sorted](Abilities::sorted), and has the directories that are in the names
/// alone. Unless the source is sorted itself, all its entries are in memory.
pub(super) struct Sorted<'a> {
    pub(super) origin: &'a dyn Origin,
    pub(super) control: &'a Control,
}

/// Entries by directory and name. Two can't have one name, but each can have an error.
type Entries = BTreeMap<(PathBuf, OsString), Found>;

#[derive(Default)]
struct Found {
    entry: Option<Entry>,
    error: Option<String>,
}

impl Sorted<'_> {
    fn sort(&self) -> Entries {
        let mut entries = Entries::new();
        for found in self.origin.walk().take_while(|_| !self.control.is_stopped()) {
            match found {
                Ok(entry) => {
                    add_directories(&mut entries, entry.name.path());
                    add(&mut entries, entry);
                }
                Err(Fault::Entry { name, reason }) => {
                    add_directories(&mut entries, name.path());
                    of(&mut entries, name.path()).error = Some(reason);
                }
                // Nobody knows what else there is.
                Err(fault) => of(&mut entries, Path::new("")).error = Some(fault.to_string()),
            }
        }
        entries
    }
}

fn of<'e>(entries: &'e mut Entries, path: &Path) -> &'e mut Found {
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    entries.entry((directory, path.file_name().unwrap_or_default().to_owned())).or_default()
}

fn add(entries: &mut Entries, entry: Entry) {
    let found = of(entries, entry.name.path());
    match &found.entry {
        None => found.entry = Some(entry),
        Some(there) if is_directory(there) == is_directory(&entry) => {}
        Some(_) => {
            // The directory stays, for those in it.
            if is_directory(&entry) {
                found.entry = Some(entry);
            }
            found.error = Some(BOTH.to_owned());
        }
    }
}

fn add_directories(entries: &mut Entries, path: &Path) {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    for directory in above {
        if of(entries, directory).entry.as_ref().is_some_and(is_directory) {
            return;
        }
        let name = Name::found(directory.to_owned());
        add(entries, Entry::of(name, Kind::Directory, Metadata::default()));
    }
}

fn is_directory(entry: &Entry) -> bool {
    entry.kind == Kind::Directory
}

impl Origin for Sorted<'_> {
    fn abilities(&self) -> Abilities {
        self.origin.abilities().sorted()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        if self.origin.abilities().is_sorted() {
            return self.origin.walk();
        }
        Box::new(self.sort().into_iter().flat_map(|((directory, name), found)| {
            let path = if directory.as_os_str().is_empty() {
                PathBuf::from(name)
            } else {
                directory.join(name)
            };
            let name = Name::found(path);
            let error = found.error.map(|reason| Err(Fault::Entry { name, reason }));
            found.entry.map(Ok).into_iter().chain(error)
        }))
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        self.origin.list(directory)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.origin.open(name, first)
    }

    fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    fn label(&self) -> PathBuf {
        self.origin.label()
    }
}

const BOTH: &str =
    "it is an object, and others have names below it, so it would be a file and a directory";
