//! Batches that own their data.

use evener_core::{Key, Outcome, Parcel, PlacedJob, WipedBuffer};

use super::Check;
use super::harness::{Answer, Case, Expected, FILL, Message, Subject, Verdict, bytes};

pub(super) const CHECKS: &[Check] = &[
    Check::new("a parcel's jobs are done where they lie", ragged_parcels),
    Check::new("a parcel without jobs is fine", empty_parcel),
];

fn empty_parcel(subject: &Subject<'_>) -> Verdict {
    let mut session = subject.open(None)?;
    let mut parcel = Parcel::default();
    session.process_parcel(&mut parcel).map_err(|error| error.to_string())?;
    parcel.add(WipedBuffer::zeros(3), WipedBuffer::zeros(4));
    session.process_parcel(&mut parcel).map_err(|error| error.to_string())?;
    let lengths: Vec<_> =
        parcel.drain().map(|(input, output)| (input.len(), output.len())).collect();
    if lengths == [(3, 4)] { Ok(()) } else { Err(format!("the buffers came back as {lengths:?}")) }
}

/// Jobs with their own keys and with the session's, in several pairs of buffers; one is settled
/// already. The same parcel is used again.
fn ragged_parcels(subject: &Subject<'_>) -> Verdict {
    let key = Key::new(&bytes(7, subject.cipher.key_length())).ok();
    let mut session = subject.open(key.as_ref())?;
    let mut parcel = Parcel::default();
    for round in 0..3 {
        let mut cases = Vec::new();
        for index in 0..40 {
            let paddings = subject.paddings();
            let padding = paddings[index % paddings.len()];
            let length = subject.fit((index * index * 29 + round) % 900, padding);
            let mut plain = subject.plain((round * 1_000 + index) as u64, length, padding);
            if index % 3 == 0 {
                plain.key.clone_from(&key);
            }
            cases.push(subject.case_from(plain)?);
        }
        let settled = cases[5].message.clone();
        let outcome = Outcome::Done { written: 0 };
        cases[5] = Case { message: Message { outcome, ..settled }, expected: Expected::Unchanged };
        let mut spoken_for = Vec::new();
        for group in cases.chunks(17) {
            spoken_for.push(place(subject, &mut parcel, group, key.as_ref()));
        }
        session.process_parcel(&mut parcel).map_err(|error| format!("process failed: {error}"))?;
        let outcomes = parcel.outcomes().to_vec();
        let ranges: Vec<_> = parcel.jobs().iter().map(|job| job.output.clone()).collect();
        let mut outputs = Vec::new();
        for ((input, output), expected) in parcel.drain().zip(&spoken_for) {
            if *input != **expected {
                return Err("the input was written to".to_owned());
            }
            outputs.push(output);
        }
        for (index, (case, outcome)) in cases.iter().zip(outcomes).enumerate() {
            let output = outputs[index / 17][ranges[index].clone()].to_vec();
            let answer = Answer { outcome, output };
            answer.judge(case).map_err(|complaint| format!("job {index}: {complaint}"))?;
        }
        for (output, group) in outputs.iter().zip(ranges.chunks(17)) {
            let mut between = 0;
            for range in group {
                if output[between..range.start].iter().any(|&byte| byte != FILL) {
                    return Err("bytes outside of the output were written to".to_owned());
                }
                between = range.end;
            }
        }
    }
    Ok(())
}

/// Places messages in a pair of buffers. Returns the input.
fn place(
    subject: &Subject<'_>,
    parcel: &mut Parcel,
    cases: &[Case],
    session_key: Option<&Key>,
) -> Vec<u8> {
    let mut input = vec![FILL; 3];
    let mut output_at = 1;
    for Case { message, .. } in cases {
        let mut next = |bytes: &[u8]| {
            let start = input.len();
            input.extend(bytes);
            start..input.len()
        };
        let (aad, text) = (next(&message.aad), next(&message.input));
        let needed = message.output_length(subject);
        let is_sessions = |key: &&Key| session_key.is_some_and(|own| own.bytes() == key.bytes());
        let own = message.key.as_ref().filter(|key| !is_sessions(key));
        let key = own.map(|key| parcel.add_key(key));
        let job = PlacedJob::new(message.iv, text, output_at..output_at + needed);
        parcel.push(PlacedJob { key, aad, padding: message.padding, ..job });
        if let Some(outcome) = parcel.outcomes_mut().last_mut() {
            *outcome = message.outcome;
        }
        output_at += needed + 5;
    }
    let (mut from, mut to) = (WipedBuffer::zeros(input.len()), WipedBuffer::zeros(output_at));
    from.copy_from_slice(&input);
    to.fill(FILL);
    parcel.add(from, to);
    input
}
