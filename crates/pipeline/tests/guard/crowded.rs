//! A device that loses its place to others when it changes keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evener_core::{Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, SessionRequest};
use evener_engines::acting::Acting;
use evener_engines::{Watch, guard};

use super::{WATCH, encrypt, key, open, openssl};

fn crowded(watch: Watch) -> (Arc<dyn Engine>, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(true));
    let is_still_full = Arc::clone(&is_full);
    let engine = Acting::new(openssl(), move |session, batch| {
        let changes_keys = batch.iter().any(|job| job.key.is_some());
        if changes_keys && is_still_full.load(Ordering::Relaxed) {
            return Err(EngineError::unavailable("there is no room for another session"));
        }
        session.process(batch)
    });
    (guard(Arc::new(engine), openssl(), watch), is_full)
}

const WATCHES: [Watch; 2] = [WATCH, Watch { deadline: None, ..WATCH }];

#[test]
fn a_session_is_tested_with_its_own_key() {
    for watch in WATCHES {
        let (engine, _) = crowded(watch);
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for &cipher in Cipher::ALL {
                let bytes: Vec<u8> = (0..cipher.key_length()).map(|byte| byte as u8).collect();
                let key = Key::new(&bytes).unwrap();
                if engine.offer(cipher, direction).is_some() {
                    engine.open(&SessionRequest { cipher, direction, key: Some(&key) }).unwrap();
                }
            }
        }
        let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
        let request = SessionRequest { cipher, direction, key: Some(&key()) };
        let mut session = engine.open(&request).unwrap();
        let mut output = [0; 64];
        let mut batch = [Job::new(Iv::new(&[1; 16]).unwrap(), &[7; 64], &mut output)];
        session.process(&mut batch).unwrap();
        assert_eq!(batch[0].outcome, Outcome::Done { written: 64 });
        let expected = encrypt(&mut *open(&*openssl()).unwrap(), 7).unwrap();
        assert_eq!(output[..], expected);
    }
}

#[test]
fn a_device_without_room_for_a_test_is_used_when_there_is() {
    for watch in WATCHES {
        let (engine, is_full) = crowded(watch);
        let refused = open(&*engine).map(drop).unwrap_err();
        assert!(matches!(refused, EngineError::Unavailable { .. }), "{refused}");
        is_full.store(false, Ordering::Relaxed);
        encrypt(&mut *open(&*engine).unwrap(), 7).unwrap();
    }
}
