//! An encrypted tree as its plaintext.

use std::collections::HashMap;
use std::iter;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use evener_core::{Engine, IgnorePoison};
use evener_keys::age::is_encrypted;
use evener_keys::has_wrapped_key_name;

use super::links::Links;
use super::opened::{Content, Errors, Opened, Shared};
use super::{Place, RekeyOptions};
use crate::place::{Abilities, Blob, Entry, Kind, Origin, ReadAhead, Reading, Version};
use crate::random_access::RandomAccess;
use crate::tree::is_mount_list_beginning;
use crate::{Fault, FileError, KeyRing, Name};
use evener_seal::{Alone, Blob as _, SegmentError, bytes_to_know, check_key, zeros};

/// A tree or a file under its old keys. Files that the new ones open are among its objects, and need
/// nothing.
pub(super) struct Old<'a> {
    place: &'a Place<'a>,
    old: &'a KeyRing,
    new: &'a KeyRing,
    options: &'a RekeyOptions,
    engine: Arc<dyn Engine>,
    links: OnceLock<Links>,
    /// The directories that were found, with what they were before.
    directories: Mutex<HashMap<Name, Entry>>,
    errors: Arc<Errors>,
    versions: Versions,
}

/// The versions of the objects that are open, where the place has versions.
pub(super) type Versions = Arc<Mutex<HashMap<Name, Version>>>;

impl<'a> Old<'a> {
    pub(super) fn new(
        place: &'a Place<'a>,
        (old, new): (&'a KeyRing, &'a KeyRing),
        options: &'a RekeyOptions,
        engine: Arc<dyn Engine>,
    ) -> Old<'a> {
        let (links, directories, errors) = (OnceLock::new(), Mutex::default(), Arc::default());
        let versions = Arc::default();
        Old { place, old, new, options, engine, links, directories, errors, versions }
    }

    /// The error of a file, if it is one of the content's.
    pub(super) fn error_of(&self, path: &Path) -> Option<FileError> {
        self.errors.take(path)
    }

    /// The versions of objects, from when they are open until they are replaced.
    pub(super) fn versions(&self) -> Versions {
        self.versions.clone()
    }

    /// The directories as they were when they were found.
    pub(super) fn directories(&self) -> HashMap<Name, Entry> {
        std::mem::take(&mut *self.directories.lock().ignore_poison())
    }

    /// An entry to be done; `None` if it is left alone.
    fn entry(&self, mut entry: Entry) -> Option<Entry> {
        match entry.kind {
            Kind::Object | Kind::HardLink(_) => {
                let links = self.links.get_or_init(|| {
                    let has_links = self.place.store().tree().is_some();
                    let tree = self.place.origin().ok().filter(|_| has_links);
                    let takes = |name: &Name| matches!(self.take(name), Take::Yes);
                    tree.map_or_else(Links::default, |tree| Links::of(tree, takes))
                });
                entry.length = None;
                entry.kind = match (self.take(&entry.name), links.leader(&entry.name)) {
                    (Take::No, _) => return None,
                    (Take::LeaveOut(reason), _) => Kind::LeftOut(reason),
                    (Take::Yes, Some(leader)) => Kind::HardLink(leader.clone()),
                    (Take::Yes, None) => Kind::Object,
                };
            }
            Kind::SymbolicLink(_) => return None,
            Kind::Directory => {
                let directories = &mut *self.directories.lock().ignore_poison();
                directories.insert(entry.name.clone(), entry.clone());
            }
            Kind::LeftOut(_) => {}
        }
        Some(entry)
    }

    /// Decides about a file by its name, or by its content if the name is none of an encrypted file.
    fn take(&self, name: &Name) -> Take {
        let file = name.path().file_name().unwrap_or_default();
        let suffix = self.options.names.open(file).err();
        if suffix.is_none() && !has_wrapped_key_name(name.path()) {
            return Take::Yes;
        }
        let mut beginning = [0; BEGINNING];
        let Ok((blob, read)) = self.place.open(name, &mut beginning) else {
            return Take::Yes;
        };
        let content = Reading(Box::new(Content { file: blob, head: 0 }));
        let beginning = &beginning[..read];
        let is_own = has_wrapped_key_name(name.path()) && is_encrypted(beginning)
            || is_mount_list_beginning(beginning);
        let opens = |ring| self.opens(ring, &content).unwrap_or(true);
        match suffix {
            _ if is_own => Take::No,
            Some(reason) if !opens(self.new) && !opens(self.old) => {
                Take::LeaveOut(reason.to_string())
            }
            _ => Take::Yes,
        }
    }

    /// Returns whether keys open a file, as far as its beginning shows it.
    fn opens(&self, keys: &KeyRing, content: &Reading) -> Result<bool, FileError> {
        let length = content.length().min(bytes_to_know(keys));
        let (beginning, mut scratch) = (content.beginning(length)?, zeros(length)?);
        let mut engine = Alone::new(self.engine.clone());
        match check_key(keys, &beginning, content, &mut scratch, &mut engine) {
            Ok(()) => Ok(true),
            Err(SegmentError::File(FileError::Format(_) | FileError::Rejected { .. })) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open_file(&self, name: &Name) -> Result<Opened, FileError> {
        let (mut file, _) = self.place.open(name, &mut [])?;
        let version = file.version();
        if self.place.store().tree().is_none() {
            // Each worker has a file open.
            file = Box::new(ReadAhead::of(file, 1 << 20));
        }
        let file = Arc::new(Content { file, head: self.options.heads.old });
        let shared = || Box::new(Shared(file.clone()));
        let is_done = self.options.heads.old == 0 && self.opens(self.new, &Reading(shared()))?;
        let open = || RandomAccess::of(shared(), self.old, self.engine.clone());
        let plain = if is_done { None } else { Some(open()?) };
        if let Some(version) = version.filter(|_| !is_done) {
            self.versions.lock().ignore_poison().insert(name.clone(), version);
        }
        Ok(Opened { file, plain, name: name.clone(), errors: self.errors.clone() })
    }
}

impl Origin for Old<'_> {
    fn abilities(&self) -> Abilities {
        match self.place.store().tree() {
            Some(_) => Abilities::QUICK.with_metadata().sorted(),
            None => self.place.store().abilities(),
        }
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        match &self.place.only {
            Some(name) => Box::new(iter::once_with(|| {
                let found = self.place.store().look(name)?;
                let mut entry = found.ok_or_else(|| Fault::Missing(name.clone()))?;
                entry.length = None;
                Ok(entry)
            })),
            None => match self.place.origin() {
                Err(fault) => Box::new(iter::once(Err(fault))),
                Ok(origin) => Box::new(origin.walk().filter_map(|found| match found {
                    Ok(entry) => self.entry(entry).map(Ok),
                    Err(fault) => Some(Err(fault)),
                })),
            },
        }
    }

    fn open(&self, name: &Name, _: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let opened = self.open_file(name).map_err(|error| self.errors.note(name, error))?;
        Ok((Box::new(opened), 0))
    }
}

/// A decision about a file.
enum Take {
    Yes,
    /// It is a wrapped key, or belongs to Evener otherwise.
    No,
    LeaveOut(String),
}

/// The number of bytes that tell a wrapped key or a list of mount points.
const BEGINNING: usize = 72;
