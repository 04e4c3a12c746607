//! Key files encrypted with age ([C2SP age](https://c2sp.org/age)), for recipients or with a
//! passphrase, so that `age -d` shows the key.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use ::age::armor::ArmoredReader;
use ::age::secrecy::SecretString;
use ::age::{DecryptError, Decryptor, Encryptor, scrypt, x25519};
use zeroize::Zeroizing;

use super::{KeyError, Passphrase, Unlock, key_file};

/// Somebody to encrypt for: an X25519 public key, `age1…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipient(x25519::Recipient);

/// What opens a file that was encrypted for its recipient: `AGE-SECRET-KEY-1…`. Zeroised on
/// drop and never printed.
#[derive(Clone)]
pub struct Identity(x25519::Identity);

impl Recipient {
    /// Reads a file of recipients, one a line, as `age -R` does: empty lines and lines that
    /// begin with `#` are skipped.
    ///
    /// # Errors
    /// When the file can't be read, a line is no recipient, or there is none.
    pub fn read_file(path: &Path) -> Result<Vec<Recipient>, KeyError> {
        let contents = key_file::read_public(path, "read the recipients file")?;
        let wrong = |line, reason| KeyError::Recipient {
            origin: format!("line {line} of {path:?}"),
            reason,
        };
        let recipients = lines(&contents)
            .map(|(number, line)| {
                let line = line.ok_or_else(|| wrong(number, NOT_TEXT))?;
                parse_recipient(line).map_err(|reason| wrong(number, reason))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if recipients.is_empty() {
            let origin = format!("{path:?}");
            return Err(KeyError::Recipient { origin, reason: "it holds no recipients" });
        }
        Ok(recipients)
    }
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse_recipient(text).map_err(|reason| KeyError::Recipient {
            origin: "the recipient given".to_owned(),
            reason,
        })
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.0)
    }
}

impl Identity {
    /// Makes a fresh identity.
    pub fn generate() -> Identity {
        Identity(x25519::Identity::generate())
    }

    /// Reads a file of identities, one a line, as `age-keygen` writes it: empty lines and lines
    /// that begin with `#` are skipped. A file that is encrypted with age is opened first, with
    /// what `unlock` supplies; any other must be its owner's alone.
    ///
    /// # Errors
    /// When the file can't be read or opened, a line is no identity, or there is none.
    pub fn read_file(path: &Path, unlock: &dyn Unlock) -> Result<Vec<Identity>, KeyError> {
        let contents = key_file::read(path, "read the identity file")?;
        let text = if is_encrypted(&contents.bytes) {
            unwrap(&contents.bytes, path, unlock)?
        } else {
            contents.check_private(path)?;
            contents.bytes
        };
        let wrong = |reason| KeyError::Identity { path: path.to_owned(), reason };
        let identities = lines(&text)
            .map(|(number, line)| {
                line.ok_or(NOT_TEXT)
                    .and_then(parse_identity)
                    .map_err(|reason| wrong(format!("line {number}: {reason}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if identities.is_empty() {
            return Err(wrong("it holds none; `age-keygen` makes one".to_owned()));
        }
        Ok(identities)
    }

    /// The recipient whose files this identity opens.
    pub fn recipient(&self) -> Recipient {
        Recipient(self.0.to_public())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(redacted, of {})", self.0.to_public())
    }
}

/// Whether these bytes begin as an age file does, binary or in ASCII armour.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(BINARY_START) || bytes.starts_with(ARMOUR_START)
}

/// Whether these are the bytes of an age file that is encrypted with a passphrase.
pub(super) fn has_passphrase(bytes: &[u8]) -> bool {
    Decryptor::new(ArmoredReader::new(bytes)).is_ok_and(|decryptor| decryptor.is_scrypt())
}

/// Whether the first line of this text that says something is an age identity.
pub(super) fn is_identity(text: &[u8]) -> bool {
    let first = lines(text).find_map(|(_, line)| line);
    first.is_some_and(|line| has_prefix(line, SECRET_KEY_START))
}

/// Encrypts a key's text for recipients, each of whom can open it alone. The result is a
/// binary age file.
///
/// # Errors
/// [`KeyError::NoRecipients`] when there is nobody to encrypt for.
pub fn wrap(text: &[u8], recipients: &[Recipient]) -> Result<Vec<u8>, KeyError> {
    if recipients.is_empty() {
        return Err(KeyError::NoRecipients);
    }
    encrypt(text, recipients.iter().map(|recipient| &recipient.0 as &dyn ::age::Recipient))
}

/// Encrypts a key's text with a passphrase. The result is a binary age file. Takes about a
/// second and 256 MiB, as `age -p` does, so that guessing passphrases is slow.
///
/// # Errors
/// [`KeyError::Passphrase`] when the passphrase is not UTF-8.
pub fn wrap_with_passphrase(text: &[u8], passphrase: &Passphrase) -> Result<Vec<u8>, KeyError> {
    wrap_with_work_factor(text, passphrase, WORK_FACTOR)
}

/// Decrypts an age file that was read from `path`, with the passphrase or one of the
/// identities that `unlock` supplies.
///
/// # Errors
/// When `unlock` supplies nothing that opens it, or it is damaged.
pub fn unwrap(
    bytes: &[u8],
    path: &Path,
    unlock: &dyn Unlock,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let path_buf = || path.to_owned();
    let refused = |error| decryption_error(error, path);
    let decryptor = Decryptor::new(ArmoredReader::new(bytes)).map_err(refused)?;
    let reader = if decryptor.is_scrypt() {
        let passphrase = unlock
            .passphrase(path)?
            .ok_or_else(|| KeyError::PassphraseNeeded { path: path_buf() })?;
        let mut identity = scrypt::Identity::new(secret_text(&passphrase)?);
        identity.set_max_work_factor(WORK_FACTOR_LIMIT);
        decryptor.decrypt(std::iter::once(&identity as &dyn ::age::Identity))
    } else {
        let identities = unlock.identities();
        if identities.is_empty() {
            return Err(KeyError::IdentityNeeded { path: path_buf() });
        }
        decryptor.decrypt(identities.iter().map(|identity| &identity.0 as &dyn ::age::Identity))
    };
    // Never longer than the ciphertext: growing would leave copies of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(bytes.len()));
    reader
        .map_err(refused)?
        .read_to_end(&mut text)
        .map_err(|error| decryption_error(DecryptError::Io(error), path))?;
    Ok(text)
}

fn wrap_with_work_factor(
    text: &[u8],
    passphrase: &Passphrase,
    work_factor: u8,
) -> Result<Vec<u8>, KeyError> {
    let mut recipient = scrypt::Recipient::new(secret_text(passphrase)?);
    recipient.set_work_factor(work_factor);
    encrypt(text, std::iter::once(&recipient as &dyn ::age::Recipient))
}

fn encrypt<'a>(
    text: &[u8],
    recipients: impl Iterator<Item = &'a dyn ::age::Recipient>,
) -> Result<Vec<u8>, KeyError> {
    let failed = |error: io::Error| KeyError::Wrap(error.to_string());
    let encryptor = Encryptor::with_recipients(recipients)
        .map_err(|error| KeyError::Wrap(error.to_string()))?;
    let mut writer = encryptor.wrap_output(Vec::new()).map_err(failed)?;
    writer.write_all(text).map_err(failed)?;
    writer.finish().map_err(failed)
}

/// Says it in our words: age's own for [`DecryptError::ExcessiveWork`] computes a difference
/// that overflows on a fast machine.
fn decryption_error(error: DecryptError, path: &Path) -> KeyError {
    let path = path.to_owned();
    let damaged = |path, reason| KeyError::DamagedAge { path, reason };
    match error {
        DecryptError::NoMatchingKeys => KeyError::WrongIdentity { path },
        DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed => {
            KeyError::WrongPassphrase { path }
        }
        DecryptError::ExcessiveWork { required, .. } => {
            KeyError::ExcessiveWork { path, required, limit: WORK_FACTOR_LIMIT }
        }
        DecryptError::InvalidHeader => damaged(path, "its age header is malformed"),
        DecryptError::InvalidMac => damaged(path, "its age header was changed"),
        DecryptError::UnknownFormat => damaged(path, "it is of a version of age not known here"),
        _ => damaged(path, "it was cut short or changed"),
    }
}

fn secret_text(passphrase: &Passphrase) -> Result<SecretString, KeyError> {
    passphrase.text().map(SecretString::from).ok_or_else(|| KeyError::Passphrase {
        origin: "the passphrase given".to_owned(),
        reason: "age takes UTF-8 only".to_owned(),
    })
}

fn parse_recipient(text: &str) -> Result<Recipient, &'static str> {
    text.parse().map(Recipient).map_err(|_| {
        if text.starts_with("ssh-") {
            "SSH keys are not supported; have an age key made with `age-keygen`"
        } else if has_prefix(text, SECRET_KEY_START) {
            "this is an identity, which is secret; `age-keygen -y` shows its recipient"
        } else if text.starts_with("age1") {
            "it is mistyped, or of a kind other than X25519 (`age1` and 58 characters)"
        } else {
            "it is no age recipient (`age1` and 58 characters)"
        }
    })
}

fn parse_identity(text: &str) -> Result<Identity, &'static str> {
    text.parse().map(Identity).map_err(|_| {
        if text.starts_with("-----BEGIN") {
            "SSH keys are not supported; make an age identity with `age-keygen`"
        } else if has_prefix(text, SECRET_KEY_START) {
            "the identity is mistyped or cut short"
        } else if has_prefix(text, "AGE-PLUGIN-") {
            "plugins are not supported; open the key file with `age -d` first"
        } else {
            "this is no age identity (`AGE-SECRET-KEY-1…`)"
        }
    })
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The lines that say something, with their numbers from 1; `None` for one that is not UTF-8.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Option<&str>)> {
    text.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(index, line)| (index + 1, std::str::from_utf8(line).ok()))
}

const BINARY_START: &[u8] = b"age-encryption.org/";
const ARMOUR_START: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
const SECRET_KEY_START: &str = "AGE-SECRET-KEY-";
const NOT_TEXT: &str = "it is not text";

/// The logarithm of scrypt's rounds when encrypting, as `age -p`: 256 MiB, about a second.
const WORK_FACTOR: u8 = 18;

/// The logarithm of the most rounds of scrypt when decrypting: 1 GiB, some seconds. The file
/// says how many it wants, so without a limit it could ask for all the memory there is.
const WORK_FACTOR_LIMIT: u8 = 20;

#[cfg(test)]
mod tests;
