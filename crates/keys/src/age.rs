//! Key files encrypted with age ([C2SP age](https://c2sp.org/age)), for recipients or with a
//! passphrase, so that `age -d` shows the key.
//!
//! Recipients are age's own (`age1…`), SSH keys, and plugins' recipients (`age-plugin-NAME` in
//! `PATH`).

mod header;
mod headers;
mod identity;
mod low_order;
mod plugin;
mod recipient;

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ::age::armor::{ArmoredReadError, ArmoredReader};
use ::age::secrecy::SecretString;
use ::age::{DecryptError, EncryptError, Encryptor, scrypt};
use zeroize::Zeroizing;

use super::faults::{AgeDamage, WrapFault};
use super::{KeyError, Passphrase, Unlock, key_file};
use header::{count_stanzas, read_header};

pub use super::age_text::{is_armoured, is_encrypted};
pub use super::dialogue::{Dialogue, NoDialogue};
pub use headers::FileHeaders;
pub use identity::Identity;
pub use recipient::Recipient;

/// Reads an age file in ASCII armour as if it were binary.
pub fn unarmoured<'a>(armoured: Box<dyn Read + 'a>) -> Box<dyn Read + 'a> {
    Box::new(ArmoredReader::new(armoured))
}

/// Returns whether these are the bytes of an age file encrypted with a passphrase.
pub(super) fn has_passphrase(bytes: &[u8]) -> bool {
    read_header(bytes).is_ok_and(|decryptor| decryptor.is_scrypt())
}

/// The number of means that open an age file, as its header shows; `None` if it has none.
pub(super) fn recipients(bytes: &[u8]) -> Option<usize> {
    count_stanzas(bytes)
}

/// Encrypts a key's text for recipients, each of whom can open it alone. The result is a binary age
/// file.
///
/// # Errors
/// [`KeyError::NoRecipients`] when there are no recipients, [`KeyError::TooManyRecipients`], and
/// [`KeyError::Plugin`].
pub fn wrap(text: &[u8], recipients: &[Recipient]) -> Result<Vec<u8>, KeyError> {
    wrap_with(text, recipients, Arc::new(NoDialogue))
}

/// As [`wrap`], with a dialogue for plugins.
///
/// # Errors
/// As [`wrap`].
pub fn wrap_with(
    text: &[u8],
    recipients: &[Recipient],
    dialogue: Arc<dyn Dialogue>,
) -> Result<Vec<u8>, KeyError> {
    if recipients.is_empty() {
        return Err(KeyError::NoRecipients);
    }
    let plugins = plugin::recipients(recipients, &dialogue)?;
    let own = recipients.iter().filter_map(Recipient::without_plugin);
    encrypt(text, own.chain(plugins.iter().map(|plugin| plugin as &dyn ::age::Recipient)))
}

/// Encrypts a key's text with a passphrase. The result is a binary age file. Takes about a second
/// and 256 MiB, like `age -p`, so that guessing passphrases is slow.
///
/// # Errors
/// [`KeyError::Passphrase`] when the passphrase is not UTF-8, or is a file's line that holds only
/// blanks.
pub fn wrap_with_passphrase(text: &[u8], passphrase: &Passphrase) -> Result<Vec<u8>, KeyError> {
    wrap_with_work_factor(text, passphrase, WORK_FACTOR)
}

/// Decrypts an age file read from `path`, with the passphrase or one of the identities that
/// `unlock` supplies.
///
/// # Errors
/// When nothing that `unlock` supplies opens the file, or the file is damaged.
pub fn unwrap(
    bytes: &[u8],
    path: &Path,
    unlock: &dyn Unlock,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let path_buf = || path.to_owned();
    let refused = |error| decryption_error(error, path);
    let decryptor = read_header(bytes).map_err(refused)?;
    let reader = if decryptor.is_scrypt() {
        let limit = work_factor_in_memory();
        Ok(try_passphrase(path, unlock, |text| {
            let mut identity = scrypt::Identity::new(text);
            identity.set_max_work_factor(limit);
            read_header(bytes)?.decrypt(std::iter::once(&identity as &dyn ::age::Identity))
        })?)
    } else {
        let identities = unlock.identities();
        if identities.is_empty() {
            return Err(KeyError::IdentityNeeded { path: path_buf() });
        }
        // Try plugins last: they may ask for a touch, or take a long time.
        let own = identities.iter().filter_map(Identity::without_plugin);
        match decryptor.decrypt(own) {
            Err(DecryptError::NoMatchingKeys) => {
                let plugins = plugin::identities(identities, &unlock.dialogue())?;
                if plugins.is_empty() {
                    return Err(refused(DecryptError::NoMatchingKeys));
                }
                // The first decryptor is used up.
                let decryptor = read_header(bytes).map_err(refused)?;
                let plugins = plugins.iter().map(|plugin| plugin as &dyn ::age::Identity);
                decryptor.decrypt(plugins).map_err(|error| match error {
                    DecryptError::Io(_) | DecryptError::DecryptionFailed => {
                        DecryptError::Plugin(Vec::new())
                    }
                    error => error,
                })
            }
            // An identity's own key failed, not the file key that it wrapped.
            Err(DecryptError::DecryptionFailed) => Err(DecryptError::InvalidMac),
            other => other,
        }
    };
    // The text is never longer than the ciphertext: growth would leave copies of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(bytes.len()));
    reader
        .map_err(refused)?
        .read_to_end(&mut text)
        .map_err(|error| decryption_error(DecryptError::Io(error), path))?;
    Ok(text)
}

/// Opens a secret with the passphrase that `unlock` supplies, in each reading of it.
fn try_passphrase<T>(
    path: &Path,
    unlock: &dyn Unlock,
    mut open: impl FnMut(SecretString) -> Result<T, DecryptError>,
) -> Result<T, KeyError> {
    let passphrase = unlock
        .passphrase(path)?
        .ok_or_else(|| KeyError::PassphraseNeeded { path: path.to_owned() })?;
    for text in passphrase.for_existing()? {
        match open(SecretString::from(text)) {
            Err(DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed) => {}
            other => return other.map_err(|error| decryption_error(error, path)),
        }
    }
    Err(KeyError::WrongPassphrase { path: path.to_owned() })
}

fn wrap_with_work_factor(
    text: &[u8],
    passphrase: &Passphrase,
    work_factor: u8,
) -> Result<Vec<u8>, KeyError> {
    if !has_memory_for(work_factor) {
        return Err(memory_lacks(work_factor));
    }
    let mut recipient = scrypt::Recipient::new(SecretString::from(passphrase.for_new()?));
    recipient.set_work_factor(work_factor);
    encrypt(text, std::iter::once(&recipient as &dyn ::age::Recipient))
}

fn encrypt<'a>(
    text: &[u8],
    recipients: impl Iterator<Item = &'a dyn ::age::Recipient>,
) -> Result<Vec<u8>, KeyError> {
    let failed = |error: io::Error| KeyError::Wrap(WrapFault::Age(error.to_string()));
    let encryptor = Encryptor::with_recipients(recipients).map_err(encryption_error)?;
    let mut writer = encryptor.wrap_output(Vec::new()).map_err(failed)?;
    writer.write_all(text).map_err(failed)?;
    let wrapped = writer.finish().map_err(failed)?;
    match wrapped.len() {
        // Evener refuses to read longer files back.
        length if length > key_file::LONGEST => Err(KeyError::TooManyRecipients { length }),
        _ => Ok(wrapped),
    }
}

/// Uses Evener's own messages: age's span several lines.
fn encryption_error(error: EncryptError) -> KeyError {
    match error {
        EncryptError::Plugin(errors) => plugin::failed(&errors),
        // Before the key is wrapped, only plugins read or write.
        EncryptError::Io(_) => plugin::failed::<String>(&[]),
        EncryptError::IncompatibleRecipients { .. } => KeyError::Wrap(WrapFault::MixedRecipients),
        error => KeyError::Wrap(WrapFault::Age(error.to_string().replace('\n', " "))),
    }
}

/// Uses Evener's own messages: age's message for [`DecryptError::ExcessiveWork`] computes a
/// difference that overflows on a fast machine.
fn decryption_error(error: DecryptError, path: &Path) -> KeyError {
    let path = path.to_owned();
    let damaged = |path, damage| KeyError::DamagedAge { path, damage };
    match error {
        DecryptError::NoMatchingKeys => KeyError::WrongIdentity { path },
        DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed => {
            KeyError::WrongPassphrase { path }
        }
        DecryptError::ExcessiveWork { required, .. } if required > WORK_FACTOR_LIMIT => {
            KeyError::ExcessiveWork { path, required, limit: WORK_FACTOR_LIMIT }
        }
        DecryptError::ExcessiveWork { required, .. } => memory_lacks(required),
        DecryptError::Plugin(errors) => plugin::failed(&errors),
        DecryptError::InvalidHeader => damaged(path, AgeDamage::Header),
        DecryptError::InvalidMac => damaged(path, AgeDamage::HeaderChanged),
        DecryptError::Io(error) if is_of_armour(&error) => damaged(path, AgeDamage::Armour),
        DecryptError::UnknownFormat => damaged(path, AgeDamage::Version),
        _ => damaged(path, AgeDamage::Content),
    }
}

/// Returns whether reading ASCII armour failed.
fn is_of_armour(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<ArmoredReadError>())
}

/// Returns whether the system supplies scrypt's memory; without it the process would end.
fn has_memory_for(work_factor: u8) -> bool {
    let bytes = usize::try_from(scrypt_bytes(work_factor));
    bytes.is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// The maximum number of rounds that fit in memory, as a logarithm, within the limit.
fn work_factor_in_memory() -> u8 {
    let fits = (1..=WORK_FACTOR_LIMIT).rev().find(|&work_factor| has_memory_for(work_factor));
    fits.unwrap_or(1)
}

fn memory_lacks(work_factor: u8) -> KeyError {
    KeyError::PassphraseMemory { bytes: scrypt_bytes(work_factor) }
}

/// The memory of scrypt with age's block size of 8, in bytes (RFC 7914).
fn scrypt_bytes(work_factor: u8) -> u64 {
    1 << (work_factor + 10)
}

/// The logarithm of scrypt's rounds when encrypting, as in `age -p`: 256 MiB, about a second.
const WORK_FACTOR: u8 = 18;

/// The logarithm of the maximum number of scrypt rounds when decrypting: 1 GiB, some seconds. The
/// file sets its number of rounds, so without a limit it could demand all memory.
const WORK_FACTOR_LIMIT: u8 = 20;

#[cfg(test)]
mod tests;
