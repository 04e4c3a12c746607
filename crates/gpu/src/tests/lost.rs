//! A device that is lost in the middle: no job may be lost, and the session continues when the
//! device is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome, SessionRequest};

use super::Random;
use super::sys::Failing;
use evener_engines::{Watch, guard};

#[test]
fn a_lost_device_costs_no_job() {
    let Some(device) = super::device() else { return };
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let engine = super::engine(Arc::new(Failing::new(device, Arc::clone(&left))));
    let reference = evener_engines::find("openssl").unwrap();
    let guarded = guard(engine.clone(), Arc::clone(&reference), Watch::default());
    let key = Key::new(&[3; 32]).unwrap();
    let direction = Direction::Encrypt;
    let request = SessionRequest { cipher: Cipher::Aes256Gcm, direction, key: Some(&key) };
    let iv = Iv::new(&[4; 12]).unwrap();
    let texts: Vec<_> = (0..20).map(|number| Random(number).bytes(300)).collect();
    let expected: Vec<_> = texts
        .iter()
        .map(|text| {
            let mut output = vec![0; 316];
            let mut batch = [Job::new(iv, text, &mut output)];
            reference.open(&request).unwrap().process(&mut batch).unwrap();
            output
        })
        .collect();

    let mut failures = 0;
    for calls in 1..60 {
        let mut session = engine.open(&request).unwrap();
        let mut outputs = vec![vec![0; 316]; texts.len()];
        let jobs = |outputs: &mut Vec<Vec<u8>>| -> bool {
            left.store(calls, Relaxed);
            let pairs = texts.iter().zip(outputs.iter_mut());
            let mut batch: Vec<_> =
                pairs.map(|(text, output)| Job::new(iv, text, output)).collect();
            let result = session.process(&mut batch);
            left.store(i64::MAX, Relaxed);
            let done = |job: &Job<'_>| job.outcome == Outcome::Done { written: 316 };
            match &result {
                Ok(()) => assert!(batch.iter().all(done)),
                Err(_) => {
                    failures += 1;
                    assert!(batch.iter().all(|job| job.outcome == Outcome::Pending || done(job)));
                }
            }
            // The same session processes the rest.
            session.process(&mut batch).unwrap();
            assert!(batch.iter().all(done));
            result.is_ok()
        };
        let mut jobs = jobs;
        let was_whole = jobs(&mut outputs);
        assert!(outputs == expected, "after {calls} calls");
        if was_whole {
            break;
        }
    }
    assert!(failures >= 10, "only {failures} calls failed");

    let mut session = guarded.open(&request).unwrap();
    let mut outputs = vec![vec![0; 316]; texts.len()];
    let pairs = texts.iter().zip(&mut outputs);
    let mut batch: Vec<_> = pairs.map(|(text, output)| Job::new(iv, text, output)).collect();
    left.store(5, Relaxed);
    session.process(&mut batch).unwrap();
    assert!(outputs == expected);
    assert!(guarded.account().unwrap().retreated > 0, "the guard did not see it");
}
