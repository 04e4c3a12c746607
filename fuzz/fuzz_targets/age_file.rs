//! Feeds `evener_fuzz::age_file` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::age_file(data));
