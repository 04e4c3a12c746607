//! A device that loses its place to others when it changes keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Iv, Job, Key, Offer, Outcome, Session,
    SessionRequest,
};
use evener_engines::{Watch, guard};

use super::{WATCH, encrypt, key, open, openssl};

struct Crowded {
    engine: Arc<dyn Engine>,
    is_full: Arc<AtomicBool>,
}

struct CrowdedSession {
    session: Box<dyn Session>,
    is_full: Arc<AtomicBool>,
}

impl Engine for Crowded {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let session = self.engine.open(request)?;
        Ok(Box::new(CrowdedSession { session, is_full: Arc::clone(&self.is_full) }))
    }
}

impl Session for CrowdedSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let changes_keys = batch.iter().any(|job| job.key.is_some());
        if changes_keys && self.is_full.load(Ordering::Relaxed) {
            return Err(EngineError::unavailable("there is no room for another session"));
        }
        self.session.process(batch)
    }
}

fn crowded(watch: Watch) -> (Arc<dyn Engine>, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(true));
    let engine = Crowded { engine: openssl(), is_full: Arc::clone(&is_full) };
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
