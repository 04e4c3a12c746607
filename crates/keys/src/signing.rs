//! Signatures of OpenSSH, for the roots of sealed trees.
//!
//! They are those of `ssh-keygen -Y sign` ([PROTOCOL.sshsig]) in binary, without the armour, in the
//! namespace [`NAMESPACE`]. The key is an [`OwnKey`], which a writer makes for itself, or a
//! [`UserKey`], with which `ssh-keygen` signs.
//!
//! [PROTOCOL.sshsig]: https://cvsweb.openbsd.org/src/usr.bin/ssh/PROTOCOL.sshsig

mod error;
mod own_key;
mod public_key;
mod sshsig;
mod user_key;
mod wire;

pub use error::{PublicKeyFault, SignatureError, SigningError};
pub use own_key::{OwnKey, verify_chain};
pub use public_key::PublicKey;
pub use sshsig::verify;
pub use user_key::UserKey;

pub use crate::dialogue::{Dialogue, NoDialogue};

/// The namespace of the signatures of sealed trees' roots.
pub const NAMESPACE: &str = "evener-tree-v1";
