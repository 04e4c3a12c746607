//! Keys.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use facade::keys::age::{self, FileHeaders, Identity, Recipient};
use facade::keys::{
    self, CobblestoneSuite, KeyError, KeyFormat, KeyMaterial, NoUnlock, Passphrase, Unlock,
};
use facade::sealed_trees::{Keychain, Wrap, audience};
use facade::{Evener, Key, Refusal, SealedNames};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::Trouble;
use crate::path::AnyPath;

/// The keys of operations. It never prints a secret, and can't be pickled.
#[pyclass(frozen, module = "evener")]
pub(crate) struct KeyRing {
    content: Content,
    /// For buffers, without a context.
    evener: OnceLock<Evener>,
}

enum Content {
    Key(KeyMaterial),
    /// Age's own format has no key; these open its files.
    Age {
        recipients: Vec<Recipient>,
        identities: Vec<Identity>,
        passphrase: Option<Passphrase>,
    },
}

#[pymethods]
impl KeyRing {
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None, identities=None))]
    fn load(
        py: Python<'_>,
        path: AnyPath,
        passphrase: Option<Secret>,
        identities: Option<AnyPath>,
    ) -> Result<KeyRing, Trouble> {
        let opener = Opener::of(passphrase, identities)?;
        let material = py.detach(|| keys::load(&path.0, &opener))?;
        Ok(Content::Key(material).into())
    }

    #[staticmethod]
    #[pyo3(signature = (format="cobblestone-256"))]
    fn generate(format: &str) -> Result<KeyRing, Trouble> {
        let format: KeyFormat = format.parse().map_err(Trouble::usage)?;
        Ok(Content::Key(KeyMaterial::generate(format)?).into())
    }

    #[staticmethod]
    fn of_bytes(secret: &[u8]) -> Result<KeyRing, Trouble> {
        let suite = CobblestoneSuite::ALL.into_iter().find(|s| s.key_length() == secret.len());
        match (suite, Key::new(secret)) {
            (Some(suite), Ok(key)) => {
                Ok(Content::Key(KeyMaterial::Cobblestone { suite, key }).into())
            }
            _ => Err(Trouble::Usage(format!("a key has 16 or 32 bytes, not {}", secret.len()))),
        }
    }

    #[staticmethod]
    #[pyo3(signature = (identity=None, *, recipients=None, passphrase=None))]
    fn age(
        py: Python<'_>,
        identity: Option<AnyPath>,
        recipients: Option<Vec<String>>,
        passphrase: Option<Secret>,
    ) -> Result<KeyRing, Trouble> {
        let Opener { passphrase, identities } = py.detach(|| Opener::of(passphrase, identity))?;
        let recipients = match recipients {
            Some(lines) => {
                lines.iter().map(|line| line.trim().parse()).collect::<Result<Vec<_>, _>>()?
            }
            None if passphrase.is_some() => Vec::new(),
            None => identities.iter().filter_map(Identity::recipient).collect(),
        };
        if recipients.is_empty() && identities.is_empty() && passphrase.is_none() {
            return Err(Trouble::usage("age takes an identity, recipients or a passphrase"));
        }
        Ok(Content::Age { recipients, identities, passphrase }.into())
    }

    fn save(&self, py: Python<'_>, path: AnyPath) -> Result<(), Trouble> {
        match &self.content {
            Content::Key(material) => {
                py.detach(|| keys::create(&path.0, material.to_text().as_bytes()))?;
                Ok(())
            }
            Content::Age { .. } => Err(Trouble::usage("age's own files have no key to save")),
        }
    }

    #[getter]
    fn format(&self) -> &'static str {
        match &self.content {
            Content::Key(material) => material.format().name(),
            Content::Age { .. } => "age",
        }
    }

    fn __repr__(&self) -> String {
        format!("<evener.KeyRing of {}>", self.format())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a KeyRing can't be pickled, since it holds secrets"))
    }
}

impl KeyRing {
    /// The keys, with the context that files are bound to.
    pub(crate) fn ring(&self, context: &[u8]) -> Result<facade::KeyRing, Trouble> {
        let (recipients, identities, passphrase) = match &self.content {
            Content::Key(material) => return Ok(material.key_ring(context)?),
            Content::Age { .. } if !context.is_empty() => {
                return Err(Trouble::usage("age's own files have no context"));
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
        Ok(facade::KeyRing::new(headers.recipe()))
    }

    /// Evener with these keys and the default options.
    pub(crate) fn evener(&self) -> Result<&Evener, Trouble> {
        if let Some(evener) = self.evener.get() {
            return Ok(evener);
        }
        let evener = Evener::new(self.ring(b"")?)?;
        Ok(self.evener.get_or_init(|| evener))
    }

    /// The usual names of encrypted files.
    pub(crate) fn names(&self) -> SealedNames {
        match self.content {
            Content::Key(_) => SealedNames::default(),
            Content::Age { .. } => SealedNames::of_age(),
        }
    }

    /// Opens sealed trees.
    pub(crate) fn keychain(&self) -> Result<Keychain, Trouble> {
        let (keys, opener) = match &self.content {
            Content::Key(KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, key }) => {
                (vec![key.clone()], Opener { passphrase: None, identities: Vec::new() })
            }
            Content::Key(other) => {
                return Err(Trouble::Usage(format!(
                    "a sealed tree takes keys for {}, and this one is for {}",
                    KeyFormat::Cobblestone256,
                    other.format()
                )));
            }
            Content::Age { identities, passphrase, .. } => {
                let (passphrase, identities) = (passphrase.clone(), identities.clone());
                (Vec::new(), Opener { passphrase, identities })
            }
        };
        Ok(Keychain { keys, unlock: Arc::new(opener), ..Keychain::default() })
    }

    /// Wraps the fresh key of a sealed tree's generation; `None` if the key itself seals.
    pub(crate) fn wrap(&self) -> Result<Option<Wrap>, Trouble> {
        let Content::Age { recipients, passphrase, .. } = &self.content else { return Ok(None) };
        let refused = |error: KeyError| Refusal::Other(error.to_string()).into();
        let (recipients, passphrase) = (recipients.clone(), passphrase.clone());
        Ok(Some(match passphrase {
            _ if !recipients.is_empty() => {
                Arc::new(move |text| age::wrap(text, &recipients).map_err(refused))
            }
            Some(passphrase) => {
                Arc::new(move |text| age::wrap_with_passphrase(text, &passphrase).map_err(refused))
            }
            None => return Err(Trouble::usage("these identities have no recipient to seal for")),
        }))
    }

    /// A word that stands for its recipients; `None` for a key.
    pub(crate) fn audience(&self) -> Option<String> {
        let Content::Age { recipients, .. } = &self.content else { return None };
        Some(audience(recipients))
    }

    /// Returns whether a passphrase seals, which may be mistyped.
    pub(crate) fn is_passphrase(&self) -> bool {
        matches!(&self.content, Content::Age { recipients, .. } if recipients.is_empty())
    }
}

impl From<Content> for KeyRing {
    fn from(content: Content) -> KeyRing {
        KeyRing { content, evener: OnceLock::new() }
    }
}

/// A passphrase: `str` in UTF-8, or `bytes`.
#[derive(FromPyObject)]
enum Secret {
    Text(String),
    Bytes(Vec<u8>),
}

/// Opens key files with the caller's passphrase and identities.
struct Opener {
    passphrase: Option<Passphrase>,
    identities: Vec<Identity>,
}

impl Opener {
    fn of(passphrase: Option<Secret>, identities: Option<AnyPath>) -> Result<Opener, Trouble> {
        let bytes = passphrase.map(|secret| {
            zeroize::Zeroizing::new(match secret {
                Secret::Text(text) => text.into_bytes(),
                Secret::Bytes(bytes) => bytes,
            })
        });
        let passphrase = bytes.map(|bytes| Passphrase::new(&bytes, "the caller")).transpose()?;
        let mut opener = Opener { passphrase, identities: Vec::new() };
        if let Some(identities) = identities {
            opener.identities = Identity::read_file(&identities.0, &opener)?;
        }
        Ok(opener)
    }
}

impl Unlock for Opener {
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
