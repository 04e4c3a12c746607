//! The bare loop: what a careful C program would write over EVP, with nothing around it.

use std::ffi::c_int;
use std::ptr;

use evener_core::{Cipher, Direction, Key};
use foreign_types::ForeignTypeRef;
use openssl::cipher_ctx::CipherCtx;
use openssl_sys as ffi;

pub(crate) struct Bare {
    context: CipherCtx,
    direction: Direction,
    tag_length: usize,
}

impl Bare {
    pub(crate) fn new(cipher: Cipher, direction: Direction, key: &Key) -> Bare {
        let algorithm = openssl::cipher::Cipher::fetch(None, cipher.name(), None).unwrap();
        let mut context = CipherCtx::new().unwrap();
        let iv = [0; 16];
        match direction {
            Direction::Encrypt => {
                context.encrypt_init(Some(&algorithm), Some(key.bytes()), Some(&iv)).unwrap();
            }
            Direction::Decrypt => {
                context.decrypt_init(Some(&algorithm), Some(key.bytes()), Some(&iv)).unwrap();
            }
        }
        // Only where it matters, because from then on it costs something at every start.
        if cipher.block_length() > 1 {
            context.set_padding(false);
        }
        Bare { context, direction, tag_length: cipher.tag_length() }
    }

    /// Processes a message. Panics unless every call into libcrypto succeeds.
    pub(crate) fn message(
        &mut self,
        key: Option<&Key>,
        iv: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) {
        let context = self.context.as_ptr();
        let key = key.map_or(ptr::null(), |key| key.bytes().as_ptr());
        let sealed = self.direction == Direction::Decrypt;
        let length = input.len() - if sealed { self.tag_length } else { 0 };
        assert!(output.len() >= length + if sealed { 0 } else { self.tag_length });
        let mut written: c_int = 0;
        let tag_length = self.tag_length as c_int;
        // SAFETY: keys and IVs have the cipher's length (the caller took them from it), input
        // and output are valid for the lengths given (asserted above), whole blocks where
        // the cipher has blocks, so that without padding no call writes more than it reads.
        unsafe {
            match self.direction {
                Direction::Encrypt => {
                    let status = ffi::EVP_EncryptInit_ex(
                        context,
                        ptr::null(),
                        ptr::null_mut(),
                        key,
                        iv.as_ptr(),
                    );
                    assert_eq!(status, 1);
                    let status = ffi::EVP_EncryptUpdate(
                        context,
                        output.as_mut_ptr(),
                        &mut written,
                        input.as_ptr(),
                        length as c_int,
                    );
                    assert_eq!(status, 1);
                    let end = output.as_mut_ptr().add(length);
                    assert_eq!(ffi::EVP_EncryptFinal_ex(context, end, &mut written), 1);
                    if tag_length > 0 {
                        let status = ffi::EVP_CIPHER_CTX_ctrl(
                            context,
                            ffi::EVP_CTRL_GCM_GET_TAG,
                            tag_length,
                            end.cast(),
                        );
                        assert_eq!(status, 1);
                    }
                }
                Direction::Decrypt => {
                    let status = ffi::EVP_DecryptInit_ex(
                        context,
                        ptr::null(),
                        ptr::null_mut(),
                        key,
                        iv.as_ptr(),
                    );
                    assert_eq!(status, 1);
                    let status = ffi::EVP_DecryptUpdate(
                        context,
                        output.as_mut_ptr(),
                        &mut written,
                        input.as_ptr(),
                        length as c_int,
                    );
                    assert_eq!(status, 1);
                    if tag_length > 0 {
                        let tag = input.as_ptr().add(length).cast_mut();
                        let status = ffi::EVP_CIPHER_CTX_ctrl(
                            context,
                            ffi::EVP_CTRL_GCM_SET_TAG,
                            tag_length,
                            tag.cast(),
                        );
                        assert_eq!(status, 1);
                    }
                    let end = output.as_mut_ptr().add(length);
                    assert_eq!(ffi::EVP_DecryptFinal_ex(context, end, &mut written), 1);
                }
            }
        }
    }
}
