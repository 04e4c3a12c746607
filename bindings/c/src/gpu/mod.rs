//! Texts in a GPU's memory.

pub(crate) mod sys;

use facade::gpu::{DeviceAead, DeviceBuffer, Tag};
use facade::{AeadError, Cipher, hazmat};

use crate::key::KeyHandle;
use crate::status::{Status, Trouble};

/// AES-GCM or ChaCha20-Poly1305 with a key, for texts in a GPU's memory. Several threads may use it at once.
pub struct GpuHandle(DeviceAead);

impl GpuHandle {
    pub(crate) fn new(engine: &str, cipher: Cipher, key: &KeyHandle) -> Result<GpuHandle, Trouble> {
        Ok(GpuHandle(DeviceAead::new(engine, cipher, &key.key).map_err(trouble)?))
    }

    pub(crate) fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut DeviceBuffer,
    ) -> Result<Tag, Trouble> {
        let sealed = self.0.seal(hazmat::nonce(nonce), aad, text).map_err(trouble)?;
        Ok(sealed.1)
    }

    pub(crate) fn unseal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        tag: &Tag,
        text: &mut DeviceBuffer,
    ) -> Result<(), Trouble> {
        self.0.open(&nonce, aad, tag, text).map_err(trouble)
    }
}

fn trouble(error: AeadError) -> Trouble {
    match error {
        AeadError::Engine(error) => error.into(),
        AeadError::Forged { .. } => {
            Trouble::new(Status::AuthenticationFailed, "authentication failed")
        }
        error => Trouble::new(Status::EngineFailed, error.to_string()),
    }
}
