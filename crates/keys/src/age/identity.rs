//! Identities, which decrypt data for a recipient.

use std::fmt;
use std::path::Path;

use ::age::ssh::{self, UnsupportedKey};
use ::age::{plugin, x25519};

use super::super::age_text::{SECRET_KEY_START, has_prefix, lines};
use super::super::faults::IdentityFault;
use super::super::text::with_newlines;
use super::super::{KeyError, Unlock, key_file, plain_text};
use super::{Recipient, is_encrypted, recipient, try_passphrase, unwrap};

/// The secret that opens files encrypted for its recipient: `AGE-SECRET-KEY-1…`, a private SSH key,
/// or a plugin's identity (`AGE-PLUGIN-NAME-1…`). Never printed, and zeroised on drop except for
/// what a plugin receives.
#[derive(Clone)]
pub struct Identity(Kind);

#[derive(Clone)]
enum Kind {
    X25519(x25519::Identity),
    Ssh(Box<ssh::Identity>),
    Plugin(plugin::Identity),
}

impl Identity {
    /// Generates an X25519 identity.
    pub fn generate() -> Identity {
        Identity(Kind::X25519(x25519::Identity::generate()))
    }

    /// Reads a file of identities, one per line, as `age-keygen` writes it (skipping empty lines
    /// and lines that begin with `#`), or a private SSH key. `unlock` supplies the secrets for a
    /// file encrypted with age, or an SSH key with a passphrase; any other file must be accessible
    /// to its owner only. `-` is standard input.
    ///
    /// # Errors
    /// When the file can't be read or opened, a line is not an identity, or there are none.
    pub fn read_file(path: &Path, unlock: &dyn Unlock) -> Result<Vec<Identity>, KeyError> {
        let contents = key_file::read_given(path, "read the identity file")?;
        let path = key_file::name_of(path);
        let text = if is_encrypted(&contents.bytes) {
            unwrap(&contents.bytes, path, unlock).map_err(|error| match error {
                KeyError::IdentityNeeded { path } => {
                    KeyError::Identity { path, line: None, fault: IdentityFault::ForRecipients }
                }
                error => error,
            })?
        } else {
            if is_public(&contents.bytes) {
                let fault = IdentityFault::Public;
                return Err(KeyError::Identity { path: path.to_owned(), line: None, fault });
            }
            contents.check_private(path, unlock)?;
            contents.bytes
        };
        let wrong = |line, fault| KeyError::Identity { path: path.to_owned(), line, fault };
        let text = plain_text(&text).map_err(|fault| wrong(None, IdentityFault::NotText(fault)))?;
        if text.trim_ascii_start().starts_with(PEM_START) {
            return Ok(vec![read_ssh(text, path, unlock)?]);
        }
        let identities = lines(text)
            .map(|(number, line)| {
                line.ok_or(IdentityFault::NotUtf8)
                    .and_then(parse)
                    .map_err(|fault| wrong(Some(number), fault))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if identities.is_empty() {
            return Err(wrong(None, IdentityFault::NoneInFile));
        }
        Ok(identities)
    }

    /// The recipient whose files this identity opens; `None` if only a plugin knows it.
    pub fn recipient(&self) -> Option<Recipient> {
        match &self.0 {
            Kind::X25519(identity) => Some(identity.to_public().into()),
            Kind::Ssh(identity) => {
                ssh::Recipient::try_from((**identity).clone()).ok().map(Recipient::from)
            }
            Kind::Plugin(_) => None,
        }
    }

    /// Its decryptor; `None` if it belongs to a plugin.
    pub(super) fn without_plugin(&self) -> Option<&dyn ::age::Identity> {
        Some(match &self.0 {
            Kind::X25519(identity) => identity,
            Kind::Ssh(identity) => &**identity,
            Kind::Plugin(_) => return None,
        })
    }

    pub(super) fn of_plugin(&self) -> Option<&plugin::Identity> {
        match &self.0 {
            Kind::Plugin(identity) => Some(identity),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        use ::age::secrecy::ExposeSecret;
        let Kind::X25519(identity) = &self.0 else { panic!("it has no text") };
        identity.to_string().expose_secret().to_owned()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.recipient(), &self.0) {
            (Some(recipient), _) => write!(f, "Identity(redacted, of {recipient})"),
            (None, Kind::Plugin(plugin)) => {
                write!(f, "Identity(redacted, of the plugin {})", plugin.plugin())
            }
            (None, _) => f.write_str("Identity(redacted)"),
        }
    }
}

/// Returns whether the first line of a file is a recipient.
fn is_public(bytes: &[u8]) -> bool {
    let first = plain_text(bytes).ok().and_then(|text| lines(text).next());
    matches!(first, Some((_, Some(line))) if recipient::parse(line).is_ok())
}

/// Reads one identity. An error names the fault without quoting the identity.
pub(super) fn parse(text: &str) -> Result<Identity, IdentityFault> {
    if let Ok(identity) = text.parse() {
        return Ok(Identity(Kind::X25519(identity)));
    }
    if let Ok(identity) = text.parse() {
        return Ok(Identity(Kind::Plugin(identity)));
    }
    Err(if text.as_bytes().starts_with(PEM_START) {
        IdentityFault::SshAmongOthers
    } else if has_prefix(text, "AGE-SECRET-KEY-PQ-") {
        IdentityFault::PostQuantum
    } else if has_prefix(text, SECRET_KEY_START) || has_prefix(text, "AGE-PLUGIN-") {
        IdentityFault::Malformed
    } else {
        IdentityFault::Unknown
    })
}

/// Reads a private SSH key, in OpenSSH's format or an RSA key in PEM.
fn read_ssh(text: &[u8], path: &Path, unlock: &dyn Unlock) -> Result<Identity, KeyError> {
    let wrong = |fault| KeyError::Identity { path: path.to_owned(), line: None, fault };
    // The SSH parser reads one line at a time and needs the end of the last line.
    let whole = with_newlines(text);
    let read = ssh::Identity::from_buffer(&whole[..], None)
        .map_err(|_| wrong(IdentityFault::MalformedSsh))?;
    let identity = match read {
        ssh::Identity::Unencrypted(_) => read,
        ssh::Identity::Encrypted(encrypted) => {
            try_passphrase(path, unlock, |text| encrypted.decrypt(text))?.into()
        }
        ssh::Identity::Unsupported(unsupported) => {
            return Err(wrong(match unsupported {
                UnsupportedKey::EncryptedPem => IdentityFault::EncryptedPem,
                UnsupportedKey::EncryptedSsh(_) => IdentityFault::SshCipher,
                UnsupportedKey::Hardware(_) => IdentityFault::SshInHardware,
                UnsupportedKey::Type(_) => IdentityFault::SshKind,
            }));
        }
    };
    Ok(Identity(Kind::Ssh(Box::new(identity))))
}

const PEM_START: &[u8] = b"-----BEGIN";
