//! The keys of age's own files, in the form in which callers hold them.

use std::path::Path;
use std::sync::Arc;

use evener_keys::age::{self, FileHeaders, Identity, Recipient};
use evener_keys::{KeyError, KeyRing, NoUnlock, Passphrase, Unlock};
use evener_place::Refusal;

use crate::sealed_trees::{Wrap, audience};

/// What opens age's files, and whom they are encrypted for. It has no key of its own. It also unlocks
/// key files, and the keys of sealed trees.
#[derive(Clone, Default)]
pub struct AgeKeys {
    /// Encryption is for these, or else with the passphrase.
    pub recipients: Vec<Recipient>,
    /// They open files.
    pub identities: Vec<Identity>,
    /// It opens files, too.
    pub passphrase: Option<Passphrase>,
}

impl AgeKeys {
    /// Takes a passphrase, and the identities in a file, which may be encrypted with it.
    ///
    /// # Errors
    /// When the passphrase can't be used, or the file can't be read or opened.
    pub fn of(passphrase: Option<&[u8]>, identities: Option<&Path>) -> Result<AgeKeys, KeyError> {
        let passphrase =
            passphrase.map(|bytes| Passphrase::new(bytes, "the caller")).transpose()?;
        let mut keys = AgeKeys { passphrase, ..AgeKeys::default() };
        if let Some(path) = identities {
            keys.identities = Identity::read_file(path, &keys)?;
        }
        Ok(keys)
    }

    /// The key ring. Without recipients and passphrase, it only decrypts.
    ///
    /// # Errors
    /// When the recipients do not go together, or the passphrase can't be used.
    pub fn key_ring(&self) -> Result<KeyRing, KeyError> {
        let AgeKeys { recipients, identities, passphrase } = self.clone();
        let headers = FileHeaders::opened_by(identities, passphrase.clone());
        let headers = match passphrase {
            _ if !recipients.is_empty() => headers.for_recipients(recipients)?,
            Some(passphrase) => headers.for_passphrase(passphrase)?,
            None => headers,
        };
        Ok(KeyRing::new(headers.recipe()))
    }

    /// Wraps the key of a sealed tree's generation; `None` without recipients and passphrase.
    pub fn wrap(&self) -> Option<Wrap> {
        let refused = |error: KeyError| Refusal::Other(error.to_string()).into();
        let (recipients, passphrase) = (self.recipients.clone(), self.passphrase.clone());
        if !recipients.is_empty() {
            return Some(Arc::new(move |text| age::wrap(text, &recipients).map_err(refused)));
        }
        let passphrase = passphrase?;
        Some(Arc::new(move |text| age::wrap_with_passphrase(text, &passphrase).map_err(refused)))
    }

    /// The word for the recipients, [`SealedOptions::audience`](crate::sealed_trees::SealedOptions).
    pub fn audience(&self) -> String {
        audience(&self.recipients)
    }
}

impl Unlock for AgeKeys {
    fn identities(&self) -> &[Identity] {
        &self.identities
    }

    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, KeyError> {
        match &self.passphrase {
            Some(passphrase) => Ok(Some(passphrase.clone())),
            None => NoUnlock.passphrase(path),
        }
    }
}
