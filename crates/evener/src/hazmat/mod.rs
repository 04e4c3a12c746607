//! Raw modes: no authentication, and IVs that the caller chooses.
//!
//! Everything here is easy to misuse. An IV that repeats under a key reveals plaintext (CTR, CBC)
//! or lets anyone forge messages (GCM); a changed message goes unnoticed (ECB, CBC, CTR); equal
//! blocks of plaintext look equal (ECB). Take [`Aead`] for messages and
//! [`Evener`](crate::Evener) for files, unless a format or a device prescribes one of these modes.
//!
//! | type | for |
//! |---|---|
//! | [`ParallelCipher`] | one buffer on all cores, without a copy: ECB, CBC and CTR |
//! | [`RecordCipher`] | many short messages of one length in one buffer: every cipher |
//! | [`nonce`], [`seal_batch`] | [`Nonce`]s of the caller's bytes, for protocols that prescribe nonces |

mod parallel;
mod records;

pub use parallel::{BufferError, ParallelCipher};
pub use records::{RecordCipher, RecordError};

pub use evener_core::{Iv, Padding, RecordLayout};

use crate::{Aead, AeadError, Nonce, NonceError, Sealing};

/// A nonce of the caller's bytes, for protocols that prescribe them: a packet's number, a hash of
/// its place.
///
/// The caller guarantees that no two messages under one key have the same nonce. A repeated nonce
/// reveals the difference between both plaintexts and, with GCM, the key of all tags.
///
/// ```
/// use evener::hazmat::nonce;
/// use evener::{Aead, Cipher, Key};
///
/// let key = Key::new(&[7; 16]).unwrap(); // (A real key is random.)
/// let aead = Aead::new(Cipher::Aes128Gcm, &key)?;
/// // RFC 8446, section 5.3: the record's number, XORed with the connection's IV.
/// let (iv, record) = ([3; 12], 5_u64);
/// let mut bytes: [u8; 12] = iv;
/// bytes[4..].iter_mut().zip(record.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
///
/// let mut data = b"a record".to_vec();
/// aead.seal_in_place_append_tag(nonce(bytes), b"", &mut data)?;
/// # Ok::<(), evener::AeadError>(())
/// ```
pub fn nonce(bytes: [u8; Nonce::LENGTH]) -> Nonce {
    Nonce::of(bytes)
}

/// Seals a batch of messages with the caller's [nonces](nonce()), one for each, as
/// [`Sealer::seal_batch`](crate::Sealer::seal_batch) does with nonces of a sequence.
///
/// ```
/// use evener::hazmat::{nonce, seal_batch};
/// use evener::{Aead, Cipher, Sealing};
///
/// let aead = Aead::new(Cipher::Aes128Gcm, &Aead::generate_key(Cipher::Aes128Gcm)?)?;
/// let (mut first, mut second) = ([0; 16 + 3], [0; 16 + 3]);
/// let mut batch = [Sealing::new(b"one", &mut first), Sealing::new(b"two", &mut second)];
/// assert!(seal_batch(&aead, vec![nonce([1; 12])], &mut batch).is_err());
/// seal_batch(&aead, vec![nonce([1; 12]), nonce([2; 12])], &mut batch)?;
/// assert_eq!(batch[1].nonce(), Some(&[2; 12]));
/// assert_eq!(aead.open_in_place(&[2; 12], b"", &mut second)?, b"two");
/// # Ok::<(), evener::AeadError>(())
/// ```
///
/// # Errors
/// As [`Sealer::seal_batch`](crate::Sealer::seal_batch). With too few nonces, the error is that of
/// an exhausted sequence.
pub fn seal_batch(
    aead: &Aead,
    nonces: Vec<Nonce>,
    batch: &mut [Sealing<'_>],
) -> Result<(), AeadError> {
    aead.seal_batch(batch, |count| match nonces.len() >= count {
        true => Ok(nonces),
        false => Err(NonceError::Exhausted.into()),
    })
}
