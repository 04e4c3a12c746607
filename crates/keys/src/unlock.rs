//! Unlocks encrypted key files with identities or passphrases.

use std::path::Path;
use std::sync::Arc;

use super::age::{Dialogue, Identity, NoDialogue};
use super::{Exposed, KeyError, Passphrase};

/// Supplies the secrets that open key files encrypted with age. The library never asks a person: a
/// program that wants to ask implements this with a prompt.
pub trait Unlock {
    /// The identities to try, in this order.
    fn identities(&self) -> &[Identity] {
        &[]
    }

    /// The passphrase of a key file or identity file; `None` when none is available. Called only
    /// for a file that is encrypted with a passphrase.
    ///
    /// # Errors
    /// When the request for the passphrase failed.
    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, KeyError> {
        let _ = path;
        Ok(None)
    }

    /// Answers the questions of age's plugins.
    fn dialogue(&self) -> Arc<dyn Dialogue> {
        Arc::new(NoDialogue)
    }

    /// Returns whether to accept a secret from a file that its group or others may use, which is
    /// otherwise refused.
    fn takes_exposed(&self, file: &Exposed<'_>) -> bool {
        let _ = file;
        false
    }

    /// Returns whether to accept recipients from a file that its group or others may change, or
    /// that belongs to another user, which is otherwise refused.
    fn takes_recipients(&self, file: &Exposed<'_>) -> bool {
        let _ = file;
        false
    }
}

/// Opens nothing: for keys that are not encrypted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUnlock;

impl Unlock for NoUnlock {}

/// Opens files that one of these identities opens.
impl Unlock for Vec<Identity> {
    fn identities(&self) -> &[Identity] {
        self
    }
}

/// Opens every file that has this passphrase.
impl Unlock for Passphrase {
    fn passphrase(&self, _path: &Path) -> Result<Option<Passphrase>, KeyError> {
        Ok(Some(self.clone()))
    }
}
