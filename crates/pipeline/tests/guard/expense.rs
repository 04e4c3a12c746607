//! A module that takes much longer for a job than `openssl` has every job verified.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Kind, Offer, Session, SessionRequest,
};
use evener_engines::{Watch, guard};

use super::{encrypt, open, openssl};

/// `openssl` with a pause before each batch.
struct Slow {
    description: Description,
    pause: Duration,
}

struct SlowSession {
    inner: Box<dyn Session>,
    pause: Duration,
}

impl Engine for Slow {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        openssl().offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(SlowSession { inner: openssl().open(request)?, pause: self.pause }))
    }
}

impl Session for SlowSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        thread::sleep(self.pause);
        self.inner.process(batch)
    }
}

/// How many of 40 messages are verified.
fn verified(pause: Duration, verify_every: Option<u64>) -> u64 {
    let (name, detail) = ("slow".to_owned(), String::new());
    let description = Description { name, kind: Kind::Module, detail };
    let slow = Arc::new(Slow { description, pause });
    let watch = Watch { verify_every, deadline: None, retreats: false };
    let engine = guard(slow, openssl(), watch);
    let mut session = open(&*engine).unwrap();
    (0..40).for_each(|number| drop(encrypt(&mut *session, number).unwrap()));
    drop(session);
    let account = engine.account().unwrap();
    assert_eq!(account.jobs, 40);
    account.verified
}

#[test]
fn every_job_of_a_slow_module_is_verified_unless_the_caller_says_how_many() {
    let pause = Duration::from_millis(5);
    assert_eq!(verified(pause, Some(u64::MAX)), 2);
    // A core that others take for a while can make a message look expensive, but not most of them.
    let most = verified(pause, None);
    assert!(most > 20, "{most}");
}
