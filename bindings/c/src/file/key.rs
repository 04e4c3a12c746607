//! Keys of files.

use std::path::Path;
use std::sync::Arc;

use facade::keys::{self, AgeKeys, CobblestoneSuite, KeyFormat, KeyMaterial, UnknownKeyFormat};
use facade::sealed_trees::{Keychain, Wrap};
use facade::{Key, KeyRing, SealedNames};

use crate::status::{Status, Trouble};

/// The content of a key file: a key, or Tink's keys, and their format. `evener_file_key_free` wipes
/// it.
pub struct FileKeyHandle(Content);

enum Content {
    Key(KeyMaterial),
    /// age's own format has no key: these open its files.
    Age(AgeKeys),
}

impl FileKeyHandle {
    pub(crate) fn generated(format: Option<&str>) -> Result<FileKeyHandle, Trouble> {
        let format = match format {
            Some(name) => name.parse().map_err(unknown)?,
            None => KeyFormat::default(),
        };
        Ok(FileKeyHandle(Content::Key(KeyMaterial::generate(format)?)))
    }

    /// A raw key; its length determines the variant of Cobblestone.
    pub(crate) fn copied(bytes: &[u8]) -> Result<FileKeyHandle, Trouble> {
        match KeyMaterial::of_bytes(bytes) {
            Some(key) => Ok(FileKeyHandle(Content::Key(key))),
            None => Err(Trouble::new(
                Status::InvalidKey,
                format!("a file key has 16 or 32 bytes, not {}", bytes.len()),
            )),
        }
    }

    pub(crate) fn load(
        path: &Path,
        passphrase: Option<&[u8]>,
        identities: Option<&Path>,
    ) -> Result<FileKeyHandle, Trouble> {
        Ok(FileKeyHandle(Content::Key(keys::load(path, &AgeKeys::of(passphrase, identities)?)?)))
    }

    pub(crate) fn of_age(
        recipients: Option<&str>,
        passphrase: Option<&[u8]>,
        identities: Option<&Path>,
    ) -> Result<FileKeyHandle, Trouble> {
        let recipients = recipients.unwrap_or_default().lines().map(str::trim);
        let recipients = recipients.filter(|line| !line.is_empty()).map(str::parse);
        let recipients = recipients.collect::<Result<_, _>>()?;
        let keys = AgeKeys::of(passphrase, identities)?;
        Ok(FileKeyHandle(Content::Age(AgeKeys { recipients, ..keys })))
    }

    pub(crate) fn is_of_age(&self) -> bool {
        matches!(self.0, Content::Age(_))
    }

    /// The usual names of its files.
    pub(crate) fn names(&self) -> SealedNames {
        if self.is_of_age() { SealedNames::of_age() } else { SealedNames::default() }
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Trouble> {
        let Content::Key(material) = &self.0 else {
            return Err(Trouble::argument("age's own files have no key to save"));
        };
        keys::create(path, material.to_text().as_bytes())?;
        Ok(())
    }

    pub(crate) fn key_ring(&self, context: &[u8]) -> Result<KeyRing, Trouble> {
        match &self.0 {
            Content::Key(material) => Ok(material.key_ring(context)?),
            Content::Age(_) if !context.is_empty() => {
                Err(Trouble::argument("age's own files have no context"))
            }
            Content::Age(keys) => Ok(keys.key_ring()?),
        }
    }
}

/// The part of it that sealed trees use.
impl FileKeyHandle {
    /// The key of a tree; `None` of what wraps and opens fresh ones.
    pub(crate) fn tree_key(&self) -> Result<Option<&Key>, Trouble> {
        match &self.0 {
            Content::Age(_) => Ok(None),
            Content::Key(KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, key }) => {
                Ok(Some(key))
            }
            Content::Key(other) => Err(Trouble::new(
                Status::InvalidKey,
                format!(
                    "a sealed tree takes keys for {}, and this one is for {}",
                    KeyFormat::Cobblestone256,
                    other.format()
                ),
            )),
        }
    }

    /// What opens a tree, also with the identities of `other`.
    pub(crate) fn keychain(&self, other: Option<&FileKeyHandle>) -> Result<Keychain, Trouble> {
        let mut unlock = AgeKeys::default();
        for key in [Some(self), other].into_iter().flatten() {
            if let Content::Age(keys) = &key.0 {
                unlock.identities.extend(keys.identities.iter().cloned());
                unlock.passphrase = unlock.passphrase.or_else(|| keys.passphrase.clone());
            }
        }
        let keys = self.tree_key()?.cloned().into_iter().collect();
        Ok(Keychain { keys, unlock: Arc::new(unlock), ..Keychain::default() })
    }

    /// Wraps the fresh key of a generation for the recipients, or else with the passphrase; `None`
    /// of a key.
    pub(crate) fn wrap(&self) -> Result<Option<Wrap>, Trouble> {
        let Content::Age(keys) = &self.0 else { return Ok(None) };
        Ok(Some(keys.wrap().ok_or_else(|| {
            Trouble::argument(
                "no key that could seal the tree: give a key, recipients or a passphrase; \
                 identities only open",
            )
        })?))
    }

    /// A word that stands for its recipients; `None` for a key.
    pub(crate) fn audience(&self) -> Option<String> {
        let Content::Age(keys) = &self.0 else { return None };
        Some(keys.audience())
    }

    pub(crate) fn has_recipients(&self) -> bool {
        matches!(&self.0, Content::Age(keys) if !keys.recipients.is_empty())
    }

    /// Returns whether it wraps with a passphrase, and not for recipients.
    pub(crate) fn is_passphrase(&self) -> bool {
        self.is_of_age() && !self.has_recipients()
    }
}

fn unknown(error: UnknownKeyFormat) -> Trouble {
    Trouble::argument(error.to_string())
}
