//! Keys of files.

use std::path::Path;

use facade::keys::age::Identity;
use facade::keys::{
    self, CobblestoneSuite, KeyFormat, KeyMaterial, NoUnlock, Passphrase, UnknownKeyFormat, Unlock,
};
use facade::{Key, KeyRing};

use crate::status::{Status, Trouble};

/// The content of a key file: a key, or Tink's keys, and their format. `evener_file_key_free` wipes
/// it.
pub struct FileKeyHandle {
    material: KeyMaterial,
}

impl FileKeyHandle {
    pub(crate) fn generated(format: Option<&str>) -> Result<FileKeyHandle, Trouble> {
        let format = match format {
            Some(name) => name.parse().map_err(unknown)?,
            None => KeyFormat::default(),
        };
        Ok(FileKeyHandle { material: KeyMaterial::generate(format)? })
    }

    /// A raw key; its length determines the variant of Cobblestone.
    pub(crate) fn copied(bytes: &[u8]) -> Result<FileKeyHandle, Trouble> {
        let suite = CobblestoneSuite::ALL.into_iter().find(|s| s.key_length() == bytes.len());
        match (suite, Key::new(bytes).ok()) {
            (Some(suite), Some(key)) => {
                Ok(FileKeyHandle { material: KeyMaterial::Cobblestone { suite, key } })
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
        let passphrase =
            passphrase.map(|bytes| Passphrase::new(bytes, "the caller")).transpose()?;
        let mut opener = Opener { passphrase, identities: Vec::new() };
        if let Some(identities) = identities {
            opener.identities = Identity::read_file(identities, &opener)?;
        }
        Ok(FileKeyHandle { material: keys::load(path, &opener)? })
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Trouble> {
        keys::create(path, self.material.to_text().as_bytes())?;
        Ok(())
    }

    pub(crate) fn key_ring(&self, context: &[u8]) -> Result<KeyRing, Trouble> {
        Ok(self.material.key_ring(context)?)
    }
}

/// Opens key files with the caller's passphrase and identities.
struct Opener {
    passphrase: Option<Passphrase>,
    identities: Vec<Identity>,
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
