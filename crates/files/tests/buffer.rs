//! Whole files in memory.

mod common;

use std::fs;
use std::num::NonZeroUsize;

use common::{bytes, every_key_ring, options, process};
use evener_files::{Operation, buffer};
use evener_pipeline::Pool;

#[test]
fn what_is_sealed_in_memory_is_a_file_in_every_format() {
    let home = tempfile::tempdir().unwrap();
    let engine = evener_engines::find("openssl").unwrap();
    let pool = Pool::new(NonZeroUsize::new(3).unwrap());
    for (name, keys) in every_key_ring() {
        for size in [0, 1, 16_384, 65_536, 700_001] {
            let content = bytes(size);
            let length = buffer::sealed_length(&keys, size as u64).unwrap() as usize;
            let mut sealed = vec![0; length];
            let written = buffer::seal(&keys, &pool, &*engine, &content, &mut sealed).unwrap();
            assert_eq!(written, length, "{name}: {size}");

            let mut opened = vec![0; length];
            let written = buffer::open(&keys, &pool, &*engine, &sealed, &mut opened).unwrap();
            assert!(opened[..written] == content, "{name}: {size}");

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
fn nothing_unauthenticated_is_left() {
    let engine = evener_engines::find("openssl").unwrap();
    let pool = Pool::new(NonZeroUsize::new(2).unwrap());
    for (name, keys) in every_key_ring() {
        if keys.primary().cipher().tag_length() == 0 {
            continue;
        }
        let content = bytes(500_000);
        let mut sealed = vec![0; buffer::sealed_length(&keys, 500_000).unwrap() as usize];
        buffer::seal(&keys, &pool, &*engine, &content, &mut sealed).unwrap();
        let mut opened = vec![7; sealed.len()];
        sealed[300_000] ^= 1;
        assert!(buffer::open(&keys, &pool, &*engine, &sealed, &mut opened).is_err(), "{name}");
        assert!(opened.iter().all(|&byte| byte == 0 || byte == 7), "{name}");
        assert!(opened[..490_000].iter().all(|&byte| byte == 0), "{name}");
        sealed[300_000] ^= 1;
        let cut = &sealed[..sealed.len() - 20];
        assert!(buffer::open(&keys, &pool, &*engine, cut, &mut opened).is_err(), "{name}");
        assert!(buffer::open(&keys, &pool, &*engine, &[], &mut opened).is_err(), "{name}");
        let short = &mut opened[..499_999];
        assert!(buffer::open(&keys, &pool, &*engine, &sealed, short).is_err(), "{name}");
        let short = &mut sealed[..500_000];
        assert!(buffer::seal(&keys, &pool, &*engine, &content, short).is_err(), "{name}");
    }
}
