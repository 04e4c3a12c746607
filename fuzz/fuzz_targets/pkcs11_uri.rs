//! Feeds `evener_fuzz::pkcs11_uri` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::pkcs11_uri(data));
