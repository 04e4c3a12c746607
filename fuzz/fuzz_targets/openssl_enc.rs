//! Feeds `evener_fuzz::openssl_enc` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::openssl_enc(data));
