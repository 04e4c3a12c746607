//! Errors of keys.
//!
//! No message quotes the content of a key file, an identity file or a passphrase file, because it
//! may be a secret with a typing mistake.

use std::io;
use std::path::{Path, PathBuf};

use evener_core::{shown, shown_error};

/// Why a key could not be read, made or kept. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The operating system refused.
    #[error("can't {action} `{}`: {}", shown(path), shown_error(cause))]
    Io {
        /// What was being done, as a verb with what the path stands for: `read the key file`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// A key file that is a directory, a pipe or a device.
    #[error(
        "`{}` is not a regular file, as key and identity files must be; write it to a file first",
        shown(path)
    )]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A file with a secret that is not its owner's alone.
    #[error(
        "refusing the secret in `{}`: its group or others may use it (mode {mode:04o}); {}",
        shown(path),
        remedy("run `chmod 600` on it", *.has_mode_of_mount)
    )]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Whether these are the mount's, and can't be changed.
        has_mode_of_mount: bool,
    },
    /// A file with a secret that another user may have made.
    #[error(
        "refusing the secret in `{}`: it belongs to user {owner}, who may have put it there, \
         and this program runs as user {user}; make a copy of your own, or run `chown {user}` on \
         it if you know it",
        shown(path)
    )]
    OfOthers {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// No key file is this long.
    #[error("`{}` has {length} bytes, too many for a key file; check the name", shown(path))]
    TooLong {
        /// The file.
        path: PathBuf,
        /// In bytes.
        length: u64,
    },
    /// The input of a pipe is longer than any key file.
    #[error(
        "`{}` gives more than 1 MiB, too much for a key file; check what writes it",
        shown(path)
    )]
    Endless {
        /// The source that was read.
        path: PathBuf,
    },
    /// A key is not to be typed where it can be read.
    #[error(
        "`{}` is a terminal, which would show the key; redirect it, or give a file",
        shown(path)
    )]
    Terminal {
        /// The source to read.
        path: PathBuf,
    },
    /// The beginning of a pipe is no wrapped key.
    #[error("can't take a key from `{}`: {reason}", shown(path))]
    PipeHead {
        /// The source that was read.
        path: PathBuf,
        /// The fault.
        reason: &'static str,
    },
    /// What is to be decrypted is a file of age, and none that Evener made.
    #[error(
        "`{}` is a file of age itself, which Evener does not read; `age -d -i IDENTITY` opens it, or \
         `age -d` with its passphrase",
        shown(path)
    )]
    OfAge {
        /// The file, or the source that was read.
        path: PathBuf,
    },
    /// A plugin of age is not there, or failed.
    #[error("{reason}")]
    Plugin {
        /// In words.
        reason: String,
    },
    /// The file changed while it was read.
    #[error("`{}` grew while it was read; try again once it is complete", shown(path))]
    Grew {
        /// The file.
        path: PathBuf,
    },
    /// A new key would replace a file.
    #[error(
        "not overwriting `{}` with a new key; choose another name or move it away",
        shown(path)
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file was read and is no usable key.
    #[error("can't use `{}` as a key: {reason}", shown(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: MalformedKey,
    },
    /// The file is encrypted for age recipients, and no identity was given.
    #[error("`{}` is encrypted with age; give an identity that opens it", shown(path))]
    IdentityNeeded {
        /// The file.
        path: PathBuf,
    },
    /// The file is encrypted with a passphrase, and none was given.
    #[error("`{}` is encrypted with a passphrase; give it", shown(path))]
    PassphraseNeeded {
        /// The file.
        path: PathBuf,
    },
    /// The file is encrypted for other recipients.
    #[error("no identity given opens `{}`; give that of one of its recipients", shown(path))]
    WrongIdentity {
        /// The file.
        path: PathBuf,
    },
    /// The passphrase is not the file's.
    #[error(
        "the passphrase does not open `{}`; give the one that it was encrypted with",
        shown(path)
    )]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The file asks for more time and memory than a key file should.
    #[error(
        "`{}` asks for scrypt with 2^{required} rounds, and Evener does at most 2^{limit}; \
         encrypt it anew with `age -p`",
        shown(path)
    )]
    ExcessiveWork {
        /// The file.
        path: PathBuf,
        /// The logarithm of the rounds that it asks for.
        required: u8,
        /// The logarithm of the most rounds that Evener does.
        limit: u8,
    },
    /// There is not the memory that scrypt takes.
    #[error(
        "a passphrase takes {} MiB of memory, which the system does not give; use a key file, or \
         identities and recipients",
        bytes.div_ceil(1 << 20)
    )]
    PassphraseMemory {
        /// What it takes, in bytes.
        bytes: u64,
    },
    /// An age file that age could not have written, or that was changed since.
    #[error("can't open `{}`: {reason}; restore it from a copy", shown(path))]
    DamagedAge {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: &'static str,
    },
    /// A string that is no recipient, or one of a kind that Evener does not know.
    #[error("can't encrypt for {origin}: {reason}")]
    Recipient {
        /// Where it came from, such as a file and line.
        origin: String,
        /// The fault.
        reason: &'static str,
    },
    /// There is no recipient.
    #[error("no recipient given; give at least one")]
    NoRecipients,
    /// The wrapped key would be too long to be read.
    #[error(
        "too many recipients: the wrapped key would have {length} bytes, and no more than 1 MiB is \
         read again; give fewer"
    )]
    TooManyRecipients {
        /// Of the wrapped key, in bytes.
        length: usize,
    },
    /// A file of recipients to which others may add some.
    #[error(
        "refusing the recipients in `{}`: its group or others may change them (mode \
         {mode:04o}); {}",
        shown(path),
        remedy("run `chmod go-w` on it", *.has_mode_of_mount)
    )]
    WritableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Whether these are the mount's, and can't be changed.
        has_mode_of_mount: bool,
    },
    /// A file of recipients that somebody else may have made.
    #[error(
        "refusing the recipients in `{}`: it belongs to user {owner}, who may change them, and \
         this program runs as user {user}; make a copy of your own",
        shown(path)
    )]
    RecipientsOfOthers {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// A file that holds no age identities, or one of a kind that Evener does not know.
    #[error("can't read identities from `{}`: {reason}", shown(path))]
    Identity {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Something that can't be a passphrase.
    #[error("can't use the passphrase from {origin}: {reason}")]
    Passphrase {
        /// Where it came from, such as a file or descriptor.
        origin: String,
        /// The fault.
        reason: String,
    },
    /// age failed to encrypt.
    #[error("age failed to encrypt the key: {0}")]
    Wrap(String),
    /// The random number generator failed.
    #[error("the operating system gave no random bytes for a new key: {0}")]
    Random(String),
}

/// What to do about a file's mode: change it, unless the mount gives all files one.
fn remedy(change: &'static str, has_mode_of_mount: bool) -> &'static str {
    match has_mode_of_mount {
        true => {
            "its file system gives all files this mode, so move it to another, or mount that for \
             yourself alone (umask=077)"
        }
        false => change,
    }
}

impl KeyError {
    /// The file of the error, or what stands for one, such as `standard input`.
    pub fn path(&self) -> Option<&Path> {
        match self {
            KeyError::Io { path, .. }
            | KeyError::NotRegular { path }
            | KeyError::OpenToOthers { path, .. }
            | KeyError::OfOthers { path, .. }
            | KeyError::TooLong { path, .. }
            | KeyError::Endless { path }
            | KeyError::Terminal { path }
            | KeyError::PipeHead { path, .. }
            | KeyError::OfAge { path }
            | KeyError::Grew { path }
            | KeyError::Exists { path }
            | KeyError::Malformed { path, .. }
            | KeyError::IdentityNeeded { path }
            | KeyError::PassphraseNeeded { path }
            | KeyError::WrongIdentity { path }
            | KeyError::WrongPassphrase { path }
            | KeyError::ExcessiveWork { path, .. }
            | KeyError::DamagedAge { path, .. }
            | KeyError::WritableByOthers { path, .. }
            | KeyError::RecipientsOfOthers { path, .. }
            | KeyError::Identity { path, .. } => Some(path),
            KeyError::Plugin { .. }
            | KeyError::Recipient { .. }
            | KeyError::NoRecipients
            | KeyError::TooManyRecipients { .. }
            | KeyError::Passphrase { .. }
            | KeyError::PassphraseMemory { .. }
            | KeyError::Wrap(_)
            | KeyError::Random(_) => None,
        }
    }
}

/// The fault in the text of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedKey {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is no text in UTF-8.
    #[error("{0}")]
    NoText(&'static str),
    /// age encrypted something else, which is no key.
    #[error(
        "what age encrypted in it is no key, and Evener does not read files of age itself; \
         `age -d` does"
    )]
    NoKeyInAge,
    /// It is neither of the texts that Evener knows.
    #[error("it is neither an `evener-key:` line nor a Tink keyset in JSON")]
    Unknown,
    /// It is an age file and has to be opened first.
    #[error("it is encrypted with age; decrypt it first")]
    AgeEncrypted,
    /// It is an age identity, which opens key files and is none.
    #[error("it is an age identity; give it as such")]
    AgeIdentity,
    /// A key line without all of its four parts.
    #[error("the key line is cut short; it reads `evener-key:v1:SUITE:KEY`")]
    CutShort,
    /// Several lines, which joined are no key line.
    #[error(
        "there is more than the key line, or it was wrapped and changed; leave only that, in one line"
    )]
    MoreThanOneLine,
    /// A key line of another version.
    #[error("the key line's version is not `v1`; a newer Evener may read it")]
    Version,
    /// A key line for a suite that Evener does not know.
    #[error("the key line's suite is neither `cobblestone-256` nor `cobblestone-128`")]
    Suite,
    /// The key in a key line is not base64url.
    #[error("the key line's key is not base64url (RFC 4648); it was changed or cut")]
    Encoding,
    /// The key in a key line is not its suite's.
    #[error("the key line's key has {actual} bytes, and its suite takes {expected}")]
    Length {
        /// In bytes.
        expected: usize,
        /// In bytes.
        actual: usize,
    },
    /// Not JSON, or not the JSON of a keyset.
    #[error("it is no Tink keyset: {what} at line {line}, column {column}")]
    Json {
        /// Syntax or content.
        what: &'static str,
        /// From 1.
        line: usize,
        /// From 1; 0 when the line is empty.
        column: usize,
    },
    /// A keyset that a key management service has encrypted.
    #[error(
        "the keyset is encrypted with a key management service; \
         convert it with `tinkey convert-keyset` first"
    )]
    EncryptedKeyset,
    /// The keyset as a whole is not what Tink allows.
    #[error("the keyset {0}")]
    Keyset(&'static str),
    /// A key of the keyset is for something else.
    #[error(
        "key {id} of the keyset is of type {name}, not AesGcmHkdfStreamingKey; \
         make one with `evener keygen`"
    )]
    KeyType {
        /// The key's identifier.
        id: u32,
        /// The type's short name.
        name: String,
    },
    /// A key of the keyset is not what Tink allows.
    #[error("key {id} of the keyset: {reason}")]
    KeysetKey {
        /// The key's identifier.
        id: u32,
        /// The fault.
        reason: &'static str,
    },
}
