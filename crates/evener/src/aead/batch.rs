//! Batches of messages, and the sharing of a batch among several engines.

use std::fmt;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, EngineError, Job, Key, Outcome};
use evener_pipeline::{PolicyName, RunOptions, run_batch};

use crate::Nonce;
use crate::seats::seats;

/// A message to be sealed in a batch.
///
/// ```
/// # use evener::{Aead, AeadError, Cipher, NonceSequence, Sealing};
/// # let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// let mut sealed = [0; 5 + 16];
/// let mut batch = [Sealing::new(b"hello", &mut sealed).aad(b"greeting")];
/// aead.sealer(NonceSequence::random()).seal_batch(&mut batch)?;
/// assert!(batch[0].nonce().is_some());
/// # Ok::<(), AeadError>(())
/// ```
pub struct Sealing<'m> {
    pub(super) plaintext: &'m [u8],
    pub(super) aad: &'m [u8],
    pub(super) sealed: &'m mut [u8],
    pub(super) nonce: Option<[u8; Nonce::LENGTH]>,
}

impl<'m> Sealing<'m> {
    /// A message without additional data. `sealed` has at least
    /// [`Aead::sealed_length`](crate::Aead::sealed_length) bytes and receives the ciphertext, with
    /// the tag at its end.
    pub fn new(plaintext: &'m [u8], sealed: &'m mut [u8]) -> Sealing<'m> {
        Sealing { plaintext, aad: &[], sealed, nonce: None }
    }

    /// Sets the additional data, which is authenticated and not part of the result.
    #[must_use]
    pub fn aad(self, aad: &'m [u8]) -> Sealing<'m> {
        Sealing { aad, ..self }
    }

    /// The nonce that the message was sealed with, for its receiver; `None` before.
    pub fn nonce(&self) -> Option<&[u8; Nonce::LENGTH]> {
        self.nonce.as_ref()
    }
}

impl fmt::Debug for Sealing<'_> {
    /// Prints lengths, not content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing")
            .field("length", &self.plaintext.len())
            .field("nonce", &self.nonce)
            .finish_non_exhaustive()
    }
}

/// A message to be opened in a batch.
///
/// ```
/// # use evener::{Aead, AeadError, Cipher, NonceSequence, Opening};
/// # let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// # let mut sealed = b"hello".to_vec();
/// # let nonce = NonceSequence::random().next_nonce()?;
/// # let nonce = aead.seal_in_place_append_tag(nonce, b"greeting", &mut sealed)?;
/// let mut plaintext = [0; 5];
/// let mut batch = [Opening::new(&nonce, &sealed, &mut plaintext).aad(b"greeting")];
/// aead.open_batch(&mut batch)?;
/// assert!(batch[0].is_authentic());
/// assert_eq!(&plaintext, b"hello");
/// # Ok::<(), AeadError>(())
/// ```
pub struct Opening<'m> {
    pub(super) nonce: [u8; Nonce::LENGTH],
    pub(super) sealed: &'m [u8],
    pub(super) aad: &'m [u8],
    pub(super) plaintext: &'m mut [u8],
    pub(super) is_authentic: bool,
}

impl<'m> Opening<'m> {
    /// A message without additional data, as it was sealed. `plaintext` has at least the length of
    /// `sealed` minus the tag's 16 bytes.
    pub fn new(
        nonce: &[u8; Nonce::LENGTH],
        sealed: &'m [u8],
        plaintext: &'m mut [u8],
    ) -> Opening<'m> {
        Opening { nonce: *nonce, sealed, aad: &[], plaintext, is_authentic: false }
    }

    /// Sets the additional data with which the message was sealed.
    #[must_use]
    pub fn aad(self, aad: &'m [u8]) -> Opening<'m> {
        Opening { aad, ..self }
    }

    /// Returns whether the message was opened and is authentic. Otherwise there is no plaintext.
    pub fn is_authentic(&self) -> bool {
        self.is_authentic
    }
}

impl fmt::Debug for Opening<'_> {
    /// Prints lengths, not content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("length", &self.sealed.len())
            .field("nonce", &self.nonce)
            .field("is_authentic", &self.is_authentic)
            .finish_non_exhaustive()
    }
}

/// Shares a batch among several engines, each job with `key`. Jobs that no engine could process
/// stay pending.
///
/// # Errors
/// The last engine's failure, when jobs are left.
pub(super) fn share(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    key: &Key,
    jobs: &mut [Job<'_>],
) -> Result<(), EngineError> {
    let workers = seats(engines, cipher, direction, None);
    let policy = PolicyName::usual(workers.iter().map(|engine| engine.description().kind));
    // All tasks of a batch are in the queue before the first worker starts.
    let options = RunOptions::new(policy, cipher, direction, 1);
    let failure = run_batch(&workers, &options, jobs, &|| false);
    if jobs.iter().all(|job| job.outcome != Outcome::Pending) {
        return Ok(());
    }
    let reference = evener_engines::find(crate::Evener::REFERENCE_ENGINE)?;
    if reference.offer(cipher, direction).is_none() {
        return Err(failure.unwrap_or(
            EngineError::not_offered(cipher, direction).of(&reference.description().name),
        ));
    }
    let request = evener_core::SessionRequest { cipher, direction, key: Some(key) };
    reference.open(&request)?.process(jobs)
}
