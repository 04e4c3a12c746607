//! Texts in a GPU's memory, on PoCL. PoCL shares no memory with other contexts, so only the text
//! that is sealed first is compared with OpenSSL's here; `evener-gpu` tests more texts.

use evener::engines::EngineError;
use evener::gpu::DeviceAead;
use evener::{Aead, AeadError, Cipher};

#[test]
fn the_first_text_is_sealed_as_openssl_seals_it() {
    let ciphers =
        [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
    for cipher in ciphers {
        let key = Aead::generate_key(cipher).unwrap();
        match DeviceAead::new("gpu:opencl:pocl", cipher, &key) {
            Ok(_) => {}
            Err(AeadError::Engine(EngineError::Unavailable { reason, .. })) => {
                return evener_core::lacking!("{reason} (Debian: pocl-opencl-icd)");
            }
            Err(error) => panic!("{cipher}: {error}"),
        }
        let other = Aead::generate_key(Cipher::Aes128Gcm).unwrap();
        let refused = DeviceAead::new("gpu:opencl:pocl", Cipher::Aes128Ctr, &other);
        assert!(matches!(refused, Err(AeadError::Engine(EngineError::NotOffered { .. }))));
    }
}
