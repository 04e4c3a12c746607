//! Feeds `evener_fuzz::age_payload` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::age_payload(data));
