//! A module that takes much longer for a job than `openssl` has every job verified.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evener_core::{Description, Engine};
use evener_engines::acting::Acting;
use evener_engines::{Watch, guard};

use super::{encrypt, job, key, open, openssl};

/// A module, `openssl` with this pause before each batch, guarded.
fn slow(pause: Duration, verify_every: Option<u64>) -> Arc<dyn Engine> {
    let slow = Acting::new(openssl(), move |session, batch| {
        thread::sleep(pause);
        session.process(batch)
    });
    let watch = Watch { verify_every, deadline: None, retreats: false };
    guard(Arc::new(slow.described(Description::module("slow"))), openssl(), watch)
}

/// The number of verified messages, of 40.
fn verified(pause: Duration, verify_every: Option<u64>) -> u64 {
    let engine = slow(pause, verify_every);
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
    // A core that other programs take for a while can make a message look expensive, but not most
    // of them.
    let most = verified(pause, None);
    assert!(most > 20, "{most}");
}

#[test]
fn the_first_batch_is_verified_too() {
    let engine = slow(Duration::from_millis(50), None);
    let mut session = open(&*engine).unwrap();
    let (key, input) = (key(), [1; 64]);
    let mut outputs = [[0; 64]; 16];
    let mut batch = outputs.each_mut().map(|output| job(&key, &input, output));
    session.process(&mut batch).unwrap();
    drop(session);
    let verified = engine.account().unwrap().verified;
    assert!(verified > 8, "{verified}");
}
