//! Keys of files.

use std::path::Path;
use std::sync::Arc;

use facade::keys::age::{self, FileHeaders, Identity, Recipient};
use facade::keys::{
    self, CobblestoneSuite, KeyError, KeyFormat, KeyMaterial, NoUnlock, Passphrase,
    UnknownKeyFormat, Unlock,
};
use facade::sealed_trees::{Keychain, Wrap, audience};
use facade::{Key, KeyRing, Refusal, SealedNames};

use crate::status::{Status, Trouble};

/// The content of a key file: a key, or Tink's keys, and their format. `evener_file_key_free` wipes
/// it.
pub struct FileKeyHandle(Content);

enum Content {
    Key(KeyMaterial),
    /// age's own format has no key: these open its files.
    Age {
        recipients: Vec<Recipient>,
        identities: Vec<Identity>,
        passphrase: Option<Passphrase>,
    },
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
        let suite = CobblestoneSuite::ALL.into_iter().find(|s| s.key_length() == bytes.len());
        match (suite, Key::new(bytes).ok()) {
            (Some(suite), Some(key)) => {
                Ok(FileKeyHandle(Content::Key(KeyMaterial::Cobblestone { suite, key })))
            }
            _ => Err(Trouble::new(
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
        Ok(FileKeyHandle(Content::Key(keys::load(path, &Opener::of(passphrase, identities)?)?)))
    }

    pub(crate) fn of_age(
        recipients: Option<&str>,
        passphrase: Option<&[u8]>,
        identities: Option<&Path>,
    ) -> Result<FileKeyHandle, Trouble> {
        let recipients = recipients.unwrap_or_default().lines().map(str::trim);
        let recipients = recipients.filter(|line| !line.is_empty()).map(str::parse);
        let recipients = recipients.collect::<Result<_, _>>()?;
        let Opener { passphrase, identities } = Opener::of(passphrase, identities)?;
        Ok(FileKeyHandle(Content::Age { recipients, identities, passphrase }))
    }

    pub(crate) fn is_of_age(&self) -> bool {
        matches!(self.0, Content::Age { .. })
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
        let (recipients, identities, passphrase) = match &self.0 {
            Content::Key(material) => return Ok(material.key_ring(context)?),
            Content::Age { .. } if !context.is_empty() => {
                return Err(Trouble::argument("age's own files have no context"));
            }
            Content::Age { recipients, identities, passphrase } => {
                (recipients, identities, passphrase)
            }
        };
        let headers = FileHeaders::opened_by(identities.clone(), passphrase.clone());
        let headers = match (recipients.is_empty(), passphrase) {
            (false, _) => headers.for_recipients(recipients.clone())?,
            (true, Some(passphrase)) => headers.for_passphrase(passphrase.clone())?,
            (true, None) => headers,
        };
        Ok(KeyRing::new(headers.recipe()))
    }
}

/// The part of it that sealed trees use.
impl FileKeyHandle {
    /// The key of a tree; `None` of what wraps and opens fresh ones.
    pub(crate) fn tree_key(&self) -> Result<Option<&Key>, Trouble> {
        match &self.0 {
            Content::Age { .. } => Ok(None),
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
        let mut opener = Opener { passphrase: None, identities: Vec::new() };
        for key in [Some(self), other].into_iter().flatten() {
            if let Content::Age { identities, passphrase, .. } = &key.0 {
                opener.identities.extend(identities.iter().cloned());
                opener.passphrase = opener.passphrase.or_else(|| passphrase.clone());
            }
        }
        let keys = self.tree_key()?.cloned().into_iter().collect();
        Ok(Keychain { keys, unlock: Arc::new(opener), ..Keychain::default() })
    }

    /// Wraps the fresh key of a generation for the recipients, or else with the passphrase; `None`
    /// of a key.
    pub(crate) fn wrap(&self) -> Result<Option<Wrap>, Trouble> {
        let Content::Age { recipients, passphrase, .. } = &self.0 else { return Ok(None) };
        let refused = |error: KeyError| Refusal::Other(error.to_string()).into();
        let (recipients, passphrase) = (recipients.clone(), passphrase.clone());
        Ok(Some(match passphrase {
            _ if !recipients.is_empty() => {
                Arc::new(move |text| age::wrap(text, &recipients).map_err(refused))
            }
            Some(passphrase) => {
                Arc::new(move |text| age::wrap_with_passphrase(text, &passphrase).map_err(refused))
            }
            None => {
                return Err(Trouble::argument(
                    "no key that could seal the tree: give a key, recipients or a passphrase; \
                     identities only open",
                ));
            }
        }))
    }

    /// A word that stands for its recipients; `None` for a key.
    pub(crate) fn audience(&self) -> Option<String> {
        let Content::Age { recipients, .. } = &self.0 else { return None };
        Some(audience(recipients))
    }

    pub(crate) fn has_recipients(&self) -> bool {
        matches!(&self.0, Content::Age { recipients, .. } if !recipients.is_empty())
    }

    /// Returns whether it wraps with a passphrase, and not for recipients.
    pub(crate) fn is_passphrase(&self) -> bool {
        self.is_of_age() && !self.has_recipients()
    }
}

/// Opens key files with the caller's passphrase and identities.
struct Opener {
    passphrase: Option<Passphrase>,
    identities: Vec<Identity>,
}

impl Opener {
    fn of(passphrase: Option<&[u8]>, identities: Option<&Path>) -> Result<Opener, Trouble> {
        let passphrase =
            passphrase.map(|bytes| Passphrase::new(bytes, "the caller")).transpose()?;
        let mut opener = Opener { passphrase, identities: Vec::new() };
        if let Some(identities) = identities {
            opener.identities = Identity::read_file(identities, &opener)?;
        }
        Ok(opener)
    }
}

impl Unlock for Opener {
    fn identities(&self) -> &[Identity] {
        &self.identities
    }

    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, keys::KeyError> {
        match &self.passphrase {
            Some(passphrase) => Ok(Some(passphrase.clone())),
            None => NoUnlock.passphrase(path),
        }
    }
}

fn unknown(error: UnknownKeyFormat) -> Trouble {
    Trouble::argument(error.to_string())
}
