//! Feeds `evener_fuzz::cobblestone` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::cobblestone(data));
