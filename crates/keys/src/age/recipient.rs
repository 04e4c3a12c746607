//! Recipients, for whom data is encrypted.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ::age::ssh::ParseRecipientKeyError;
use ::age::{plugin, ssh, tag, tagpq, x25519};
use evener_core::shown;

use super::super::{KeyError, Unlock, key_file, plain_text};
use super::low_order::{is_low_order, point_of_age, point_of_ssh};
use super::{NOT_TEXT, SECRET_KEY_START, has_prefix, lines};

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
        let wrong = |line, reason| KeyError::Recipient {
            origin: format!("line {line} of `{}`", shown(path)),
            reason,
        };
        let text = plain_text(&contents).map_err(|reason| KeyError::Recipient {
            origin: format!("those in `{}`", shown(path)),
            reason,
        })?;
        let recipients = lines(text)
            .map(|(number, line)| {
                let line = line.ok_or_else(|| wrong(number, NOT_TEXT))?;
                parse(line).map_err(|reason| match reason {
                    NO_RECIPIENT => wrong(number, NO_RECIPIENT_IN_LINE),
                    reason => wrong(number, reason),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if recipients.is_empty() {
            let origin = format!("`{}`", shown(path));
            return Err(KeyError::Recipient { origin, reason: "it holds no recipients" });
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
        parse(text.trim()).map_err(|reason| KeyError::Recipient {
            // The text may be an identity given by mistake, which must not be shown.
            origin: "the recipient given".to_owned(),
            reason,
        })
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
pub(super) fn parse(text: &str) -> Result<Recipient, &'static str> {
    if let Ok(recipient) = text.parse::<x25519::Recipient>() {
        let is_weak = point_of_age(text).is_none_or(is_low_order);
        return if is_weak { Err(LOW_ORDER) } else { Ok(recipient.into()) };
    }
    if text.starts_with("ssh-") || text.starts_with("ecdsa-") || text.starts_with("sk-") {
        let words = |error| ssh_words(error, text);
        let recipient = text.parse::<ssh::Recipient>().map(Recipient::from).map_err(words)?;
        let is_weak = text.starts_with(SSH_ED25519) && point_of_ssh(text).is_none_or(is_low_order);
        return if is_weak { Err(LOW_ORDER) } else { Ok(recipient) };
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
        "this is an identity, which is secret; `age-keygen -y` shows its recipient"
    } else if has_prefix(text, "AGE-PLUGIN-") {
        "this is a plugin's identity; its file or the plugin tells its recipient (`age1…`)"
    } else if text.starts_with("age1") {
        "it is mistyped or wrapped, or of a kind other than X25519 (`age1` and 58 characters)"
    } else {
        NO_RECIPIENT
    })
}

fn ssh_words(error: ParseRecipientKeyError, text: &str) -> &'static str {
    let is_known = text.starts_with(SSH_ED25519) || text.starts_with("ssh-rsa ");
    match error {
        ParseRecipientKeyError::RsaModulusTooSmall => {
            "an RSA key of less than 2048 bits is too weak; have a longer one made"
        }
        ParseRecipientKeyError::RsaModulusTooLarge => {
            "an RSA key of more than 4096 bits is not supported; have an ssh-ed25519 key made"
        }
        ParseRecipientKeyError::Unsupported(_) | ParseRecipientKeyError::Ignore if !is_known => {
            "of SSH keys only ssh-ed25519 and ssh-rsa can be encrypted for; give one of those, or \
             an age recipient"
        }
        _ => "the SSH key is mistyped, cut short or wrapped; give a line of a `.pub` file",
    }
}

const SSH_ED25519: &str = "ssh-ed25519 ";

const NO_RECIPIENT: &str = "it is no age recipient (`age1` and 58 characters)";

const NO_RECIPIENT_IN_LINE: &str = "it is no age recipient (`age1` and 58 characters), perhaps the \
     end of a wrapped line";

const LOW_ORDER: &str =
    "it is a point of low order, for which anybody could open the key; have a proper one made";
