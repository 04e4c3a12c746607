//! Messages that are replaced by their results.

use evener_core::{Direction, InPlaceJob, Iv, Mode, Outcome, Padding, Rejection};

use super::Check;
use super::harness::{Expected, Subject, Verdict};

pub(super) const CHECKS: &[Check] = &[
    Check::new("a message in place becomes what it becomes elsewhere", as_elsewhere)
        .only(works_in_place),
    Check::new("what is malformed stays as it is in place", malformed),
];

fn works_in_place(subject: &Subject<'_>) -> bool {
    matches!(subject.cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr)
}

/// Messages longer than any internal buffer, also continued after another engine.
fn as_elsewhere(subject: &Subject<'_>) -> Verdict {
    let block = 16;
    for length in [0, 1, 15, 16, 17, 256, 4_099, 16_384, 16_400, 50_003] {
        let length = subject.fit(length, Padding::None);
        let case = subject.case(length as u64, length, Padding::None)?;
        let Expected::Output(expected) = &case.expected else {
            return Err(format!("the reference made of it {:?}", case.expected));
        };
        let mut session = subject.open(case.message.key.as_ref())?;
        for done in [0, block].into_iter().filter(|done| *done <= length) {
            let input = &case.message.input;
            let ciphertext = match subject.direction {
                Direction::Encrypt => &expected[..done],
                Direction::Decrypt => &input[..done],
            };
            let following = case.message.iv.following(subject.cipher, ciphertext);
            let iv = following.ok_or("the message can't be cut")?;
            let mut data = [&expected[..done], &input[done..]].concat();
            let mut job = InPlaceJob::new(subject.cipher, subject.direction, iv, &mut data);
            job.done = done;
            session.process_in_place(&mut job).map_err(|error| format!("failed: {error}"))?;
            let (outcome, replaced) = (job.outcome, job.done);
            if outcome != (Outcome::Done { written: length }) || replaced != length {
                return Err(format!("{length} bytes from {done}: {outcome:?}, {replaced} done"));
            }
            if data != *expected {
                return Err(format!("{length} bytes from {done}: the result is wrong"));
            }
        }
    }
    Ok(())
}

fn malformed(subject: &Subject<'_>) -> Verdict {
    let case = subject.case(5, subject.fit(100, Padding::None), Padding::None)?;
    let mut session = subject.open(case.message.key.as_ref())?;
    let short = Iv::new(&[1, 2, 3]).unwrap_or(Iv::NONE);
    let mut data = vec![7; 96];
    let mut job = InPlaceJob::new(subject.cipher, subject.direction, short, &mut data);
    session.process_in_place(&mut job).map_err(|error| format!("failed: {error}"))?;
    let outcome = job.outcome;
    match outcome {
        Outcome::Rejected(Rejection::Malformed(_)) if data == [7; 96] => Ok(()),
        outcome => Err(format!("an IV of three bytes: {outcome:?}, or it was written to")),
    }
}
