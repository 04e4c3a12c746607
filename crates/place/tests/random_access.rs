//! Tests reading parts of sealed files.

mod common;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Barrier, Mutex};
use std::thread::{self, ThreadId};

use common::{bytes, every_key_ring, options, process};
use evener_core::{Cipher, Iv, Key};
use evener_format::{OpensslSecret, Recipe};
use evener_place::{Blob, Existing, Fault, KeyRing, Operation, RandomAccess, random_access};

#[test]
fn any_part_of_any_format_can_be_read() {
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let replacing = options().with(|it| it.tree.existing = Existing::Overwrite);
    let engine = evener_engines::find("openssl").unwrap();
    for (name, keys) in every_key_ring() {
        for size in [0, 5, 16_384, 65_536, 200_001] {
            let content = bytes(size);
            fs::write(&plain, &content).unwrap();
            let encrypted =
                process(Operation::Encrypt, &keys, &plain, Some(&sealed), &replacing).unwrap();
            assert!(encrypted.is_success(), "{name}: {:?}", encrypted.failures);
            let mut file = random_access(&sealed, &keys, engine.clone()).unwrap();
            assert_eq!(file.len(), size as u64, "{name}");
            for (offset, length) in [
                (0, 10),
                (16_380, 10),
                (65_530, 70_000),
                (0, 300_000),
                (199_990, 100),
                (1 << 40, 5),
            ] {
                let mut part = vec![0; length];
                let count = file.read_at(&mut part, offset).unwrap();
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(size);
                let expected = &content[from..(from + length).min(size)];
                assert_eq!(&part[..count], expected, "{name}: {size} at {offset}");
            }
            file.seek(SeekFrom::Start(size as u64 / 2)).unwrap();
            let mut rest = Vec::new();
            file.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, &content[size / 2..], "{name}: {size}");
        }
    }
}

#[test]
fn long_reads_use_several_threads() {
    const WORKERS: usize = 2;
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let (keys, engine) = (common::cobblestone(), evener_engines::find("openssl").unwrap());
    let content = bytes(3_000_001);
    fs::write(&plain, &content).unwrap();
    process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options()).unwrap();
    let open = |bytes| {
        let blob = Meeting { bytes, met: Barrier::new(WORKERS), seen: Mutex::default() };
        RandomAccess::of(Box::new(blob), &keys, engine.clone()).unwrap().with_workers(WORKERS)
    };
    let mut whole = fs::read(&sealed).unwrap();
    let mut part = vec![0; 2_500_000];
    assert_eq!(open(whole.clone()).read_at(&mut part, 100).unwrap(), part.len());
    assert!(part == content[100..2_500_100]);
    whole[1_500_000] ^= 1;
    let part = &mut part[..100 * 16_384];
    let error = open(whole).read_at(part, 16_384).unwrap_err().to_string();
    assert!(error.contains("chunk 91"), "{error}");
    assert!(part.iter().all(|byte| *byte == 0), "plaintext is left");
}

/// An object in memory. In its first long read, a thread waits for those of the others.
struct Meeting {
    bytes: Vec<u8>,
    met: Barrier,
    seen: Mutex<HashSet<ThreadId>>,
}

impl Blob for Meeting {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let is_first = || self.seen.lock().unwrap().insert(thread::current().id());
        if buffer.len() > 100_000 && is_first() {
            self.met.wait();
        }
        buffer.copy_from_slice(&self.bytes[at as usize..][..buffer.len()]);
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn a_short_file_takes_no_buffers_for_the_longest_chunk_of_its_format() {
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let engine = evener_engines::find("openssl").unwrap();
    // Two buffers for such a chunk take all memory that 32 bits can address.
    let long = common::tink(1, i32::MAX as u32);
    let (one, two) = (KeyRing::new(long), KeyRing::new(common::tink(2, 4096)));
    let both = KeyRing::new(common::tink(2, 4096)).with(common::tink(1, i32::MAX as u32));
    fs::write(&plain, bytes(100_000)).unwrap();
    process(Operation::Encrypt, &two, &plain, Some(&sealed), &options()).unwrap();
    for keys in [&two, &both] {
        let file = random_access(&sealed, keys, engine.clone()).unwrap();
        let mut part = [0; 10];
        assert_eq!(file.read_at(&mut part, 99_995).unwrap(), 5);
        assert_eq!(part[..5], bytes(100_000)[99_995..]);
    }
    let wrong = random_access(&sealed, &one, engine.clone()).err().unwrap();
    assert!(!wrong.to_string().contains("memory"), "{wrong}");
}

#[test]
fn a_read_needs_its_sealed_range_and_no_more() {
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let engine = evener_engines::find("openssl").unwrap();
    let keys = common::cobblestone();
    let content = bytes(200_001);
    fs::write(&plain, &content).unwrap();
    process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options()).unwrap();
    let whole = fs::read(&sealed).unwrap();
    let file = random_access(&sealed, &keys, engine.clone()).unwrap();
    for (range, needed) in [
        (0..1, 56..56 + 16_400),
        (16_383..16_385, 56..56 + 2 * 16_400),
        (20_000..50_000, 56 + 16_400..56 + 4 * 16_400),
        (199_000..1 << 40, 56 + 12 * 16_400..whole.len() as u64),
        (200_001..200_002, 0..0),
        (9..9, 0..0),
    ] {
        assert_eq!(file.sealed_range(range.clone()), needed, "{range:?}");
        let mut changed = vec![0; whole.len()];
        for kept in [0..56, needed.start as usize..needed.end as usize] {
            changed[kept.clone()].copy_from_slice(&whole[kept]);
        }
        fs::write(&sealed, changed).unwrap();
        let mut part = vec![0; range.end.min(200_001).saturating_sub(range.start) as usize];
        let count = file.read_at(&mut part, range.start).unwrap();
        assert!(part[..count] == content[range.start as usize..][..count]);
        assert_eq!(count, part.len());
    }
}

#[test]
fn a_truncated_file_is_refused_when_it_is_opened() {
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let engine = evener_engines::find("openssl").unwrap();
    let keys = common::cobblestone();
    fs::write(&plain, bytes(100_000)).unwrap();
    process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options()).unwrap();
    let whole = fs::read(&sealed).unwrap();
    for length in [56, 100, 56 + 16_400, 56 + 16_416, whole.len() - 1] {
        fs::write(&sealed, &whole[..length]).unwrap();
        assert!(random_access(&sealed, &keys, engine.clone()).is_err(), "{length}");
    }
}

#[test]
fn ciphers_of_openssl_enc_are_read_anywhere_but_in_ofb() {
    let home = tempfile::tempdir().unwrap();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    let replacing = options().with(|it| it.tree.existing = Existing::Overwrite);
    let engine = evener_engines::find("openssl").unwrap();
    let content = bytes(200_001);
    fs::write(&plain, &content).unwrap();
    for (name, is_read) in [
        ("aes-256-ecb", true),
        ("aria-128-cfb", true),
        ("sm4-ctr", true),
        ("chacha20", true),
        ("aes-128-ofb", false),
    ] {
        let cipher = Cipher::of_openssl_enc(name).unwrap();
        let key = Key::new(&vec![3; cipher.key_length()]).unwrap();
        let iv = Iv::new(&vec![0xFF; cipher.iv_length()]).unwrap();
        let recipe = Recipe::openssl_enc(cipher, OpensslSecret::Raw { key, iv }).unwrap();
        let keys = KeyRing::new(recipe);
        let encrypted =
            process(Operation::Encrypt, &keys, &plain, Some(&sealed), &replacing).unwrap();
        assert!(encrypted.is_success(), "{name}: {:?}", encrypted.failures);
        match random_access(&sealed, &keys, engine.clone()) {
            Ok(file) => {
                assert!(is_read, "{name}");
                let mut part = vec![0; 1000];
                assert_eq!(file.read_at(&mut part, 131_000).unwrap(), 1000, "{name}");
                assert_eq!(part, content[131_000..132_000], "{name}");
            }
            Err(error) => {
                assert!(!is_read && error.to_string().contains("OFB"), "{name}: {error}");
            }
        }
    }
}
