//! Texts in a GPU's memory, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use facade::gpu::{DeviceBuffer, Tag};

use super::GpuHandle;
use crate::boundary::sys::{elements, optional_text, text};
use crate::boundary::{enter, enter_or, given, hand_over};
use crate::cipher;
use crate::key::KeyHandle;
use crate::status::{Status, Trouble};

/// Takes AES-GCM (`aes-128-gcm`, `aes-192-gcm`, `aes-256-gcm`) or `chacha20-poly1305`, and its key, for
/// texts that lie in a GPU's memory. The engine's name selects the GPU: `gpu:cuda:0`; NULL for the
/// first. A known text is sealed first and compared with OpenSSL's result. Free it with
/// `evener_gpu_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_gpu_new(
    engine: *const c_char,
    cipher: *const c_char,
    key: Option<&KeyHandle>,
    gpu: Option<&mut MaybeUninit<Option<Box<GpuHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(gpu, || {
            // SAFETY: the header asks the same of the caller, for both.
            let (engine, cipher) =
                unsafe { (optional_text(engine, "engine")?, text(cipher, "cipher")?) };
            GpuHandle::new(engine.unwrap_or("gpu"), cipher::named(cipher)?, given(key, "key")?)
        })
    })
}

/// Encrypts `length` bytes at an address of the GPU's memory in place, and writes the tag, for which
/// `tag_length` must be 16.
/// The text may have up to 64 GiB (ChaCha20-Poly1305: 256 GiB) and is one message.
///
/// `address` is a CUdeviceptr, such as a tensor's data pointer, of the device's primary context. What
/// was queued on `stream`, a CUstream (0 for the default stream), is done first; the call returns
/// when the text is encrypted. Nothing else may use the text meanwhile. Every text of a key needs
/// another nonce, of 12 bytes. After `EVENER_STATUS_ENGINE_FAILED` nothing is known of the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_gpu_seal(
    gpu: Option<&GpuHandle>,
    address: u64,
    length: usize,
    stream: u64,
    nonce: *const u8,
    nonce_length: usize,
    aad: *const u8,
    aad_length: usize,
    tag: *mut u8,
    tag_length: usize,
) -> Status {
    enter(|| {
        let gpu = given(gpu, "gpu")?;
        if tag.is_null() || tag_length != 16 {
            return Err(Trouble::argument(NO_TAG));
        }
        // SAFETY: the header asks the same of the caller, for all three.
        let (nonce, aad, mut text) = unsafe {
            let nonce = self::nonce(nonce, nonce_length)?;
            let aad = elements(aad, aad_length, "aad")?;
            (nonce, aad, DeviceBuffer::new(address, length, stream))
        };
        let made = gpu.seal(nonce, aad, &mut text)?;
        // SAFETY: it is not NULL and has 16 bytes, as the header asks of the caller.
        unsafe { tag.cast::<Tag>().write_unaligned(made) };
        Ok(())
    })
}

/// Checks the tag of 16 bytes, and decrypts a text in place as `evener_gpu_seal` encrypts it. With
/// a wrong tag it returns `EVENER_STATUS_AUTHENTICATION_FAILED`, and the text is as it was: memory
/// never holds plaintext that was not authenticated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_gpu_unseal(
    gpu: Option<&GpuHandle>,
    address: u64,
    length: usize,
    stream: u64,
    nonce: *const u8,
    nonce_length: usize,
    aad: *const u8,
    aad_length: usize,
    tag: *const u8,
    tag_length: usize,
) -> Status {
    enter(|| {
        let gpu = given(gpu, "gpu")?;
        // SAFETY: the header asks the same of the caller, for all four.
        let (nonce, aad, tag, mut text) = unsafe {
            let nonce = self::nonce(nonce, nonce_length)?;
            let aad = elements(aad, aad_length, "aad")?;
            let tag = elements(tag, tag_length, "tag")?;
            (nonce, aad, tag, DeviceBuffer::new(address, length, stream))
        };
        let tag: &Tag = tag.try_into().map_err(|_| Trouble::argument(NO_TAG))?;
        gpu.unseal(nonce, aad, tag, &mut text)
    })
}

/// Wipes the key and frees it. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_gpu_free(gpu: Option<Box<GpuHandle>>) {
    enter_or((), || drop(gpu));
}

/// # Safety
/// As for [`elements`].
unsafe fn nonce(pointer: *const u8, length: usize) -> Result<[u8; 12], Trouble> {
    // SAFETY: as asked of the caller.
    let nonce = unsafe { elements(pointer, length, "nonce") }?;
    nonce.try_into().map_err(|_| Trouble::argument("a nonce has 12 bytes"))
}

const NO_TAG: &str = "a tag has 16 bytes";
