//! Feeds `evener_fuzz::ssh_signature` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::ssh_signature(data));
