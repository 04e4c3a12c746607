//! Plugins of age ([C2SP age-plugin](https://c2sp.org/age-plugin)): programs `age-plugin-NAME` in
//! `PATH` that wrap and unwrap keys.

use std::fmt;
use std::sync::Arc;

use ::age::Callbacks;
use ::age::plugin::{IdentityPluginV1, RecipientPluginV1, ResolveError};
use ::age::secrecy::SecretString;

use super::{Dialogue, Identity, Recipient};
use crate::KeyError;
use crate::faults::PluginFault;

/// A dialogue in the age crate's form.
#[derive(Clone)]
pub(super) struct Spoken(Arc<dyn Dialogue>);

impl Callbacks for Spoken {
    fn display_message(&self, message: &str) {
        self.0.tell(message);
    }

    fn confirm(&self, message: &str, yes_string: &str, no_string: Option<&str>) -> Option<bool> {
        self.0.confirm(message, yes_string, no_string)
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        self.0.ask(description, false).map(|answer| answer.to_string())
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        self.0.ask(description, true).map(|answer| SecretString::from(answer.as_str()))
    }
}

/// Encryptors for the plugins' recipients, one per plugin.
pub(super) fn recipients(
    recipients: &[Recipient],
    dialogue: &Arc<dyn Dialogue>,
) -> Result<Vec<RecipientPluginV1<Spoken>>, KeyError> {
    let own: Vec<_> = recipients.iter().filter_map(Recipient::of_plugin).cloned().collect();
    names(own.iter().map(|recipient| recipient.plugin()))
        .into_iter()
        .map(|name| RecipientPluginV1::new(name, &own, &[], Spoken(dialogue.clone())))
        .collect::<Result<_, _>>()
        .map_err(|error| not_found(&error))
}

/// Decryptors with the plugins' identities, one per plugin.
pub(super) fn identities(
    identities: &[Identity],
    dialogue: &Arc<dyn Dialogue>,
) -> Result<Vec<IdentityPluginV1<Spoken>>, KeyError> {
    let own: Vec<_> = identities.iter().filter_map(Identity::of_plugin).cloned().collect();
    names(own.iter().map(|identity| identity.plugin()))
        .into_iter()
        .map(|name| IdentityPluginV1::new(name, &own, Spoken(dialogue.clone())))
        .collect::<Result<_, _>>()
        .map_err(|error| not_found(&error))
}

/// The error with the plugins' messages; without any, plugins ended early or broke the protocol.
pub(super) fn failed<E: fmt::Display>(errors: &[E]) -> KeyError {
    let messages: Vec<_> =
        errors.iter().map(|error| error.to_string().replace('\n', " ")).collect();
    KeyError::Plugin(match messages.is_empty() {
        true => PluginFault::Ended,
        false => PluginFault::Failed { messages: messages.join("; ") },
    })
}

fn not_found(error: &ResolveError) -> KeyError {
    KeyError::Plugin(match error {
        ResolveError::MissingPlugin { binary_name } => {
            PluginFault::Missing { program: binary_name.clone() }
        }
        _ => PluginFault::Name,
    })
}

/// Each name once, in the order of first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
