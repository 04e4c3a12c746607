//! Feeds `evener_fuzz::tree_index` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::tree_index(data));
