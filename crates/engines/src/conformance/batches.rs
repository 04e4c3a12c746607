//! Batches of every size and mixture.

use evener_core::{Key, Outcome, Padding, Rejection};

use super::Check;
use super::harness::{Case, Expected, Message, Subject, Verdict, bytes};

pub(super) const CHECKS: &[Check] = &[
    Check::new("an empty batch is fine", empty_batch),
    Check::new("jobs of many lengths are done in batches of any size", ragged_batches),
    Check::new("jobs of one length are done in batches of any size", even_batches),
    Check::new("long and short messages of one key are done side by side", long_and_short),
    Check::new("a session's key and jobs' own keys mix", mixed_keys),
    Check::new("a key is known by its bytes, not by its address", key_identity),
    Check::new("a job that is settled already is left alone", settled_jobs),
];

fn empty_batch(subject: &Subject<'_>) -> Verdict {
    subject.expect(None, &[])
}

fn ragged_batches(subject: &Subject<'_>) -> Verdict {
    for size in SIZES {
        let mut cases = Vec::new();
        for index in 0..size {
            let paddings = subject.paddings();
            let padding = paddings[index % paddings.len()];
            let length = subject.fit((index * index * 37 + size) % 700, padding);
            cases.push(subject.case((size * 1_000 + index) as u64, length, padding)?);
        }
        subject.expect(None, &cases)?;
    }
    Ok(())
}

fn even_batches(subject: &Subject<'_>) -> Verdict {
    let key = Key::new(&bytes(1, subject.cipher.key_length())).ok();
    let mut session = subject.open(key.as_ref())?;
    for size in SIZES {
        for length in [16, 64, 1_024] {
            let length = subject.fit(length, Padding::None);
            let cases: Result<Vec<_>, _> = (0..size as u64)
                .map(|seed| with_session_key(subject, &key, seed, length))
                .collect();
            subject.expect_in(&mut *session, &cases?)?;
        }
    }
    Ok(())
}

/// More messages than an engine processes at once. Some take more than one slot, so that others
/// must wait.
fn long_and_short(subject: &Subject<'_>) -> Verdict {
    let key = Key::new(&bytes(3, subject.cipher.key_length())).ok();
    let long_first = [&[65_000][..], &[100; 17]].concat();
    let long_between = [&[100; 9][..], &[61_440, 61_456], &[100; 12]].concat();
    for (lengths, own_keys) in [(&long_first, false), (&long_first, true), (&long_between, false)] {
        let mut cases = Vec::new();
        for (seed, &length) in lengths.iter().enumerate() {
            let length = subject.fit(length, Padding::None);
            cases.push(with_session_key(subject, &key, seed as u64, length)?);
        }
        if own_keys {
            cases.iter_mut().for_each(|case| case.message.key.clone_from(&key));
        }
        subject.expect(key.as_ref().filter(|_| !own_keys), &cases)?;
    }
    Ok(())
}

fn mixed_keys(subject: &Subject<'_>) -> Verdict {
    let key = Key::new(&bytes(2, subject.cipher.key_length())).ok();
    let mut session = subject.open(key.as_ref())?;
    let mut cases = Vec::new();
    for seed in 0..24 {
        let length = subject.fit(seed as usize * 11, Padding::None);
        cases.push(match seed % 4 {
            // Jobs with the session's key, with a key of their own, with that key again, and
            // with the session's key as their own.
            0 => with_session_key(subject, &key, seed, length)?,
            1 => subject.case(seed, length, Padding::None)?,
            2 => {
                with_own_key(subject, &Key::new(&bytes(seed - 1, key_length(subject))).ok(), seed)?
            }
            _ => with_own_key(subject, &key, seed)?,
        });
    }
    subject.expect_in(&mut *session, &cases)?;
    subject.expect_in(&mut *session, &cases[..1])
}

fn key_identity(subject: &Subject<'_>) -> Verdict {
    let mut session = subject.open(None)?;
    let length = subject.fit(48, Padding::None);
    let first = subject.case(31, length, Padding::None)?;
    let second = subject.case(32, length, Padding::None)?;
    // One address in memory that holds different keys in turn.
    let mut place = [first.clone()];
    for case in [&first, &second, &second, &first] {
        place[0].clone_from(case);
        let (result, answers) =
            subject.process(&mut *session, std::slice::from_ref(&place[0].message))?;
        result.map_err(|error| error.to_string())?;
        let Outcome::Done { written } = answers[0].outcome else {
            return Err(format!("came back as {:?}", answers[0].outcome));
        };
        if Expected::Output(answers[0].output[..written].to_vec()) != case.expected {
            return Err("used the key that was there before".to_owned());
        }
    }
    Ok(())
}

fn settled_jobs(subject: &Subject<'_>) -> Verdict {
    let mut cases = Vec::new();
    for seed in 0..9 {
        let mut case = subject.case(seed, subject.fit(100, Padding::None), Padding::None)?;
        let settled = [
            Outcome::Pending,
            Outcome::Done { written: 7 },
            Outcome::Rejected(Rejection::Malformed("by somebody else")),
        ];
        case.message.outcome = settled[seed as usize % settled.len()];
        if case.message.outcome != Outcome::Pending {
            case.expected = Expected::Unchanged;
        }
        cases.push(case);
    }
    subject.expect(None, &cases)
}

/// A case whose job has no key, for a session with the key.
pub(super) fn with_session_key(
    subject: &Subject<'_>,
    key: &Option<Key>,
    seed: u64,
    length: usize,
) -> Result<Case, String> {
    let plain = subject.plain(seed, length, Padding::None);
    let case = subject.case_from(Message { key: key.clone(), ..plain })?;
    Ok(Case { message: Message { key: None, ..case.message }, ..case })
}

fn with_own_key(subject: &Subject<'_>, key: &Option<Key>, seed: u64) -> Result<Case, String> {
    let length = subject.fit(seed as usize * 13, Padding::None);
    let plain = subject.plain(seed, length, Padding::None);
    subject.case_from(Message { key: key.clone(), ..plain })
}

fn key_length(subject: &Subject<'_>) -> usize {
    subject.cipher.key_length()
}

/// Sizes around the numbers of lanes of SIMD engines.
const SIZES: [usize; 16] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65];
