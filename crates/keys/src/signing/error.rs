//! Errors of signatures and of the keys that make them.

use std::io;
use std::path::PathBuf;

use evener_core::{shown, shown_error, shown_text};

use crate::KeyError;

/// The reason why a public key can't verify signatures of roots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyFault {
    /// It can't be read.
    #[error("it is no public key of OpenSSH (`ssh-ed25519 AAAA…`), or was changed or cut")]
    Malformed,
    /// It is of a kind whose signatures Evener can't check.
    #[error(
        "Evener checks no signatures of {} keys, only of ed25519, ecdsa-sha2-nistp256 and their \
         variants for security keys (sk-…); `ssh-keygen -t ed25519` makes one",
        shown_text(.0)
    )]
    Kind(String),
    /// Its line in a file of allowed signers has an option with this name.
    #[error(
        "Evener can't honour the option `{}`; of the options of allowed signers, it knows namespaces",
        shown_text(.0)
    )]
    Option(String),
    /// Anybody can make signatures that match it.
    #[error("it is a point of low order, for which anybody could sign; have a proper key made")]
    LowOrder,
}

/// The reason why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// It can't be read.
    #[error("it is no SSH signature, or was changed or cut")]
    Malformed,
    /// It was made for another purpose.
    #[error("it was made for another purpose than a sealed tree, in another namespace")]
    Namespace,
    /// Its key can't be taken.
    #[error("its key can't be taken: {0}")]
    Key(#[from] PublicKeyFault),
    /// It is of other data, or it or its key was changed.
    #[error("it does not match the data, so one of them was changed")]
    Mismatch,
    /// Nobody had to touch the security key.
    #[error("it was made without a touch of the security key, as malware could")]
    NotTouched,
}

/// The reason why a key can't sign. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// A key's file can't be read or made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file does not hold what [`OwnKey::store`](super::OwnKey::store) wrote.
    #[error("`{}` holds no signing key, or was changed; restore it from a copy", shown(path))]
    NotOwn {
        /// The file.
        path: PathBuf,
    },
    /// The public key can't be taken.
    #[error("can't sign with the key in `{}`: {fault}", shown(path))]
    PublicKey {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: PublicKeyFault,
    },
    /// OpenSSH is not installed.
    #[error(
        "can't sign with `{}`: there is no program `ssh-keygen` in PATH; install OpenSSH's client \
         (Debian: openssh-client)",
        shown(path)
    )]
    Missing {
        /// The key's file.
        path: PathBuf,
    },
    /// The operating system did not start `ssh-keygen`, or did not pass on its output.
    #[error("can't sign with `{}`: ssh-keygen: {}", shown(path), shown_error(cause))]
    Io {
        /// The key's file.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// `ssh-keygen` failed.
    #[error("can't sign with `{}`: ssh-keygen says: {}", shown(path), shown_text(message))]
    Failed {
        /// The key's file.
        path: PathBuf,
        /// The last line of what it said, or its status.
        message: String,
    },
    /// `ssh-keygen` made a signature that does not count.
    #[error("can't sign with `{}`: of the signature that ssh-keygen made: {cause}", shown(path))]
    Unusable {
        /// The key's file.
        path: PathBuf,
        /// The reason.
        cause: SignatureError,
    },
    /// `ssh-keygen` signed with another key.
    #[error(
        "can't sign with `{}`: the public key beside it is of another key; \
         `ssh-keygen -y` writes the right one",
        shown(path)
    )]
    OtherKey {
        /// The key's file.
        path: PathBuf,
    },
}
