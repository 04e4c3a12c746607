//! The places of wrapped keys: `evener-key.age`, `evener-key-2.age` and so on in a tree,
//! `NAME.evener-key.age` beside a single file. In an object store they have the same names.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use evener::keys::{self, KeyError, KeyFile};
use evener::place::{Fault, Metadata, Name, NewObject, Store as _};
use evener::{is_wrapped_key_name, wrapped_key_name};

use super::pins::Pin;
use crate::ends::directory_of;
use crate::objects::{Address, Objects, server_name};
use crate::stores::{Stores, at, read_key};
use crate::trouble::Trouble;

/// A wrapped key that was written.
pub(super) struct Created {
    pub(super) path: PathBuf,
    /// A notice about the way it was made.
    pub(super) notice: Option<&'static str>,
    /// True if it is the only key in its place.
    pub(super) is_first: bool,
}

/// A directory or a prefix, for the wrapped keys of a tree or of a single file in it.
#[derive(Clone)]
pub(crate) struct KeyPlace {
    pub(super) directory: PathBuf,
    pub(super) file: Option<OsString>,
    store: Option<KeyStore>,
}

/// An object store with wrapped keys.
#[derive(Clone)]
struct KeyStore {
    objects: Objects,
    /// Identifies the place.
    identity: String,
    /// The keys that existed at the beginning, with their lengths in bytes.
    there: Vec<(PathBuf, u64)>,
}

impl KeyPlace {
    /// For a tree.
    pub(crate) fn in_tree(root: &Path) -> KeyPlace {
        KeyPlace { directory: root.to_owned(), file: None, store: None }
    }

    /// For a single encrypted file.
    pub(crate) fn beside(file: &Path) -> KeyPlace {
        let name = file.file_name().unwrap_or_default().to_owned();
        KeyPlace { directory: directory_of(file).to_owned(), file: Some(name), store: None }
    }

    /// For the objects below a prefix, or for a single one, `file`, directly below it.
    pub(crate) fn in_store(
        objects: Objects,
        prefix: &Address,
        file: Option<&str>,
    ) -> Result<KeyPlace, Trouble> {
        let (directory, file) = (PathBuf::from(prefix.to_string()), file.map(OsString::from));
        let first = wrapped_key_name(file.as_deref(), 1);
        let stem = first.to_str().and_then(|first| first.strip_suffix(".age")).unwrap_or_default();
        let found = objects.beginning_with(stem).map_err(|fault| at(prefix, fault))?;
        let names = found.iter().map(|entry| (entry.name.path(), entry.length.unwrap_or(0)));
        let keys = names.filter(|(name, _)| is_wrapped_key_name(file.as_deref(), name.as_os_str()));
        let mut there: Vec<_> = keys.map(|(name, length)| (directory.join(name), length)).collect();
        there.sort_unstable_by_key(|(path, _)| (path.as_os_str().len(), path.clone()));
        let identity = format!("{} at {}", prefix.join(stem), objects.server());
        let store = Some(KeyStore { objects, identity, there });
        Ok(KeyPlace { directory, file, store })
    }

    /// The places for the keys of an object and of its prefix, or of all objects below a prefix.
    pub(crate) fn of_objects(stores: &Stores, address: &Address) -> Result<Vec<KeyPlace>, Trouble> {
        let place =
            |prefix: &Address, file| KeyPlace::in_store(stores.open_source(prefix)?, prefix, file);
        Ok(match stores.split_object(address)? {
            Some((above, name)) => {
                vec![place(&above, name.path().to_str())?, place(&above, None)?]
            }
            None => vec![place(address, None)?],
        })
    }

    /// Returns whether it is in an object store.
    pub(super) fn is_in_store(&self) -> bool {
        self.store.is_some()
    }

    /// The wrapped keys that are there, in the order of their names; none if the directory does not
    /// exist or can't be read.
    pub(super) fn existing(&self) -> Vec<PathBuf> {
        if let Some(store) = &self.store {
            return store.there.iter().map(|(path, _)| path.clone()).collect();
        }
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut paths: Vec<_> = entries
            .flatten()
            .filter(|entry| is_wrapped_key_name(self.file.as_deref(), &entry.file_name()))
            .map(|entry| entry.path())
            .collect();
        paths.sort_unstable_by_key(|path| (path.as_os_str().len(), path.clone()));
        paths
    }

    /// The length in bytes of an existing key; 0 if it is unknown.
    pub(super) fn length(&self, path: &Path) -> u64 {
        match &self.store {
            None => fs::metadata(path).map_or(0, |file| file.len()),
            Some(store) => {
                store.there.iter().find(|(there, _)| there == path).map_or(0, |(_, length)| *length)
            }
        }
    }

    /// Reads an existing key.
    pub(super) fn read(&self, path: &Path) -> Result<KeyFile, KeyError> {
        match &self.store {
            None => KeyFile::read(path),
            Some(store) => read_key(&store.objects, &name_of(path), path),
        }
    }

    /// Reads existing keys, with their numbers; in an object store, several at once.
    pub(super) fn read_all(&self, keys: &[(usize, PathBuf)]) -> Vec<Result<KeyFile, KeyError>> {
        let threads = if self.is_in_store() { READ_AT_ONCE } else { 1 };
        let read = |keys: &[(usize, PathBuf)]| -> Vec<_> {
            keys.iter().map(|(_, path)| self.read(path)).collect()
        };
        thread::scope(|scope| {
            let shares = keys.chunks(keys.len().div_ceil(threads).max(1));
            let threads: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
            let read = threads.into_iter().map(|thread| thread.join());
            read.flat_map(|keys| keys.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    /// Removes a key.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        match &self.store {
            None => fs::remove_file(path),
            Some(store) => {
                let removed = store.objects.remove(&name_of(path));
                removed.map_err(|fault| io::Error::other(fault.to_string()))
            }
        }
    }

    /// Identifies this place: the absolute path of its first key, without symbolic links and
    /// without the extension. The directory must exist. In an object store, the address.
    pub(super) fn canonical(&self) -> io::Result<PathBuf> {
        if let Some(store) = &self.store {
            return Ok(store.identity.clone().into());
        }
        let first = wrapped_key_name(self.file.as_deref(), 1);
        Ok(fs::canonicalize(&self.directory)?.join(first).with_extension(""))
    }

    /// Returns whether a key was pinned for this place. In an object store, earlier versions named
    /// servers as they were typed, or not at all.
    pub(super) fn is_place_of(&self, pin: &Pin) -> bool {
        let split = |name: &Path| {
            let (address, server) = name.to_str()?.rsplit_once(" at ")?;
            Some((address.to_owned(), server_name(server)))
        };
        let is_it = |here: PathBuf| match (split(&here), split(&pin.place)) {
            (Some(here), Some(pinned)) if self.is_in_store() => here == pinned,
            (Some((here, _)), None) if self.is_in_store() => pin.place == Path::new(&here),
            _ => here == pin.place,
        };
        self.canonical().is_ok_and(is_it)
    }

    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.directory.join(wrapped_key_name(self.file.as_deref(), number))
    }

    /// Writes a wrapped key to disk, synced, or to the store, under the first free name.
    pub(super) fn create(&self, contents: &[u8]) -> Result<Created, KeyError> {
        let there = self.existing();
        let mut number = 1;
        let last = u32::try_from(there.len()).unwrap_or(u32::MAX).saturating_add(MOST_TAKEN);
        loop {
            let path = self.path(number);
            if there.contains(&path) {
                number += 1;
                continue;
            }
            let created = match &self.store {
                None => keys::create(&path, contents).map(|made| made.naming.notice()),
                Some(store) => store.put(&path, contents).map(|()| None),
            };
            match created {
                Ok(notice) => return Ok(Created { path, notice, is_first: number == 1 }),
                // Another run can make one meanwhile; a store can say so of any name.
                Err(KeyError::Exists { .. }) if number < last => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The number of keys to read at once from an object store.
const READ_AT_ONCE: usize = 16;

/// The most names that are taken meanwhile.
const MOST_TAKEN: u32 = 20;

impl KeyStore {
    fn put(&self, path: &Path, contents: &[u8]) -> Result<(), KeyError> {
        let (name, metadata) = (name_of(path), Metadata::default());
        let object = NewObject::new(&name, &metadata);
        let put = self.objects.begin(&object).and_then(|draft| draft.publish(contents));
        put.map(drop).map_err(|fault| match fault {
            Fault::Exists(_) => KeyError::Exists { path: path.to_owned() },
            fault => {
                let cause = io::Error::other(fault.to_string());
                KeyError::Io { action: "make the key", path: path.to_owned(), cause }
            }
        })
    }
}

/// The name of a key in its prefix.
fn name_of(path: &Path) -> Name {
    Name::found(path.file_name().unwrap_or_default().into())
}
