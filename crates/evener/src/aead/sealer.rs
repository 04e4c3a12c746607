//! A key with the nonces of its messages.

use std::fmt;

use evener_core::{Direction, Iv, Job};

use super::{Aead, Sealing, iv};
use crate::{AeadError, Nonce, NonceSequence};

/// A message with its tag, as [`Sealer::seal_all`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealed {
    /// The nonce, which is no secret.
    pub nonce: [u8; Nonce::LENGTH],
    /// The ciphertext, and the tag behind it.
    pub bytes: Vec<u8>,
}

/// Seals batches of messages with one key, each message with the next nonce of a sequence. The
/// sequence's bound on the number of messages holds over all batches.
///
/// [`Aead::sealer`] makes one.
pub struct Sealer<'a> {
    aead: &'a Aead,
    nonces: NonceSequence,
}

impl Aead {
    /// Binds a sequence of nonces to the key.
    pub fn sealer(&self, nonces: NonceSequence) -> Sealer<'_> {
        Sealer { aead: self, nonces }
    }
}

impl Sealer<'_> {
    /// The nonces that are left.
    pub fn nonces(&self) -> &NonceSequence {
        &self.nonces
    }

    /// Encrypts messages on all engines, without additional data, into new buffers.
    /// [`Sealer::seal_batch`] takes buffers and additional data of the caller's.
    ///
    /// ```
    /// use evener::{Aead, Cipher, NonceSequence};
    ///
    /// let aead = Aead::new(Cipher::Aes256Gcm, &Aead::generate_key(Cipher::Aes256Gcm)?)?;
    /// let mut sealer = aead.sealer(NonceSequence::counter([0; 4]));
    /// let sealed = sealer.seal_all(&["one", "two"])?;
    /// assert_eq!(aead.open_all(&sealed)?, [b"one", b"two"]);
    /// # Ok::<(), evener::AeadError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sealer::seal_batch`].
    pub fn seal_all(&mut self, messages: &[impl AsRef<[u8]>]) -> Result<Vec<Sealed>, AeadError> {
        let length = |message: &dyn AsRef<[u8]>| self.aead.sealed_length(message.as_ref().len());
        let mut buffers: Vec<_> = messages.iter().map(|it| vec![0; length(it)]).collect();
        let pairs = messages.iter().zip(&mut buffers);
        let mut batch: Vec<_> =
            pairs.map(|(message, sealed)| Sealing::new(message.as_ref(), sealed)).collect();
        self.seal_batch(&mut batch)?;
        let nonces: Vec<_> =
            batch.iter().map(|sealing| sealing.nonce.unwrap_or_default()).collect();
        let sealed = nonces.into_iter().zip(buffers);
        Ok(sealed.map(|(nonce, bytes)| Sealed { nonce, bytes }).collect())
    }

    /// Encrypts a batch of messages on all engines.
    ///
    /// # Errors
    /// When a length is wrong or the sequence has too few nonces: nothing is done then. When the
    /// engines failed: the results are undefined, and the nonces are used up.
    pub fn seal_batch(&mut self, batch: &mut [Sealing<'_>]) -> Result<(), AeadError> {
        self.aead.seal_batch(batch, |count| Ok(self.nonces.next_nonces(count)?))
    }
}

impl Aead {
    /// Encrypts a batch of messages. Asks for the nonces only when all lengths are right.
    pub(crate) fn seal_batch(
        &self,
        batch: &mut [Sealing<'_>],
        nonces: impl FnOnce(usize) -> Result<Vec<Nonce>, AeadError>,
    ) -> Result<(), AeadError> {
        let unused = Iv::new(&[0; Nonce::LENGTH]).unwrap_or(Iv::NONE);
        for (message, sealing) in batch.iter_mut().enumerate() {
            let job =
                Job { aad: sealing.aad, ..Job::new(unused, sealing.plaintext, sealing.sealed) };
            job.check(self.cipher, Direction::Encrypt)
                .map_err(|reason| AeadError::Malformed { message, reason })?;
        }
        let nonces = nonces(batch.len())?;
        for (sealing, nonce) in batch.iter_mut().zip(nonces) {
            sealing.nonce = Some(*nonce.bytes());
        }
        let jobs = batch.iter_mut().map(|sealing| {
            let Sealing { plaintext, aad, sealed, nonce } = sealing;
            let nonce = nonce.as_ref().map_or(unused, iv);
            Job { aad, ..Job::new(nonce, plaintext, sealed) }
        });
        let mut jobs: Vec<_> = jobs.collect();
        self.process_batch(Direction::Encrypt, &mut jobs)
    }
}

impl fmt::Debug for Sealer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("aead", &self.aead).field("nonces", &self.nonces).finish()
    }
}
