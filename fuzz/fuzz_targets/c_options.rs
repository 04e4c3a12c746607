//! Feeds `evener_fuzz::c_options` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::c_options(data));
