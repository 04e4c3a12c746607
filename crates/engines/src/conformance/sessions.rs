//! Opens sessions, also several at once.

use std::thread;

use evener_core::{Cipher, Direction, Engine, EngineError, Key, Kind, Outcome, Padding};

use super::Check;
use super::batches::with_session_key;
use super::harness::{Subject, Verdict, bytes, open};

pub(super) const CHECKS: &[Check] = &[
    Check::new("a session's key must have the cipher's length", key_length),
    Check::new("a job without any key fails the batch, and only that", missing_key),
    Check::new("sessions with different keys do not disturb each other", interleaved),
    Check::new("threads use the engine at the same time", threads),
];

/// Checks of the engine as a whole.
pub(super) const ENGINE_CHECKS: &[EngineCheck] = &[
    ("it describes itself and its offers", description),
    ("a cipher that it does not offer is refused", not_offered),
];

/// A property and its check.
type EngineCheck = (&'static str, fn(&dyn Engine) -> Verdict);

fn key_length(subject: &Subject<'_>) -> Verdict {
    let expected = subject.cipher.key_length();
    for actual in [1, expected - 1, expected + 1, Key::MAX_LENGTH] {
        let Some(key) = Key::new(&bytes(1, actual)).ok().filter(|_| actual != expected) else {
            continue;
        };
        match open(subject.engine, subject.cipher, subject.direction, Some(&key)) {
            Err(EngineError::KeyLength { .. }) => {}
            Err(error) => return Err(format!("{actual} bytes: {error}")),
            Ok(_) => return Err(format!("opened with {actual} bytes")),
        }
    }
    Ok(())
}

fn missing_key(subject: &Subject<'_>) -> Verdict {
    let mut session = subject.open(None)?;
    let good = subject.case(1, subject.fit(64, Padding::None), Padding::None)?;
    let mut keyless = good.message.clone();
    keyless.key = None;
    let messages = [good.message.clone(), keyless, good.message.clone()];
    let (result, answers) = subject.process(&mut *session, &messages)?;
    match result {
        Err(EngineError::NoKey { .. }) => {}
        other => return Err(format!("process returned {other:?}")),
    }
    let is_kept =
        |at: usize| matches!(answers[at].outcome, Outcome::Pending | Outcome::Done { .. });
    if answers[1].outcome != Outcome::Pending || !is_kept(0) || !is_kept(2) {
        return Err("the jobs do not say what was done".to_owned());
    }
    subject.expect_in(&mut *session, &[good])
}

fn interleaved(subject: &Subject<'_>) -> Verdict {
    let keys = [1, 2].map(|seed| Key::new(&bytes(seed, subject.cipher.key_length())).ok());
    let mut sessions = [subject.open(keys[0].as_ref())?, subject.open(keys[1].as_ref())?];
    for seed in 0..8 {
        let at = seed as usize % 2;
        let length = subject.fit(100, Padding::None);
        let case = with_session_key(subject, &keys[at], seed, length)?;
        subject.expect_in(&mut *sessions[at], &[case])?;
    }
    Ok(())
}

fn threads(subject: &Subject<'_>) -> Verdict {
    let Some(offer) = subject.engine.offer(subject.cipher, subject.direction) else {
        return Err("the offer was withdrawn".to_owned());
    };
    let work = |thread: u64| {
        let mut session = subject.open(None)?;
        for round in 0..4 {
            let length = subject.fit(1_000, Padding::None);
            let case = subject.case(thread * 4 + round, length, Padding::None)?;
            subject.expect_in(&mut *session, &[case])?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..offer.depth.min(8) as u64)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let panicked = |_| Err("a thread panicked".to_owned());
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

fn description(engine: &dyn Engine) -> Verdict {
    let description = engine.description();
    if description.name.is_empty() || description.detail.is_empty() {
        return Err(format!("{description:?} is incomplete"));
    }
    for (cipher, direction) in everything() {
        let Some(offer) = engine.offer(cipher, direction) else { continue };
        if offer.depth == 0 || offer.batch == 0 {
            return Err(format!("{cipher} {direction}: {offer:?}"));
        }
        let cores = crate::cores::available_cores();
        if description.kind == Kind::Cpu && offer.depth != cores {
            return Err(format!("{cipher} {direction}: {offer:?} on {cores} cores"));
        }
    }
    Ok(())
}

fn not_offered(engine: &dyn Engine) -> Verdict {
    for (cipher, direction) in everything() {
        if engine.offer(cipher, direction).is_some() {
            continue;
        }
        match open(engine, cipher, direction, None) {
            Err(EngineError::NotOffered { .. }) => {}
            Err(error) => return Err(format!("{cipher} {direction}: {error}")),
            Ok(_) => return Err(format!("{cipher} {direction}: opened")),
        }
    }
    Ok(())
}

fn everything() -> impl Iterator<Item = (Cipher, Direction)> {
    let both = |&cipher| [(cipher, Direction::Encrypt), (cipher, Direction::Decrypt)];
    Cipher::ALL.iter().flat_map(both)
}
