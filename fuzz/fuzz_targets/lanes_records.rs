//! Feeds `evener_fuzz::lanes_records` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::lanes_records(data));
