//! Keys.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use facade::keys::age::Identity;
use facade::keys::{self, AgeKeys, CobblestoneSuite, KeyError, KeyFormat, KeyMaterial};
use facade::sealed_trees::{Keychain, Wrap};
use facade::{Evener, SealedNames};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::Trouble;
use crate::path::AnyPath;
use crate::values::{STRINGS, given};

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
    Age(AgeKeys),
}

#[pymethods]
impl KeyRing {
    /// Reads a key file: Evener's, a Tink keyset, or either of them wrapped in age.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None, identities=None))]
    fn load(
        py: Python<'_>,
        path: AnyPath,
        passphrase: Option<Secret>,
        identities: Option<AnyPath>,
    ) -> Result<KeyRing, Trouble> {
        py.detach(|| {
            let unlock = unlocking(passphrase, identities)?;
            let material = keys::load(&path.0, &unlock).map_err(|error| hidden(error, &path.0))?;
            Ok(Content::Key(material).into())
        })
    }

    /// Makes a key for cobblestone-256, cobblestone-128 or tink. Store it with save.
    #[staticmethod]
    #[pyo3(signature = (format="cobblestone-256"))]
    fn generate(format: &str) -> Result<KeyRing, Trouble> {
        let format: KeyFormat = format.parse().map_err(Trouble::usage)?;
        Ok(Content::Key(KeyMaterial::generate(format)?).into())
    }

    /// Takes a key of 16 or 32 bytes for Cobblestone, C2SP's chunked encryption.
    #[staticmethod]
    fn of_bytes(secret: &[u8]) -> Result<KeyRing, Trouble> {
        match KeyMaterial::of_bytes(secret) {
            Some(key) => Ok(Content::Key(key).into()),
            None => Err(Trouble::Usage(format!("a key has 16 or 32 bytes, not {}", secret.len()))),
        }
    }

    /// The keys of age files. A file with identities or a passphrase opens them.
    ///
    /// Encryption is for the recipients, with the passphrase, or for the recipients of the identities.
    #[staticmethod]
    #[pyo3(signature = (identity=None, *, recipients=None, passphrase=None))]
    fn age(
        py: Python<'_>,
        identity: Option<AnyPath>,
        recipients: Option<Bound<'_, PyAny>>,
        passphrase: Option<Secret>,
    ) -> Result<KeyRing, Trouble> {
        let mut keys = py.detach(|| unlocking(passphrase, identity))?;
        keys.recipients = match recipients {
            Some(recipients) => {
                let lines: Vec<String> = given("recipients", &recipients, STRINGS)?;
                lines.iter().map(|line| line.trim().parse()).collect::<Result<Vec<_>, _>>()?
            }
            None if keys.passphrase.is_some() => Vec::new(),
            None => keys.identities.iter().filter_map(Identity::recipient).collect(),
        };
        let AgeKeys { recipients, identities, passphrase } = &keys;
        if recipients.is_empty() && identities.is_empty() && passphrase.is_none() {
            return Err(Trouble::usage("age takes an identity, recipients or a passphrase"));
        }
        Ok(Content::Age(keys).into())
    }

    /// Writes a new key file, which only its owner can read.
    fn save(&self, py: Python<'_>, path: AnyPath) -> Result<(), Trouble> {
        match &self.content {
            Content::Key(material) => {
                py.detach(|| keys::create(&path.0, material.to_text().as_bytes()))?;
                Ok(())
            }
            Content::Age(_) => Err(Trouble::usage("age's own files have no key to save")),
        }
    }

    /// The name of the format, such as cobblestone-256.
    #[getter]
    fn format(&self) -> &'static str {
        match &self.content {
            Content::Key(material) => material.format().name(),
            Content::Age(_) => "age",
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
        match &self.content {
            Content::Key(material) => Ok(material.key_ring(context)?),
            Content::Age(_) if !context.is_empty() => {
                Err(Trouble::usage("age's own files have no context"))
            }
            Content::Age(keys) => Ok(keys.key_ring()?),
        }
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
            Content::Age(_) => SealedNames::of_age(),
        }
    }

    /// Opens sealed trees.
    pub(crate) fn keychain(&self) -> Result<Keychain, Trouble> {
        let (keys, unlock) = match &self.content {
            Content::Key(KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, key }) => {
                (vec![key.clone()], AgeKeys::default())
            }
            Content::Key(other) => {
                return Err(Trouble::Usage(format!(
                    "a sealed tree takes keys for {}, and this one is for {}",
                    KeyFormat::Cobblestone256,
                    other.format()
                )));
            }
            Content::Age(keys) => (Vec::new(), keys.clone()),
        };
        Ok(Keychain { keys, unlock: Arc::new(unlock), ..Keychain::default() })
    }

    /// Wraps the fresh key of a sealed tree's generation; `None` if the key itself seals.
    pub(crate) fn wrap(&self) -> Result<Option<Wrap>, Trouble> {
        let Content::Age(keys) = &self.content else { return Ok(None) };
        let wrap = keys.wrap();
        Ok(Some(
            wrap.ok_or_else(|| Trouble::usage("these identities have no recipient to seal for"))?,
        ))
    }

    /// A word that stands for its recipients; `None` for a key.
    pub(crate) fn audience(&self) -> Option<String> {
        let Content::Age(keys) = &self.content else { return None };
        Some(keys.audience())
    }

    /// Returns whether a passphrase seals, which may be mistyped.
    pub(crate) fn is_passphrase(&self) -> bool {
        matches!(&self.content, Content::Age(keys) if keys.recipients.is_empty())
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

fn unlocking(passphrase: Option<Secret>, identities: Option<AnyPath>) -> Result<AgeKeys, Trouble> {
    let passphrase = passphrase.map(|secret| {
        zeroize::Zeroizing::new(match secret {
            Secret::Text(text) => text.into_bytes(),
            Secret::Bytes(bytes) => bytes,
        })
    });
    let passphrase = passphrase.as_ref().map(|bytes| &bytes[..]);
    let path = identities.as_ref().map(|path| &*path.0);
    AgeKeys::of(passphrase, path).map_err(|error| hidden(error, path.unwrap_or(Path::new(""))))
}

/// The error for a file that is not there, without a path that may be a key itself.
fn hidden(error: KeyError, path: &Path) -> Trouble {
    match error {
        KeyError::Io { ref cause, .. }
            if cause.kind() != ErrorKind::PermissionDenied && !is_only_path(path) =>
        {
            Trouble::HiddenKey
        }
        error => error.into(),
    }
}

/// Returns whether a path can't be a key, as bytes or as text: it is too short, has an extension,
/// or begins with a directory that exists.
fn is_only_path(path: &Path) -> bool {
    let is_name =
        |text: &OsStr| text.to_str().is_some_and(|it| it.chars().all(char::is_alphanumeric));
    let directory = path.parent().filter(|parent| parent.file_name().is_some());
    path.as_os_str().len() < SHORTEST_KEY
        || path.to_str().is_some() && path.extension().is_some_and(is_name)
        || directory.is_some_and(Path::is_dir)
}

/// The length of the shortest key, in bytes.
const SHORTEST_KEY: usize = 16;
