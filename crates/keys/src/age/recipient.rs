//! Recipients, for whom data is encrypted.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ::age::ssh::ParseRecipientKeyError;
use ::age::{plugin, ssh, tag, tagpq, x25519};

use super::super::age_text::{SECRET_KEY_START, has_prefix, lines};
use super::super::faults::{RecipientFault, RecipientOrigin};
use super::super::{KeyError, Unlock, key_file, plain_text};
use super::low_order::{is_low_order, point_of_age, point_of_ssh};

/// A recipient of encrypted data: `age1…` of X25519, of a tagged type (`age1tag1…`, and
/// `age1tagpq1…`, which withstands quantum computers) or of a plugin (`age1NAME1…`), or a public
/// SSH key (`ssh-ed25519 …`, `ssh-rsa …`). Two are equal when their texts are equal.
#[derive(Clone)]
pub struct Recipient {
    kind: Kind,
    /// Its text without a comment.
    text: String,
}

#[derive(Clone)]
enum Kind {
    X25519(x25519::Recipient),
    Tag(tag::Recipient),
    TagPq(Box<tagpq::Recipient>),
    Ssh(ssh::Recipient),
    Plugin(plugin::Recipient),
}

impl Recipient {
    /// Reads a file of recipients, one per line, like `age -R`: it skips empty lines and lines that
    /// begin with `#`. `-` is standard input. It refuses a file that users other than its owner may
    /// change, or that belongs to another user, unless `unlock` accepts it.
    ///
    /// # Errors
    /// When the file can't be read or is refused, a line is not a recipient, or there are none.
    pub fn read_file(path: &Path, unlock: &dyn Unlock) -> Result<Vec<Recipient>, KeyError> {
        let contents = key_file::read_recipients(path, unlock)?;
        let path = key_file::name_of(path);
        let wrong = |fault| {
            let origin = RecipientOrigin::File(path.to_owned());
            KeyError::Recipient { origin, fault }
        };
        let wrong_line = |line, fault| {
            let origin = RecipientOrigin::Line { path: path.to_owned(), line };
            KeyError::Recipient { origin, fault }
        };
        let text = plain_text(&contents).map_err(|fault| wrong(RecipientFault::NotText(fault)))?;
        let recipients = lines(text)
            .map(|(number, line)| {
                line.ok_or(RecipientFault::NotUtf8).and_then(parse).map_err(|fault| match fault {
                    RecipientFault::Unknown => wrong_line(number, RecipientFault::UnknownLine),
                    fault => wrong_line(number, fault),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if recipients.is_empty() {
            return Err(wrong(RecipientFault::NoneInFile));
        }
        Ok(recipients)
    }

    /// Its encryptor; `None` if it belongs to a plugin.
    pub(super) fn without_plugin(&self) -> Option<&dyn ::age::Recipient> {
        Some(match &self.kind {
            Kind::X25519(recipient) => recipient,
            Kind::Tag(recipient) => recipient,
            Kind::TagPq(recipient) => &**recipient,
            Kind::Ssh(recipient) => recipient,
            Kind::Plugin(_) => return None,
        })
    }

    pub(super) fn of_plugin(&self) -> Option<&plugin::Recipient> {
        match &self.kind {
            Kind::Plugin(recipient) => Some(recipient),
            _ => None,
        }
    }
}

impl From<x25519::Recipient> for Recipient {
    fn from(recipient: x25519::Recipient) -> Recipient {
        Recipient { text: recipient.to_string(), kind: Kind::X25519(recipient) }
    }
}

impl From<ssh::Recipient> for Recipient {
    fn from(recipient: ssh::Recipient) -> Recipient {
        Recipient { text: recipient.to_string(), kind: Kind::Ssh(recipient) }
    }
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse(text.trim())
            .map_err(|fault| KeyError::Recipient { origin: RecipientOrigin::Caller, fault })
    }
}

impl PartialEq for Recipient {
    fn eq(&self, other: &Recipient) -> bool {
        self.text == other.text
    }
}

impl Eq for Recipient {}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.text)
    }
}

/// Reads one recipient. An error names the fault without quoting the recipient.
pub(super) fn parse(text: &str) -> Result<Recipient, RecipientFault> {
    if let Ok(recipient) = text.parse::<x25519::Recipient>() {
        let is_weak = point_of_age(text).is_none_or(is_low_order);
        return if is_weak { Err(RecipientFault::LowOrder) } else { Ok(recipient.into()) };
    }
    if text.starts_with("ssh-") || text.starts_with("ecdsa-") || text.starts_with("sk-") {
        let fault = |error| ssh_fault(error, text);
        let recipient = text.parse::<ssh::Recipient>().map(Recipient::from).map_err(fault)?;
        let is_weak = text.starts_with(SSH_ED25519) && point_of_ssh(text).is_none_or(is_low_order);
        return if is_weak { Err(RecipientFault::LowOrder) } else { Ok(recipient) };
    }
    if let Ok(recipient) = text.parse::<tag::Recipient>() {
        return Ok(Recipient { text: recipient.to_string(), kind: Kind::Tag(recipient) });
    }
    if let Ok(recipient) = text.parse::<tagpq::Recipient>() {
        let text = recipient.to_string();
        return Ok(Recipient { text, kind: Kind::TagPq(Box::new(recipient)) });
    }
    let is_built_in = ["age11", "age1tag1", "age1tagpq1"].iter().any(|kind| text.starts_with(kind));
    if let (false, Ok(recipient)) = (is_built_in, text.parse::<plugin::Recipient>()) {
        return Ok(Recipient { text: recipient.to_string(), kind: Kind::Plugin(recipient) });
    }
    Err(if has_prefix(text, SECRET_KEY_START) {
        RecipientFault::Identity
    } else if has_prefix(text, "AGE-PLUGIN-") {
        RecipientFault::PluginIdentity
    } else if text.starts_with("age1") {
        RecipientFault::Malformed
    } else {
        RecipientFault::Unknown
    })
}

fn ssh_fault(error: ParseRecipientKeyError, text: &str) -> RecipientFault {
    let is_known = text.starts_with(SSH_ED25519) || text.starts_with("ssh-rsa ");
    match error {
        ParseRecipientKeyError::RsaModulusTooSmall => RecipientFault::RsaTooShort,
        ParseRecipientKeyError::RsaModulusTooLarge => RecipientFault::RsaTooLong,
        ParseRecipientKeyError::Unsupported(_) | ParseRecipientKeyError::Ignore if !is_known => {
            RecipientFault::SshKind
        }
        _ => RecipientFault::MalformedSsh,
    }
}

const SSH_ED25519: &str = "ssh-ed25519 ";
