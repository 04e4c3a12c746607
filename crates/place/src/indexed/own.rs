//! The key that seals a generation.

use std::collections::BTreeSet;
use std::sync::Mutex;

use evener_core::{IgnorePoison, Key};
use evener_format::index::{KeyId, TreeKeys};
use evener_keys::{KeyFormat, KeyMaterial};

use super::base::{Base, says_nothing};
use super::depot::{Created, Depot, refused};
use super::keys::{Keys, wrapping};
use super::roots::{RootDigest, Roots, Step};
use super::snapshot::Snapshot;
use super::writer::Writer;
use crate::FileError;

/// The key of this generation.
pub(super) struct Own {
    pub(super) keys: TreeKeys,
    /// The wrapped key.
    pub(super) wrapped: Option<Vec<u8>>,
    is_published: Mutex<bool>,
}

impl Own {
    /// A key that is given, or whose wrapped form goes elsewhere.
    pub(super) fn of(keys: TreeKeys) -> Own {
        Own { keys, wrapped: None, is_published: Mutex::default() }
    }

    /// Stores the wrapped key, before the first file that it opens. Of a run without files there is
    /// none.
    pub(super) fn publish(&self, depot: &Depot<'_>) -> Result<(), FileError> {
        let mut is_published = self.is_published.lock().ignore_poison();
        if let Some(wrapped) = self.wrapped.as_ref().filter(|_| !*is_published) {
            let path = wrapping(self.keys.commitment().id(), 1);
            if depot.create(&path, wrapped)? == Created::Taken {
                return Err(refused(format!("`{path}` is there already")));
            }
        }
        *is_published = true;
        Ok(())
    }
}

/// A key that takes the place of others.
pub(super) struct NewKey<'a> {
    /// `None` for a fresh one.
    pub(super) key: Option<&'a Key>,
    pub(super) replaces: Vec<KeyId>,
    /// The root of the generation that is sealed anew.
    pub(super) of: RootDigest,
}

impl Writer<'_> {
    /// The key of the next generation.
    pub(super) fn own_key(&self, keys: &Keys<'_>, base: &Base) -> Result<Own, FileError> {
        let tree = keys.tree();
        let given = self.new_key.as_ref().and_then(|new| new.key);
        let Some(wrap) = self.sealed.wrap.as_ref().filter(|_| given.is_none()) else {
            let key = match &self.new_key {
                Some(new) => new.key,
                None => self.sealed.keychain.keys.first(),
            };
            let key = key.ok_or_else(|| refused("no key was given that could seal the tree"))?;
            return Ok(Own::of(TreeKeys::new(key, tree)?));
        };
        if let Some(keys) = self.kept_key(keys, base)? {
            return Ok(Own::of(keys));
        }
        let material = KeyMaterial::generate(KeyFormat::Cobblestone256);
        let material = material.map_err(|error| refused(error.to_string()))?;
        let keys = TreeKeys::new(key_of(&material)?, tree)?;
        let wrapped = match self.sealed.dry_run {
            true => None,
            false => Some(wrap(material.to_text().as_bytes())?),
        };
        Ok(Own { keys, wrapped, is_published: Mutex::default() })
    }

    /// The key of this machine's last generation, if the options reuse it. Only this machine's
    /// notes prove that it made the key.
    fn kept_key(&self, keys: &Keys<'_>, base: &Base) -> Result<Option<TreeKeys>, FileError> {
        let keeps = self.sealed.keeps_key && self.new_key.is_none();
        let Some(made) = base.key.as_ref().filter(|_| keeps) else { return Ok(None) };
        let id = made.get(..32).and_then(KeyId::from_text);
        let Some(id) = id.filter(|id| !base.retired.contains(id)) else { return Ok(None) };
        match keys.get(&self.depot, id) {
            Ok(key) if key.commitment().to_string() == *made => Ok(Some((*key).clone())),
            Err(error) if says_nothing(&error) => Err(error),
            _ => Ok(None),
        }
    }
}

/// The keys that seal no generation after this one, if that has a new key.
pub(super) fn retired(newest: &Snapshot<'_>) -> Result<Vec<KeyId>, FileError> {
    let roots = Roots { depot: &newest.depot, keys: &newest.keys };
    let mut retired: BTreeSet<KeyId> = newest.generation.claim.retired.iter().copied().collect();
    let mut step = Step::of(&newest.generation);
    loop {
        retired.insert(step.claim.key);
        if step.claim.before.is_none() {
            return Ok(retired.into_iter().collect());
        }
        step = roots.predecessor(&step)?;
    }
}

pub(super) fn key_of(material: &KeyMaterial) -> Result<&Key, FileError> {
    match material {
        KeyMaterial::Cobblestone { key, .. } => Ok(key),
        KeyMaterial::Tink(_) => Err(refused("a sealed tree needs a key for cobblestone-256")),
    }
}
