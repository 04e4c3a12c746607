//! Errors of keys.
//!
//! No message quotes the content of a key file, an identity file or a passphrase file, because it
//! may be a mistyped secret.

use std::io;
use std::path::{Path, PathBuf};

use evener_core::{shown, shown_error};

use crate::faults::{
    AgeDamage, IdentityFault, PassphraseFault, PipeHeadFault, PluginFault, RecipientFault,
    RecipientOrigin, WrapFault,
};
use crate::malformed::MalformedKey;

/// The reason why a key could not be read, created or stored. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The operating system refused.
    #[error("can't {action} `{}`: {}", shown(path), shown_error(cause))]
    Io {
        /// The failed action, as a verb with the role of the path: `read the key file`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// A key file that is a directory, a pipe or a device.
    #[error(
        "can't take a key or identity from `{}`: it is a directory, a device or a named pipe; give a \
         regular file, or a pipe as standard input",
        shown(path)
    )]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A file with a secret that users other than its owner may access.
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
        /// True if the mount sets these bits, so they can't be changed.
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
        /// The file's owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The file is longer than any key file.
    #[error("`{}` has {length} bytes, too many for a key file; check the name", shown(path))]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
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
    /// The source is a terminal, where a typed key would be visible.
    #[error(
        "`{}` is a terminal, which would show the key; redirect it, or give a file",
        shown(path)
    )]
    Terminal {
        /// The source to read.
        path: PathBuf,
    },
    /// The beginning of a pipe is not a wrapped key.
    #[error("can't take a key from `{}`: {fault}", shown(path))]
    PipeHead {
        /// The source that was read.
        path: PathBuf,
        /// The fault.
        fault: PipeHeadFault,
    },
    /// The file to decrypt is age's own, and nothing that opens it was given.
    #[error(
        "`{}` is an age file; give an identity of one of its recipients, or its passphrase",
        shown(path)
    )]
    OfAge {
        /// The file, or the source that was read.
        path: PathBuf,
    },
    /// The file needs age, which is not in this build.
    #[error(
        "`{}` takes age, which this build of Evener is without; build it with the feature `age`",
        shown(path)
    )]
    NeedsAge {
        /// The file.
        path: PathBuf,
    },
    /// The key is to be wrapped, and age is not in this build.
    #[error(
        "recipients and passphrases of keys take age, which this build of Evener is without; build \
         it with the feature `age`"
    )]
    NoAge,
    /// An age plugin is missing, or failed.
    #[error(transparent)]
    Plugin(PluginFault),
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
    /// The file was read but is not a usable key.
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
    /// The passphrase does not open the file.
    #[error(
        "the passphrase does not open `{}`; give the one that it was encrypted with",
        shown(path)
    )]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The file requires more time and memory than a key file should.
    #[error(
        "`{}` asks for scrypt with 2^{required} rounds, and Evener does at most 2^{limit}; \
         encrypt it anew with `age -p`",
        shown(path)
    )]
    ExcessiveWork {
        /// The file.
        path: PathBuf,
        /// The logarithm of the rounds that the file requires.
        required: u8,
        /// The logarithm of the maximum number of rounds that Evener accepts.
        limit: u8,
    },
    /// The system lacks the memory that scrypt needs.
    #[error(
        "a passphrase takes {} MiB of memory, which the system does not give; use a key file, or \
         identities and recipients",
        bytes.div_ceil(1 << 20)
    )]
    PassphraseMemory {
        /// The memory that scrypt needs, in bytes.
        bytes: u64,
    },
    /// An age file that age could not have written, or that was changed later.
    #[error("can't open `{}`: {damage}; restore it from a copy", shown(path))]
    DamagedAge {
        /// The file.
        path: PathBuf,
        /// The fault.
        damage: AgeDamage,
    },
    /// A string that is not a recipient, or is a recipient of an unsupported type.
    #[error("can't encrypt for {origin}: {fault}")]
    Recipient {
        /// Its source.
        origin: RecipientOrigin,
        /// The fault.
        fault: RecipientFault,
    },
    /// There are no recipients.
    #[error("no recipient given; give at least one")]
    NoRecipients,
    /// The wrapped key would be too long to read back.
    #[error(
        "too many recipients: the header would have {length} bytes, and no more than 1 MiB is read \
         again; give fewer"
    )]
    TooManyRecipients {
        /// The length of the wrapped key, in bytes.
        length: usize,
    },
    /// A file of recipients to which other users may add some.
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
        /// True if the mount sets these bits, so they can't be changed.
        has_mode_of_mount: bool,
    },
    /// A file of recipients that another user may have made.
    #[error(
        "refusing the recipients in `{}`: it belongs to user {owner}, who may change them, and \
         this program runs as user {user}; make a copy of your own",
        shown(path)
    )]
    RecipientsOfOthers {
        /// The file.
        path: PathBuf,
        /// The file's owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// A file without age identities, or with an identity of an unsupported type.
    #[error("can't read identities from `{}`: {}{fault}", shown(path), in_line(*.line))]
    Identity {
        /// The file.
        path: PathBuf,
        /// The number of the line with the fault, from 1; `None` if it is the file's.
        line: Option<usize>,
        /// The fault.
        fault: IdentityFault,
    },
    /// A text that can't be a passphrase.
    #[error("can't use the passphrase from {origin}: {fault}")]
    Passphrase {
        /// The name of its source, such as a file or descriptor.
        origin: String,
        /// The fault.
        fault: PassphraseFault,
    },
    /// age failed to encrypt.
    #[error("age failed to encrypt the key: {0}")]
    Wrap(WrapFault),
    /// The random number generator failed.
    #[error("the operating system gave no random bytes for a new key: {}", shown_error(.0))]
    Random(io::Error),
}

/// The advice about a file's mode: change it, unless the mount gives all files one mode.
fn remedy(change: &'static str, has_mode_of_mount: bool) -> &'static str {
    match has_mode_of_mount {
        true => {
            "its file system gives all files this mode, so move it to another, or mount that for \
             yourself alone (umask=077)"
        }
        false => change,
    }
}

fn in_line(number: Option<usize>) -> String {
    number.map_or_else(String::new, |number| format!("line {number}: "))
}

impl KeyError {
    /// The file of the error, or the name of another source, such as `standard input`.
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
            | KeyError::NeedsAge { path }
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
            KeyError::Recipient { origin, .. } => origin.path(),
            KeyError::Plugin(_)
            | KeyError::NoAge
            | KeyError::NoRecipients
            | KeyError::TooManyRecipients { .. }
            | KeyError::Passphrase { .. }
            | KeyError::PassphraseMemory { .. }
            | KeyError::Wrap(_)
            | KeyError::Random(_) => None,
        }
    }
}
