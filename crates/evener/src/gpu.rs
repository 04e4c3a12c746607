//! Seals and opens data in place in a GPU's memory.
//!
//! A tensor or a checkpoint crosses the bus as ciphertext, and the processor never sees it. A text
//! is one message of AES-GCM (up to 64 GiB) or ChaCha20-Poly1305 (up to 256 GiB) with one tag; any
//! implementation of the cipher can open it.

use evener_core::{Cipher, EngineError, Iv, Key};
use evener_gpu::resident::Resident;
pub use evener_gpu::resident::{DeviceBuffer, Tag};

use crate::{AeadError, Nonce};

/// AES-GCM or ChaCha20-Poly1305 with its key, for texts in a GPU's memory. Any number of threads
/// may use it at once.
///
/// ```no_run
/// use evener::gpu::{DeviceAead, DeviceBuffer};
/// use evener::{Aead, Cipher, NonceSequence};
///
/// # let (address, length, stream) = (0, 0, 0);
/// let key = Aead::generate_key(Cipher::Aes256Gcm)?;
/// let aead = DeviceAead::new("gpu", Cipher::Aes256Gcm, &key)?;
/// let mut nonces = NonceSequence::counter([0; 4]);
///
/// // SAFETY: the tensor lives until the end, and nobody else uses it.
/// let mut tensor = unsafe { DeviceBuffer::new(address, length, stream) };
/// let (nonce, tag) = aead.seal(nonces.next_nonce()?, b"layer 7", &mut tensor)?;
/// aead.open(&nonce, b"layer 7", &tag, &mut tensor)?;
/// # Ok::<(), evener::AeadError>(())
/// ```
pub struct DeviceAead(Resident);

impl DeviceAead {
    /// Takes AES-GCM or ChaCha20-Poly1305 and its key, for the GPU that an engine's name stands
    /// for: `gpu`, or `gpu:cuda:0`. The memory must belong to that GPU. A known text is sealed
    /// first and compared with OpenSSL's result.
    ///
    /// # Errors
    /// When there is no such GPU, the cipher is another one, or the key's length is not the cipher's.
    pub fn new(engine: &str, cipher: Cipher, key: &Key) -> Result<DeviceAead, AeadError> {
        let reference = evener_engines::find("openssl")?;
        Ok(DeviceAead(Resident::open(engine, cipher, key, reference)?))
    }

    /// Encrypts a text in place, after the work queued on its stream, and waits until that is done.
    /// Returns the nonce's bytes and the tag, for the receiver. `aad` is authenticated and not
    /// encrypted.
    ///
    /// # Errors
    /// When the text is too long for the cipher; the text is unchanged then. When the GPU failed,
    /// the state of the text is unknown: parts of it may be encrypted. The nonce is used up.
    pub fn seal(
        &self,
        nonce: Nonce,
        aad: &[u8],
        text: &mut DeviceBuffer,
    ) -> Result<([u8; Nonce::LENGTH], Tag), AeadError> {
        let tag = self.0.seal(&iv(nonce.bytes())?, aad, text)?;
        Ok((*nonce.bytes(), tag))
    }

    /// Decrypts a text in place, after the work queued on its stream, and waits until that is done.
    ///
    /// The tag is checked before anything is decrypted, so memory never holds plaintext that was
    /// not authenticated.
    ///
    /// # Errors
    /// [`AeadError::Forged`] if the text is not authentic; the text is unchanged then. When the GPU
    /// failed, the state of the text is unknown.
    pub fn open(
        &self,
        nonce: &[u8; Nonce::LENGTH],
        aad: &[u8],
        tag: &Tag,
        text: &mut DeviceBuffer,
    ) -> Result<(), AeadError> {
        let opened = self.0.unseal(&iv(nonce)?, aad, tag, text)?;
        opened.map_err(|_| AeadError::Forged { message: 0, count: 1 })
    }
}

impl std::fmt::Debug for DeviceAead {
    /// Prints no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceAead").finish_non_exhaustive()
    }
}

fn iv(nonce: &[u8; Nonce::LENGTH]) -> Result<Iv, EngineError> {
    Iv::new(nonce).map_err(|_| EngineError::failed("a nonce is no IV").of("gpu"))
}
