//! The keys that open a sealed tree.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use evener_core::{IgnorePoison, Key};
use evener_format::index::{Commitment, KeyId, TreeId, TreeKeys};
use evener_keys::{CobblestoneSuite, KeyError, KeyFile, KeyMaterial, NoUnlock, Unlock};
use sha2::{Digest, Sha256};

use super::base::says_nothing;
use super::depot::{Depot, no_key};
use crate::FileError;

/// The keys of a caller for a sealed tree, and the means to open wrapped ones.
#[derive(Clone)]
pub struct Keychain {
    /// Keys that the caller holds, of 32 bytes each.
    pub keys: Vec<Key>,
    /// Opens the wrapped keys of the tree.
    pub unlock: Arc<dyn Unlock + Send + Sync>,
    /// The keys that were unwrapped so far.
    pub opened: Opened,
}

/// Unwrapped keys, by the SHA-256 of their wrapped form: unwrapping takes a second with a
/// passphrase, and a plugin may ask the user. Clones share the keys.
#[derive(Clone, Default)]
pub struct Opened(Arc<Mutex<HashMap<[u8; 32], KeyMaterial>>>);

impl Default for Keychain {
    fn default() -> Keychain {
        Keychain { keys: Vec::new(), unlock: Arc::new(NoUnlock), opened: Opened::default() }
    }
}

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keychain").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Keychain {
    /// Opens the wrapped key in a file's bytes. Opens the same bytes only once.
    ///
    /// # Errors
    /// When nothing opens it; the error names `path`.
    pub fn open(&self, wrapped: &[u8], path: &str) -> Result<KeyMaterial, KeyError> {
        let digest: [u8; 32] = Sha256::digest(wrapped).into();
        if let Some(known) = self.opened.0.lock().ignore_poison().get(&digest) {
            return Ok(known.clone());
        }
        let material = KeyFile::read_from(&mut &*wrapped, path)?.open(&*self.unlock)?;
        self.opened.0.lock().ignore_poison().insert(digest, material.clone());
        Ok(material)
    }

    /// As [`Keychain::open`], for the key of a tree.
    pub(super) fn open_for(
        &self,
        tree: TreeId,
        wrapped: &[u8],
        path: &str,
    ) -> Result<TreeKeys, FileError> {
        match self.open(wrapped, path).map_err(|error| no_key(error.to_string()))? {
            KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, key } => {
                Ok(TreeKeys::new(&key, tree)?)
            }
            _ => Err(no_key(format!("`{path}` is not a key for cobblestone-256"))),
        }
    }
}

/// The keys of one tree, each opened when it is first needed.
pub(super) struct Keys<'a> {
    tree: TreeId,
    given: Vec<Arc<TreeKeys>>,
    chain: &'a Keychain,
    opened: Mutex<HashMap<KeyId, Result<Arc<TreeKeys>, FileError>>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(tree: TreeId, chain: &'a Keychain) -> Result<Keys<'a>, FileError> {
        let given = chain.keys.iter().map(|key| Ok(Arc::new(TreeKeys::new(key, tree)?)));
        let given = given.collect::<Result<_, FileError>>()?;
        Ok(Keys { tree, given, chain, opened: Mutex::default() })
    }

    pub(super) fn tree(&self) -> TreeId {
        self.tree
    }

    /// Returns whether the caller holds a key, and needs no wrapped one.
    pub(super) fn is_given(&self, key: KeyId) -> bool {
        self.given.iter().any(|given| given.commitment().id() == key)
    }

    /// The key with an identifier, which nothing has vouched for.
    pub(super) fn get(&self, depot: &Depot<'_>, key: KeyId) -> Result<Arc<TreeKeys>, FileError> {
        if let Some(given) = self.given.iter().find(|given| given.commitment().id() == key) {
            return Ok(given.clone());
        }
        let mut opened = self.opened.lock().ignore_poison();
        opened.entry(key).or_insert_with(|| self.unwrap(depot, key)).clone()
    }

    /// The key that a verified root or node lists.
    pub(super) fn listed(
        &self,
        depot: &Depot<'_>,
        commitment: Commitment,
    ) -> Result<Arc<TreeKeys>, FileError> {
        let key = self.get(depot, commitment.id())?;
        match key.commitment() == commitment {
            true => Ok(key),
            false => Err(no_key(format!("the key {} is not the one listed", commitment.id()))),
        }
    }

    fn unwrap(&self, depot: &Depot<'_>, key: KeyId) -> Result<Arc<TreeKeys>, FileError> {
        let mut cause = no_key(match self.given.is_empty() {
            true => format!("the tree has no wrapped key {key}, and its key was not given"),
            false => format!("the key given is not that of the tree, and there is no key {key}"),
        });
        let paths = wrappings(depot, key)?;
        for path in paths.iter().take(MOST_TRIED) {
            let unwrapped = depot.read(path, MOST_WRAPPED).and_then(|wrapped| {
                self.chain.open_for(self.tree, &wrapped.unwrap_or_default(), path)
            });
            match unwrapped {
                Ok(keys) if keys.commitment().id() == key => return Ok(Arc::new(keys)),
                // The unread file may be the key.
                _ if says_nothing(&cause) => {}
                Ok(_) => cause = no_key(format!("`{path}` holds another key than its name says")),
                Err(error) => cause = error,
            }
        }
        match paths.len() > MOST_TRIED && !says_nothing(&cause) {
            true => Err(no_key(format!(
                "{cause}; of the {} wrappings of the key {key}, the last {MOST_TRIED} were tried",
                paths.len()
            ))),
            false => Err(cause),
        }
    }
}

/// The wrappings of a key, the last ones first.
pub(super) fn wrappings(depot: &Depot<'_>, key: KeyId) -> Result<Vec<String>, FileError> {
    Ok(all_wrappings(depot)?.remove(&key).unwrap_or_default())
}

/// The wrappings of all keys, the last ones of each first.
pub(super) fn all_wrappings(depot: &Depot<'_>) -> Result<BTreeMap<KeyId, Vec<String>>, FileError> {
    let mut found = BTreeMap::<KeyId, Vec<u64>>::new();
    for entry in depot.list("keys")? {
        let file = entry.name.path().file_name().and_then(|file| file.to_str());
        let parts = file.and_then(|file| file.split_once('.'));
        if let Some((id, number)) = parts
            && let (Some(id), Ok(number)) = (KeyId::from_text(id), number.parse())
        {
            found.entry(id).or_default().push(number);
        }
    }
    let paths = |(id, mut numbers): (KeyId, Vec<u64>)| {
        numbers.sort_unstable();
        (id, numbers.into_iter().rev().map(|number| wrapping(id, number)).collect())
    };
    Ok(found.into_iter().map(paths).collect())
}

/// The path of a wrapping.
pub(super) fn wrapping(key: KeyId, number: u64) -> String {
    format!("keys/{key}.{number}")
}

/// The most wrappings of one key that are tried: anybody who can write to the tree can add some.
const MOST_TRIED: usize = 100;

/// The most bytes of a wrapped key.
pub(super) const MOST_WRAPPED: u64 = 1 << 20;
