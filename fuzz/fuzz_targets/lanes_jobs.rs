//! Feeds `evener_fuzz::lanes_jobs` with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evener_fuzz::lanes_jobs(data));
