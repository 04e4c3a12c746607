//! Errors of sealing and opening messages.

use evener_core::{Cipher, EngineError, Rejection};

use crate::NonceError;

/// The reason why messages could not be sealed or opened.
///
/// ```
/// # use evener::{Aead, AeadError, Cipher};
/// let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// let mut sealed = [0; 20];
/// let forged = aead.open_in_place(&[0; 12], b"", &mut sealed);
/// assert!(matches!(forged, Err(AeadError::Forged { message: 0, count: 1 })));
/// # Ok::<(), AeadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AeadError {
    /// The cipher has no tag.
    #[error(
        "{cipher} does not authenticate messages; take aes-128-gcm, aes-192-gcm, aes-256-gcm or chacha20-poly1305"
    )]
    NotAuthenticated {
        /// The requested cipher.
        cipher: Cipher,
    },
    /// The list of engines is empty.
    #[error("no engine was given; name at least one")]
    NoEngines,
    /// The engine is not available, lacks the cipher or failed, or the key has the wrong length.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system has no randomness for a key; the text says why.
    #[error("the system gave no random bytes for a key: {0}")]
    Random(String),
    /// There is no nonce for the message.
    #[error(transparent)]
    Nonce(#[from] NonceError),
    /// The lengths of a message do not match, and nothing was done. Or an engine left a message
    /// undone, and the nonces are used up.
    #[error("message {message}: {reason}")]
    Malformed {
        /// The message's number in the batch, from 0.
        message: usize,
        /// The length that is wrong.
        reason: Rejection,
    },
    /// Messages are not authentic: the key, the nonce or the additional data is different, or the
    /// data was changed.
    #[error("authentication failed: {}", which(*.message, *.count))]
    Forged {
        /// The number of the first in the batch, from 0.
        message: usize,
        /// The number of forged messages in the batch.
        count: usize,
    },
}

fn which(message: usize, count: usize) -> String {
    match count {
        1 => format!(
            "message {message}; its key, nonce or additional data is wrong, or it was changed"
        ),
        _ => format!(
            "message {message} and {} others; their key is wrong, or they were changed",
            count - 1
        ),
    }
}
