//! Messages that must be rejected, between valid messages that must not be affected.

use evener_core::{Direction, Iv, Key, Mode, Padding};

use super::Check;
use super::harness::{Case, Expected, Message, Subject, Verdict, bytes};

pub(super) const CHECKS: &[Check] = &[
    Check::new("a malformed job is rejected and harms no neighbour", malformed),
    Check::new("whatever is changed in an authenticated message, it is rejected", forged).only(
        |subject| subject.cipher.is_authenticated() && subject.direction == Direction::Decrypt,
    ),
    Check::new("malformed padding is rejected", badly_padded).only(|subject| {
        subject.cipher.block_length() > 1 && subject.direction == Direction::Decrypt
    }),
];

fn malformed(subject: &Subject<'_>) -> Verdict {
    let cipher = subject.cipher;
    let good = subject.case(1, subject.fit(64, Padding::None), Padding::None)?;
    let mut bad = Vec::new();
    let mut add = |change: &dyn Fn(&mut Message)| {
        let mut case = Case { expected: Expected::Malformed, ..good.clone() };
        change(&mut case.message);
        bad.push(case);
    };
    add(&|message| message.iv = iv_of(cipher.iv_length() + 1));
    if cipher.iv_length() > 0 {
        add(&|message| message.iv = iv_of(cipher.iv_length() - 1));
    }
    if let Ok(short) = Key::new(&bytes(1, cipher.key_length() - 1)) {
        add(&|message| message.key = Some(short.clone()));
    }
    add(&|message| message.missing_output = 1);
    if !cipher.is_authenticated() {
        add(&|message| message.aad = vec![1]);
    }
    if cipher.block_length() > 1 {
        add(&|message| message.input.truncate(17));
    } else {
        add(&|message| message.padding = Padding::Pkcs7);
    }
    if cipher.mode() == Mode::Xts {
        add(&|message| message.input.truncate(15));
    }
    match subject.direction {
        Direction::Encrypt if cipher.block_length() > 1 => add(&|message| {
            message.padding = Padding::Pkcs7;
            message.missing_output = cipher.block_length();
        }),
        Direction::Decrypt if cipher.block_length() > 1 => add(&|message| {
            message.padding = Padding::Pkcs7;
            message.input.clear();
        }),
        Direction::Decrypt if cipher.is_authenticated() => {
            add(&|message| message.input.truncate(15));
        }
        _ => {}
    }
    for case in &bad {
        subject.expect(None, std::slice::from_ref(case))?;
    }
    let between: Vec<_> = bad.into_iter().flat_map(|bad| [good.clone(), bad]).collect();
    subject.expect(None, &[between, vec![good]].concat())
}

fn forged(subject: &Subject<'_>) -> Verdict {
    for length in [0, 1, 16, 100, 1_000, 16_384] {
        // This seed gives 33 bytes of additional data.
        let good = subject.case(33, length, Padding::None)?;
        let mut cases = vec![good.clone()];
        let mut add = |change: &dyn Fn(&mut Message)| {
            let mut case = Case { expected: Expected::Forged, ..good.clone() };
            change(&mut case.message);
            // After each forgery the same key must still give right results.
            cases.extend([case, good.clone()]);
        };
        for at in 0..16 {
            add(&|message| message.input[length + at] ^= 1 << (at % 8));
        }
        for at in [0, length / 2, length.saturating_sub(1)] {
            if at < length {
                add(&|message| message.input[at] ^= 0x80);
            }
        }
        add(&|message| message.aad[32] ^= 1);
        add(&|message| message.aad.clear());
        add(&|message| message.aad.push(0));
        add(&|message| message.iv = iv_of(12));
        add(&|message| {
            message.key = Key::new(&bytes(99, message.key.as_ref().map_or(1, Key::len))).ok()
        });
        add(&|message| message.input.push(0));
        if length > 0 {
            add(&|message| message.input.truncate(length + 15));
            add(&|message| message.input.truncate(16));
        }
        subject.expect(None, &cases)?;
        let key = good.message.key.clone();
        for case in &mut cases {
            // Cases with another key are unchanged.
            let same = case.message.key.as_ref().map(Key::bytes) == key.as_ref().map(Key::bytes);
            case.message.key = case.message.key.take().filter(|_| !same);
        }
        subject.expect(key.as_ref(), &cases)?;
    }
    Ok(())
}

fn badly_padded(subject: &Subject<'_>) -> Verdict {
    let block = subject.cipher.block_length();
    let good = subject.case(3, 3 * block + 5, Padding::Pkcs7)?;
    let mut cases = vec![good.clone()];
    let endings: [&[u8]; 8] = [
        &[0],
        &[block as u8 + 1],
        &[0xFF],
        &[3, 2],
        &[0, 3, 3],
        &[4, 4, 5, 4],
        &[9, 8, 7, 6, 5],
        &[0x80, 0, 0, 0],
    ];
    for ending in endings {
        // Wrongly padded, and then encrypted without padding.
        let mut plain = subject.plain(3, 4 * block, Padding::None);
        let at = plain.input.len() - ending.len();
        plain.input[at..].copy_from_slice(ending);
        let message = Message { input: subject.encrypt(&plain)?, padding: Padding::Pkcs7, ..plain };
        cases.extend([Case { message, expected: Expected::Forged }, good.clone()]);
    }
    subject.expect(None, &cases)
}

fn iv_of(length: usize) -> Iv {
    Iv::new(&bytes(4, length)).unwrap_or(Iv::NONE)
}
