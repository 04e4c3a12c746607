//! Messages longer than 2 GiB, whose lengths do not fit into the ints of C libraries.
//!
//! `cargo test --release -p evener-engines --test large_messages -- --ignored`
#![cfg(target_pointer_width = "64")]

use evener_core::{Cipher, Direction, Engine, Iv, Job, Key, Kind, Outcome, SessionRequest};

/// Checks the beginning, the middle and the end of the ciphertext, where a truncated length would
/// show, against short messages that truncation does not affect.
#[test]
#[ignore = "takes 6 GiB of memory and some seconds"]
fn messages_longer_than_2_gib_are_done() {
    for probed in evener_engines::probe_all() {
        match probed.engine {
            Ok(engine) if is_fit(&*engine) => check(&*engine),
            Ok(_) => evener_core::skipped!("{}: no GCM and CTR on the CPU", probed.name),
            Err(error) => evener_core::skipped!("{error}"),
        }
    }
}

fn is_fit(engine: &dyn Engine) -> bool {
    let ciphers = [Cipher::Aes256Gcm, Cipher::Aes256Ctr];
    let offers = |cipher| engine.offer(cipher, Direction::Encrypt).is_some();
    engine.description().kind == Kind::Cpu && ciphers.into_iter().all(offers)
}

fn check(engine: &dyn Engine) {
    let iv = Iv::new(&[9; 12]).unwrap();
    let mut plaintext = vec![0; LENGTH];
    plaintext.chunks_mut(4_096).enumerate().for_each(|(page, bytes)| bytes[0] = page as u8);
    let mut ciphertext = vec![0; LENGTH + 16];
    process(engine, Cipher::Aes256Gcm, Direction::Encrypt, iv, &plaintext, &mut ciphertext);

    // GCM encrypts as CTR does, from a counter of 2.
    let counter = [iv.bytes(), &[0, 0, 0, 2]].concat();
    for start in [0, LENGTH / 16 / 2 * 16, (LENGTH - 100) / 16 * 16] {
        let iv = Iv::new(&counter).unwrap().advanced(start as u64 / 16);
        let end = LENGTH.min(start + 4_096);
        let mut part = vec![0; end - start];
        process(
            engine,
            Cipher::Aes256Ctr,
            Direction::Encrypt,
            iv,
            &plaintext[start..end],
            &mut part,
        );
        assert!(part == ciphertext[start..end], "from {start}");
    }

    let mut decrypted = vec![0; LENGTH];
    process(engine, Cipher::Aes256Gcm, Direction::Decrypt, iv, &ciphertext, &mut decrypted);
    assert!(decrypted == plaintext);
}

fn process(
    engine: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
    iv: Iv,
    input: &[u8],
    output: &mut [u8],
) {
    let key = Key::new(&[1; 32]).unwrap();
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let mut batch = [Job::new(iv, input, output)];
    let Ok(mut session) = engine.open(&request) else {
        panic!("{} does not {direction} {cipher}", engine.description().name)
    };
    session.process(&mut batch).unwrap();
    assert!(matches!(batch[0].outcome, Outcome::Done { .. }), "{:?}", batch[0].outcome);
}

const LENGTH: usize = (2 << 30) + 12_345;
