//! The headers of age files, which the age crate writes and reads. It shows neither a header's file
//! key nor the payload's, so a recipient and an identity of our own around the crate's note the
//! file key that passes through them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ::age::secrecy::{ExposeSecret, SecretString};
use ::age::{DecryptError, Decryptor, EncryptError, Encryptor, scrypt};
use age_core::format::{FileKey, Stanza};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use evener_core::IgnorePoison;
use evener_format::{Age, AgeFileKey, AgeHeaders, FormatError, Recipe};
use hkdf::Hkdf;
use hkdf::hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::header::{AgeFile, parse};
use super::{
    Dialogue, Identity, NoDialogue, Recipient, WORK_FACTOR, WORK_FACTOR_LIMIT, encryption_error,
    has_memory_for, memory_lacks, plugin, work_factor_in_memory,
};
use crate::faults::AgeDamage;
use crate::{Guess, KeyError, Passphrase, Unlock, recognise};

/// Writes the headers of age files for recipients or a passphrase, and opens those that identities
/// or a passphrase open. [`FileHeaders::recipe`] makes age a format of its own.
pub struct FileHeaders {
    audience: Audience,
    identities: Vec<Identity>,
    passphrase: Option<Passphrase>,
    dialogue: Arc<dyn Dialogue>,
    longest: usize,
    /// The first header, which was made to see whether the recipients go together.
    first: Mutex<Option<(AgeFileKey, Vec<u8>)>>,
    /// Only one thread at a time takes scrypt's memory, or starts plugins.
    one_at_a_time: Mutex<()>,
    /// Only one thread at a time takes the memory of a long header's parts.
    one_long: Mutex<()>,
    /// The number of further files that the passphrase is tried on although it does not open them.
    refusals_left: AtomicU32,
}

/// Those for whom files are encrypted.
enum Audience {
    Nobody,
    Recipients(Vec<Recipient>),
    Passphrase(Passphrase),
}

impl FileHeaders {
    /// Opens files with these identities and this passphrase, and encrypts for nobody.
    pub fn opened_by(identities: Vec<Identity>, passphrase: Option<Passphrase>) -> FileHeaders {
        FileHeaders {
            audience: Audience::Nobody,
            identities,
            passphrase,
            dialogue: Arc::new(NoDialogue),
            longest: 0,
            first: Mutex::default(),
            one_at_a_time: Mutex::default(),
            one_long: Mutex::default(),
            refusals_left: AtomicU32::new(u32::MAX),
        }
    }

    /// Tries the passphrase on no further file after it has not opened this many. Each of them can
    /// take 10 s and 1 GiB.
    #[must_use]
    pub fn giving_up_after(self, refusals: u32) -> FileHeaders {
        FileHeaders { refusals_left: AtomicU32::new(refusals), ..self }
    }

    /// Has plugins speak with the user.
    #[must_use]
    pub fn speaking(self, dialogue: Arc<dyn Dialogue>) -> FileHeaders {
        FileHeaders { dialogue, ..self }
    }

    /// Encrypts for these recipients.
    ///
    /// # Errors
    /// [`KeyError::NoRecipients`], [`KeyError::Plugin`], and [`KeyError::Wrap`] when recipients do
    /// not go together.
    pub fn for_recipients(self, recipients: Vec<Recipient>) -> Result<FileHeaders, KeyError> {
        if recipients.is_empty() {
            return Err(KeyError::NoRecipients);
        }
        self.for_audience(Audience::Recipients(recipients))
    }

    /// Encrypts with this passphrase, as [`wrap_with_passphrase`](super::wrap_with_passphrase) does.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when the passphrase can't be used, and
    /// [`KeyError::PassphraseMemory`].
    pub fn for_passphrase(self, passphrase: Passphrase) -> Result<FileHeaders, KeyError> {
        self.for_audience(Audience::Passphrase(passphrase))
    }

    /// age as a format, with these headers.
    pub fn recipe(self) -> Recipe {
        Recipe::age(self)
    }

    /// The header of an age file for this value's recipients or passphrase, in the place of one that
    /// its identities or its passphrase open. The file key stays, and everything behind the header.
    ///
    /// # Errors
    /// When nothing opens the header, or a recipient can't be used.
    pub fn rewrap(&self, header: &[u8]) -> Result<Vec<u8>, FormatError> {
        let file_key = self.open(header)?;
        let written = self.write_with(Some(&file_key));
        let (_, mut header) = written.map_err(|error| FormatError::Age(error.to_string()))?;
        authenticate(&mut header, &file_key)?;
        Ok(header)
    }

    fn for_audience(self, audience: Audience) -> Result<FileHeaders, KeyError> {
        let headers = FileHeaders { audience, ..self };
        let first = headers.write()?;
        let longest = first.1.len() + GREASE;
        if longest > evener_format::Age::LONGEST_HEADER {
            return Err(KeyError::TooManyRecipients { length: longest });
        }
        Ok(FileHeaders { longest, first: Mutex::new(Some(first)), ..headers })
    }

    fn write(&self) -> Result<(AgeFileKey, Vec<u8>), KeyError> {
        self.write_with(None)
    }

    /// Writes a header that wraps this file key, or a fresh one. Its last line is that of a fresh one.
    fn write_with(&self, file_key: Option<&AgeFileKey>) -> Result<(AgeFileKey, Vec<u8>), KeyError> {
        match &self.audience {
            Audience::Nobody => Err(KeyError::NoRecipients),
            Audience::Recipients(recipients) => {
                let plugins = plugin::recipients(recipients, &self.dialogue)?;
                let own = recipients.iter().filter_map(Recipient::without_plugin);
                let plugins = plugins.iter().map(|plugin| plugin as &dyn ::age::Recipient);
                write_for(own.chain(plugins), file_key)
            }
            Audience::Passphrase(passphrase) => {
                let _alone = self.one_at_a_time.lock().ignore_poison();
                if !has_memory_for(WORK_FACTOR) {
                    return Err(memory_lacks(WORK_FACTOR));
                }
                let text = SecretString::from(passphrase.for_new()?);
                let mut recipient = scrypt::Recipient::new(text);
                recipient.set_work_factor(WORK_FACTOR);
                write_for(std::iter::once(&recipient as &dyn ::age::Recipient), file_key)
            }
        }
    }

    /// Opens a header with a passphrase, in each reading of it.
    fn open_with_passphrase(&self, header: &[u8]) -> Result<AgeFileKey, FormatError> {
        let _alone = self.one_at_a_time.lock().ignore_poison();
        let refusals_left = self.refusals_left.load(Ordering::Relaxed);
        if refusals_left == 0 {
            return Err(FormatError::Age(NOT_TRIED.to_owned()));
        }
        let limit = work_factor_in_memory();
        let texts = self.passphrase.as_ref().and_then(|passphrase| passphrase.for_existing().ok());
        let texts = texts.ok_or(FormatError::OtherRecipients)?;
        for text in texts {
            let mut identity = scrypt::Identity::new(SecretString::from(text));
            identity.set_max_work_factor(limit);
            let identity = &identity as &dyn ::age::Identity;
            match open_with(header, std::iter::once(identity)) {
                Err(DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed) => {}
                other => return other.map_err(|error| fault(&error)),
            }
        }
        self.refusals_left.store(refusals_left - 1, Ordering::Relaxed);
        Err(FormatError::WrongPassphrase)
    }

    /// Opens a header with the identities, plugins' last: they may ask for a touch, or take a long
    /// time.
    fn open_with_identities(&self, header: &[u8]) -> Result<AgeFileKey, FormatError> {
        let own = self.identities.iter().filter_map(Identity::without_plugin);
        match open_with(header, own) {
            Err(DecryptError::NoMatchingKeys) => {}
            // An identity's own key failed, not the file key that it wrapped.
            Err(DecryptError::DecryptionFailed) => return Err(fault(&DecryptError::InvalidMac)),
            other => return other.map_err(|error| fault(&error)),
        }
        let _alone = self.one_at_a_time.lock().ignore_poison();
        let plugins = plugin::identities(&self.identities, &self.dialogue)
            .map_err(|error| FormatError::Age(error.to_string()))?;
        let plugins = plugins.iter().map(|plugin| plugin as &dyn ::age::Identity);
        open_with(header, plugins).map_err(|error| match error {
            DecryptError::Io(_) | DecryptError::DecryptionFailed => {
                fault(&DecryptError::Plugin(Vec::new()))
            }
            error => fault(&error),
        })
    }
}

impl AgeHeaders for FileHeaders {
    fn create(&self) -> Result<(AgeFileKey, Vec<u8>), FormatError> {
        if let Some(first) = self.first.lock().ignore_poison().take() {
            return Ok(first);
        }
        self.write().map_err(|error| FormatError::Age(error.to_string()))
    }

    fn open(&self, header: &[u8]) -> Result<AgeFileKey, FormatError> {
        let is_long = header.len() > LONG;
        let _alone = is_long.then(|| self.one_long.lock().ignore_poison());
        let is_scrypt = read(header).map_err(|error| fault(&error))?.is_scrypt();
        match (is_scrypt, &self.passphrase) {
            (false, Some(_)) if self.identities.is_empty() => Err(FormatError::IdentityNeeded),
            (false, _) => self.open_with_identities(header),
            (true, None) => Err(FormatError::PassphraseNeeded),
            (true, Some(_)) => self.open_with_passphrase(header),
        }
    }

    fn open_any(&self) -> bool {
        !self.identities.is_empty() || self.passphrase.is_some()
    }

    fn holds_key(&self, file: &[u8]) -> bool {
        // It counts the tries of a passphrase.
        let opens = |length| self.open(&file[..length]).is_ok();
        if !Age::header_length(file).is_none_or(opens) {
            return false;
        }
        let _alone = self.one_at_a_time.lock().ignore_poison();
        super::unwrap(file, Path::new(""), self).is_ok_and(|text| recognise(&text) == Guess::Key)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn for_one_file(&self) -> Option<&'static str> {
        match &self.audience {
            Audience::Passphrase(_) => Some(SLOW_PASSPHRASE),
            Audience::Recipients(recipients) => {
                let mut plugins = recipients.iter().filter_map(Recipient::of_plugin);
                plugins.next().map(|_| SLOW_PLUGIN)
            }
            Audience::Nobody => None,
        }
    }
}

impl Unlock for FileHeaders {
    fn identities(&self) -> &[Identity] {
        &self.identities
    }

    fn passphrase(&self, _: &Path) -> Result<Option<Passphrase>, KeyError> {
        Ok(self.passphrase.clone())
    }

    fn dialogue(&self) -> Arc<dyn Dialogue> {
        self.dialogue.clone()
    }
}

impl fmt::Debug for FileHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FileHeaders");
        if let Audience::Recipients(recipients) = &self.audience {
            shown.field("recipients", recipients);
        }
        shown.field("identities", &self.identities).finish_non_exhaustive()
    }
}

/// A file key on its way between the age crate and those who wrap or unwrap it.
#[derive(Default)]
struct Noted(RefCell<Option<AgeFileKey>>);

impl Noted {
    fn note(&self, file_key: &FileKey) {
        *self.0.borrow_mut() = Some(Zeroizing::new(*file_key.expose_secret()));
    }

    fn take(self) -> Option<AgeFileKey> {
        self.0.into_inner()
    }
}

/// A recipient that notes the file key, which the crate gives to each recipient, or has another one
/// in its place.
struct NotingRecipient<'a>(&'a dyn ::age::Recipient, &'a Noted, Option<&'a AgeFileKey>);

impl ::age::Recipient for NotingRecipient<'_> {
    fn wrap_file_key(
        &self,
        file_key: &FileKey,
    ) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        let own = self.2.map(|own| FileKey::init_with_mut(|key| key.copy_from_slice(&own[..])));
        let file_key = own.as_ref().unwrap_or(file_key);
        self.1.note(file_key);
        self.0.wrap_file_key(file_key)
    }
}

/// An identity that notes the file key that it has unwrapped.
struct NotingIdentity<'a>(&'a dyn ::age::Identity, &'a Noted);

impl ::age::Identity for NotingIdentity<'_> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        let unwrapped = self.0.unwrap_stanza(stanza)?;
        Some(unwrapped.inspect(|file_key| self.1.note(file_key)))
    }

    fn unwrap_stanzas(&self, stanzas: &[Stanza]) -> Option<Result<FileKey, DecryptError>> {
        let unwrapped = self.0.unwrap_stanzas(stanzas)?;
        Some(unwrapped.inspect(|file_key| self.1.note(file_key)))
    }
}

/// A file key, fresh unless it is given, and its header without the nonce that the crate writes
/// behind it.
fn write_for<'a>(
    recipients: impl Iterator<Item = &'a dyn ::age::Recipient>,
    file_key: Option<&AgeFileKey>,
) -> Result<(AgeFileKey, Vec<u8>), KeyError> {
    let noted = Noted::default();
    let recipients: Vec<_> =
        recipients.map(|recipient| NotingRecipient(recipient, &noted, file_key)).collect();
    let recipients = recipients.iter().map(|recipient| recipient as &dyn ::age::Recipient);
    let encryptor = Encryptor::with_recipients(recipients).map_err(encryption_error)?;
    let mut header = Vec::new();
    let written = encryptor.wrap_output(&mut header).map(drop);
    written.map_err(|error| encryption_error(EncryptError::Io(error)))?;
    header.truncate(header.len().saturating_sub(NONCE_LENGTH));
    Ok((noted.take().ok_or(KeyError::NoRecipients)?, header))
}

/// Replaces the authentication code in a header's last line by that of a file key:
/// `HMAC-SHA-256(HKDF-SHA-256(file key, info = "header"), header up to "---")`.
fn authenticate(header: &mut Vec<u8>, file_key: &AgeFileKey) -> Result<(), FormatError> {
    let failed = || FormatError::Age(AgeDamage::Header.to_string());
    let last = header.windows(LAST_LINE.len()).rposition(|line| line == LAST_LINE);
    header.truncate(last.ok_or_else(failed)? + LAST_LINE.len());
    let mut key = Zeroizing::new([0; 32]);
    let expanded = Hkdf::<Sha256>::new(None, &file_key[..]).expand(b"header", &mut key[..]);
    expanded.map_err(|_| failed())?;
    let mut code = Hmac::<Sha256>::new_from_slice(&key[..]).map_err(|_| failed())?;
    code.update(header);
    header.push(b' ');
    header.extend_from_slice(STANDARD_NO_PAD.encode(code.finalize().into_bytes()).as_bytes());
    header.push(b'\n');
    Ok(())
}

/// The file key of a header that one of the identities opens, after the crate has checked the
/// header's authentication code with it.
fn open_with<'a>(
    header: &[u8],
    identities: impl Iterator<Item = &'a dyn ::age::Identity>,
) -> Result<AgeFileKey, DecryptError> {
    let noted = Noted::default();
    let identities: Vec<_> = identities.map(|identity| NotingIdentity(identity, &noted)).collect();
    let identities = identities.iter().map(|identity| identity as &dyn ::age::Identity);
    read(header)?.decrypt(identities)?;
    noted.take().ok_or(DecryptError::NoMatchingKeys)
}

/// Reads a header. The crate also wants the nonce behind it, which only the payload's key needs.
fn read(header: &[u8]) -> Result<Decryptor<AgeFile>, DecryptError> {
    let file = [header, &[0; NONCE_LENGTH]].concat();
    parse(file).map_err(|error| match error {
        // The crate takes a malformed header for one of another version.
        DecryptError::UnknownFormat if header.starts_with(b"age-encryption.org/v1\n") => {
            DecryptError::InvalidHeader
        }
        error => error,
    })
}

/// Uses Evener's own messages, as for wrapped keys.
fn fault(error: &DecryptError) -> FormatError {
    FormatError::Age(match error {
        DecryptError::NoMatchingKeys => return FormatError::OtherRecipients,
        DecryptError::InvalidMac => AgeDamage::HeaderChanged.to_string(),
        DecryptError::UnknownFormat => AgeDamage::Version.to_string(),
        DecryptError::ExcessiveWork { required, .. } if *required > WORK_FACTOR_LIMIT => format!(
            "its passphrase takes 2^{required} rounds of scrypt, and at most 2^{WORK_FACTOR_LIMIT} \
             are accepted"
        ),
        DecryptError::ExcessiveWork { required, .. } => memory_lacks(*required).to_string(),
        DecryptError::Plugin(errors) => plugin::failed(errors).to_string(),
        _ => AgeDamage::Header.to_string(),
    })
}

const SLOW_PASSPHRASE: &str = "age would take a second for the passphrase of each file; encrypt the \
     tree to a recipient, or with a passphrase in another format, whose one key the passphrase wraps";
const SLOW_PLUGIN: &str = "age would start the recipient's plugin for each file; encrypt the tree to \
     a recipient without a plugin, or in another format, whose one key the plugin wraps";

const NOT_TRIED: &str = "the passphrase was not tried on it, because it did not open other files; \
     decrypt it on its own";

/// The beginning of the line that ends a header.
const LAST_LINE: &[u8] = b"\n---";

const NONCE_LENGTH: usize = 16;

/// The length of a header that has hundreds of recipients, in bytes.
const LONG: usize = 64 << 10;

/// More than the bytes by which a header of the crate can be longer than another for the same
/// recipients: it adds a stanza of random length that nobody opens.
const GREASE: usize = 256;

#[cfg(test)]
mod tests;
