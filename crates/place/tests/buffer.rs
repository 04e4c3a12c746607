//! Tests whole files in memory.

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;

use common::{bytes, every_key_ring, options, process};
use evener_pipeline::Pool;
use evener_place::{Operation, RunSettings, buffer};

#[test]
fn what_is_sealed_in_memory_is_a_file_in_every_format() {
    is_a_file_in_every_format(&options().run);
}

#[test]
fn a_pool_seals_the_same() {
    let pool = Some(Arc::new(Pool::new(NonZeroUsize::new(2).unwrap())));
    is_a_file_in_every_format(&RunSettings { pool, ..options().run });
}

fn is_a_file_in_every_format(run: &RunSettings) {
    let home = tempfile::tempdir().unwrap();
    for (name, keys) in every_key_ring() {
        for size in [0, 1, 16_384, 65_536, 700_001] {
            let content = bytes(size);
            let length = buffer::sealed_length(&keys, size as u64).unwrap() as usize;
            let mut sealed = vec![0; length];
            let written = buffer::seal(&keys, &content, &mut sealed, run).unwrap();
            // The age crate adds a stanza of random length to each header.
            let is_age = name == "age";
            assert!(written == length || is_age && written < length, "{name}: {size}");
            sealed.truncate(written);

            let mut opened = vec![0; length];
            let written = buffer::open(&keys, &sealed, &mut opened, run).unwrap();
            assert!(opened[..written] == content, "{name}: {size}");

            let mut buffer = content.clone();
            buffer.resize(length, 0);
            let written = buffer::seal_in_place(&keys, &mut buffer, size, run).unwrap();
            let written = buffer::open_in_place(&keys, &mut buffer[..written], run);
            assert!(buffer[..written.unwrap()] == content, "{name}: {size}");

            let (file, plain) = (home.path().join("sealed"), home.path().join("plain"));
            fs::write(&file, &sealed).unwrap();
            let _ = fs::remove_file(&plain);
            let report =
                process(Operation::Decrypt, &keys, &file, Some(&plain), &options()).unwrap();
            assert!(report.is_success(), "{name}: {size}: {:?}", report.failures);
            assert!(fs::read(&plain).unwrap() == content, "{name}: {size}");
        }
    }
}

#[test]
fn a_file_that_was_cut_opens_nowhere() {
    for (name, keys) in every_key_ring() {
        let run = &options().run;
        let content = bytes(40);
        let mut sealed = vec![0; buffer::sealed_length(&keys, 40).unwrap() as usize];
        let length = buffer::seal(&keys, &content, &mut sealed, run).unwrap();
        for cut in 0..length {
            let mut opened = vec![0; length];
            let apart = buffer::open(&keys, &sealed[..cut], &mut opened, run);
            let in_place = buffer::open_in_place(&keys, &mut sealed[..cut].to_vec(), run);
            assert_eq!(apart.is_ok(), in_place.is_ok(), "{name}: {cut}");
            // Formats without tags can't tell.
            let is_authenticated = keys.primary().cipher().is_authenticated();
            assert!(in_place.is_err() || !is_authenticated, "{name}: {cut}");
        }
    }
}

#[test]
fn nothing_unauthenticated_is_left() {
    for (name, keys) in every_key_ring() {
        if keys.primary().cipher().tag_length() == 0 {
            continue;
        }
        let content = bytes(500_000);
        let mut sealed = vec![0; buffer::sealed_length(&keys, 500_000).unwrap() as usize];
        buffer::seal(&keys, &content, &mut sealed, &options().run).unwrap();
        let mut opened = vec![7; sealed.len()];
        sealed[300_000] ^= 1;
        assert!(buffer::open(&keys, &sealed, &mut opened, &options().run).is_err(), "{name}");
        assert!(opened.iter().all(|&byte| byte == 0 || byte == 7), "{name}");
        assert!(opened[..490_000].iter().all(|&byte| byte == 0), "{name}");
        sealed[300_000] ^= 1;
        let cut = &sealed[..sealed.len() - 20];
        assert!(buffer::open(&keys, cut, &mut opened, &options().run).is_err(), "{name}");
        assert!(buffer::open(&keys, &[], &mut opened, &options().run).is_err(), "{name}");
        let short = &mut opened[..499_999];
        assert!(buffer::open(&keys, &sealed, short, &options().run).is_err(), "{name}");
        let short = &mut sealed[..500_000];
        assert!(buffer::seal(&keys, &content, short, &options().run).is_err(), "{name}");
    }
}
