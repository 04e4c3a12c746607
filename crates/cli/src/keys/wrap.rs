//! Wrapping fresh keys with age.

use evener::keys::age::{self, Recipient};
use evener::keys::{KeyMaterial, Passphrase, Unlock};
use evener::sealed_trees::audience;

use super::Keyholder;
use crate::options::Recipients;
use crate::trouble::Trouble;

/// The means that open a fresh key.
pub(crate) enum Wrapping {
    Recipients(Vec<Recipient>),
    /// The passphrase that the options name.
    Passphrase,
}

/// The means that open a fresh key, according to the options; `None` if they name none.
pub(crate) fn wrapping(
    options: &Recipients,
    keyholder: &Keyholder<'_>,
) -> Result<Option<Wrapping>, Trouble> {
    let mut recipients = Vec::new();
    for (text, number) in options.recipients.iter().zip(1..) {
        let parsed: Result<Recipient, _> = text.parse();
        recipients.push(parsed.map_err(|error| match options.recipients.len() {
            1 => Trouble::from(error),
            // Its text may be an identity, which is secret.
            _ => Trouble::Usage(format!("--recipient number {number}: {error}")),
        })?);
    }
    for path in &options.recipient_files {
        recipients.extend(Recipient::read_file(path, keyholder)?);
    }
    // A passphrase that opens an identity is not also that of a new key.
    let has_passphrase = keyholder.has_passphrase() && !keyholder.opens_identities();
    match (recipients.is_empty(), has_passphrase) {
        (true, false) => Ok(None),
        (true, true) => Ok(Some(Wrapping::Passphrase)),
        (false, false) => Ok(Some(Wrapping::Recipients(recipients))),
        (false, true) => {
            Err(Trouble::usage("either --recipient or --passphrase: age does not take both"))
        }
    }
}

impl Wrapping {
    /// A word that stands for the means that open the key: the same recipients in any order give
    /// the same word.
    pub(crate) fn audience(&self) -> String {
        match self {
            Wrapping::Recipients(recipients) => audience(recipients),
            Wrapping::Passphrase => audience(&[]),
        }
    }

    /// The key's text as an age file.
    pub(crate) fn wrap(
        &self,
        material: &KeyMaterial,
        keyholder: &Keyholder<'_>,
    ) -> Result<Vec<u8>, Trouble> {
        let text = material.to_text();
        match self {
            Wrapping::Recipients(recipients) => {
                Ok(age::wrap_with(text.as_bytes(), recipients, keyholder.dialogue())?)
            }
            Wrapping::Passphrase => {
                let passphrase = required(keyholder.new_passphrase("the new key")?)?;
                let wrapped = age::wrap_with_passphrase(text.as_bytes(), &passphrase)?;
                keyholder.warn_of_oddities(&passphrase, false);
                Ok(wrapped)
            }
        }
    }
}

/// Returns the passphrase, or an error if an option promised one and there is none.
pub(super) fn required(passphrase: Option<Passphrase>) -> Result<Passphrase, Trouble> {
    passphrase.ok_or_else(|| Trouble::usage("no passphrase: give --passphrase"))
}

#[cfg(all(test, feature = "age"))]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_a_set_of_recipients() {
        let [one, other] = [(); 2].map(|()| age::Identity::generate().recipient().unwrap());
        let audience = |recipients: &[&Recipient]| {
            Wrapping::Recipients(recipients.iter().copied().cloned().collect()).audience()
        };
        assert_eq!(audience(&[&one, &other]), audience(&[&other, &one, &other]));
        assert_ne!(audience(&[&one, &other]), audience(&[&one]));
        assert_ne!(audience(&[&one]), Wrapping::Passphrase.audience());
    }
}
