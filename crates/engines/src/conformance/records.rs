//! Messages of one length at equal distances.

use evener_core::{Direction, Iv, Key, Mode, Padding, RecordLayout, Records, Rejection};

use super::Check;
use super::harness::{Message, Subject, Verdict, bytes};

pub(super) const CHECKS: &[Check] = &[
    Check::new("records become what the same jobs become", as_jobs),
    Check::new("a record with another's padding is rejected alone", forged).only(removes_padding),
];

fn removes_padding(subject: &Subject<'_>) -> bool {
    let pads = matches!(subject.cipher.mode(), Mode::Ecb | Mode::Cbc);
    pads && subject.direction == Direction::Decrypt
}

/// More records than fit in a batch, some with gaps, and some started in the middle.
fn as_jobs(subject: &Subject<'_>) -> Verdict {
    for &padding in subject.paddings() {
        for (count, length, gap, done) in
            [(1, 16, 0, 0), (70, 16, 0, 3), (40, 64, 0, 0), (67, 100, 5, 1)]
        {
            let field = Field::new(subject, padding, count, subject.fit(length, padding), gap)?;
            let place = format!("{:?} from {done}", field.layout);
            let (output, rejected) =
                field.process(subject, done).map_err(|error| format!("{place}: {error}"))?;
            if !rejected.is_empty() {
                return Err(format!("{place}: rejected are {rejected:?}"));
            }
            let room = field.layout.output_length(subject.cipher, subject.direction);
            for (record, output) in output.chunks(field.layout.output_stride).enumerate() {
                let (result, gap) = output.split_at(room);
                let expected = &field.expected[record];
                let is_right = match record < done {
                    true => result.iter().all(|&byte| byte == CANARY),
                    false => result.starts_with(expected),
                };
                if !is_right || gap.iter().any(|&byte| byte != CANARY) {
                    return Err(format!("{place}: record {record} is wrong"));
                }
            }
        }
    }
    Ok(())
}

/// Valid padding of another length than the record's is forged too.
fn forged(subject: &Subject<'_>) -> Verdict {
    let mut field = Field::new(subject, Padding::Pkcs7, 40, 21, 0)?;
    let others = Field::new(subject, Padding::Pkcs7, 40, 20, 0)?;
    let size = field.layout.input_stride;
    let forged = 33 * size..34 * size;
    field.input[forged.clone()].copy_from_slice(&others.input[forged.clone()]);
    let (output, rejected) = field.process(subject, 0)?;
    if rejected != [(33, Rejection::Padding)] {
        return Err(format!("rejected are {rejected:?}"));
    }
    match output[forged].iter().all(|byte| [0, CANARY].contains(byte)) {
        true => Ok(()),
        false => Err("plaintext of a rejected record is left".to_owned()),
    }
}

/// Records that own their data, with the expected outcome of each.
struct Field {
    key: Key,
    layout: RecordLayout,
    ivs: Vec<u8>,
    input: Vec<u8>,
    expected: Vec<Vec<u8>>,
}

impl Field {
    fn new(
        subject: &Subject<'_>,
        padding: Padding,
        count: usize,
        length: usize,
        gap: usize,
    ) -> Result<Field, String> {
        let &Subject { cipher, direction, .. } = subject;
        let mut layout = RecordLayout::packed(cipher, direction, padding, count, length);
        layout.input_stride += gap;
        layout.output_stride += gap;
        let mut field = Field {
            key: Key::new(&bytes(41, cipher.key_length())).map_err(|_| "there is no key")?,
            layout,
            ivs: Vec::new(),
            input: vec![CANARY; count * layout.input_stride],
            expected: Vec::new(),
        };
        for (record, place) in field.input.chunks_mut(layout.input_stride).enumerate() {
            let iv = Iv::new(&bytes(!(record as u64), cipher.iv_length())).map_err(|_| "no IV")?;
            let plain = Message {
                key: Some(field.key.clone()),
                iv,
                aad: Vec::new(),
                ..subject.plain(record as u64, length, padding)
            };
            let sealed = subject.encrypt(&plain)?;
            let (input, expected) = match direction {
                Direction::Encrypt => (plain.input, sealed),
                Direction::Decrypt => (sealed, plain.input),
            };
            place[..input.len()].copy_from_slice(&input);
            field.ivs.extend(iv.bytes());
            field.expected.push(expected);
        }
        Ok(field)
    }

    /// Returns the output after processing all records but the first `done`, and the rejected
    /// records.
    fn process(&self, subject: &Subject<'_>, done: usize) -> Result<(Vec<u8>, Rejected), String> {
        let &Subject { cipher, direction, .. } = subject;
        let mut output = vec![CANARY; self.layout.count * self.layout.output_stride];
        let records =
            Records::new(cipher, direction, self.layout, &self.ivs, &self.input, &mut output);
        let mut records = records.map_err(|rejection| rejection.to_string())?;
        records.advance(done);
        let mut session = subject.open(Some(&self.key))?;
        session.process_records(&mut records).map_err(|error| format!("failed: {error}"))?;
        if records.done() != self.layout.count {
            return Err(format!("{} are done", records.done()));
        }
        let rejected = records.rejected().to_vec();
        Ok((output, rejected))
    }
}

/// The rejected records, by their numbers.
type Rejected = Vec<(usize, Rejection)>;

const CANARY: u8 = 0xA5;
