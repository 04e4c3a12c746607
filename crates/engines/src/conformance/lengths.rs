//! Messages of every length, whole and in parts.

use std::slice;

use evener_core::{Direction, Iv, Key, Mode, Padding};

use super::Check;
use super::harness::{Case, Expected, Message, Subject, Verdict, bytes};

pub(super) const CHECKS: &[Check] = &[
    Check::new("messages of every short length are done", short_messages),
    Check::new("messages around chunk and page sizes are done", long_messages),
    Check::new("an empty message is done", empty_message)
        .only(|subject| subject.cipher.mode() != Mode::Xts),
    Check::new("a message in parts is the whole message", parts)
        .only(|subject| matches!(subject.cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr)),
    Check::new("a counter carries through all of its 128 bits", counter_carries)
        .only(|subject| subject.cipher.mode() == Mode::Ctr),
];

fn short_messages(subject: &Subject<'_>) -> Verdict {
    for &padding in subject.paddings() {
        let mut cases = Vec::new();
        for length in 0..=300 {
            if subject.fit(length, padding) == length {
                cases.push(subject.case(length as u64, length, padding)?);
            }
        }
        subject.expect(None, &cases)?;
    }
    Ok(())
}

fn long_messages(subject: &Subject<'_>) -> Verdict {
    for &padding in subject.paddings() {
        for length in [4_095, 4_096, 16_368, 16_383, 16_384, 16_385, 65_536, 65_537, 1_048_577] {
            let case = subject.case(length as u64, subject.fit(length, padding), padding)?;
            subject.expect(None, &[case])?;
        }
    }
    Ok(())
}

fn empty_message(subject: &Subject<'_>) -> Verdict {
    for &padding in subject.paddings() {
        let case = subject.case(77, 0, padding)?;
        let expected = match (subject.direction, padding) {
            (Direction::Encrypt, Padding::Pkcs7) => subject.cipher.block_length(),
            (Direction::Encrypt, Padding::None) => subject.cipher.tag_length(),
            (Direction::Decrypt, _) => 0,
        };
        match &case.expected {
            Expected::Output(output) if output.len() == expected => {}
            other => return Err(format!("the reference made of it {other:?}")),
        }
        subject.expect(None, &[case])?;
    }
    Ok(())
}

/// Parts of a message, each with the IV that continues the part before, in one batch.
fn parts(subject: &Subject<'_>) -> Verdict {
    let part = 80;
    let whole = subject.case(5, 6 * part, Padding::None)?;
    subject.expect(None, slice::from_ref(&whole))?;
    let cases = split(subject, &whole, part)?;
    subject.expect(None, &cases)?;
    for case in cases {
        subject.expect(None, &[case])?;
    }
    Ok(())
}

fn counter_carries(subject: &Subject<'_>) -> Verdict {
    for carried in [2, 4, 8, 12, 16] {
        let mut iv = bytes(carried as u64, 16);
        iv[16 - carried..].fill(0xFF);
        iv[15] = 0xF9;
        let plain = Message {
            key: Key::new(&bytes(9, subject.cipher.key_length())).ok(),
            iv: Iv::new(&iv).unwrap_or(Iv::NONE),
            ..subject.plain(9, 16 * 40, Padding::None)
        };
        let whole = subject.case_from(plain)?;
        subject.expect(None, slice::from_ref(&whole))?;
        // The counter is advanced block by block here.
        subject.expect(None, &split(subject, &whole, 16)?)?;
    }
    Ok(())
}

/// Splits a case that expects an output into cases of `part` bytes.
fn split(subject: &Subject<'_>, whole: &Case, part: usize) -> Result<Vec<Case>, String> {
    let Expected::Output(output) = &whole.expected else {
        return Err("only what is done can be split".to_owned());
    };
    let ciphertext = match subject.direction {
        Direction::Encrypt => output,
        Direction::Decrypt => &whole.message.input,
    };
    let mut cases = Vec::new();
    for (index, input) in whole.message.input.chunks(part).enumerate() {
        let start = index * part;
        let iv = match subject.cipher.mode() {
            Mode::Cbc if start > 0 => {
                Iv::new(&ciphertext[start - subject.cipher.iv_length()..start]).ok()
            }
            Mode::Ctr => Some(whole.message.iv.advanced((start / 16) as u64)),
            _ => Some(whole.message.iv),
        };
        let iv = iv.ok_or("the IV is too long")?;
        let message = Message { iv, input: input.to_vec(), ..whole.message.clone() };
        let expected = Expected::Output(output[start..start + input.len()].to_vec());
        cases.push(Case { message, expected });
    }
    Ok(cases)
}
