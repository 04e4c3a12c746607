//! Random batches of jobs, for every kernel that this CPU can run. GCM is compared with the portable
//! kernel here, and with OpenSSL in the engine's own tests.

mod common;

use std::env;

use common::{Random, encrypt, offers};
use evener_core::{Cipher, Direction, Iv, Job, Key, Mode, Outcome, Padding, Rejection};
use evener_lanes::stream::{Gcm, Text};
use evener_lanes::{Kernel, available};

/// `EVENER_LANES_MESSAGES` sets the approximate number of messages; 5,000 by default.
#[test]
fn random_batches_give_what_the_standard_says() {
    let wanted = env::var("EVENER_LANES_MESSAGES").ok().and_then(|number| number.parse().ok());
    let wanted: usize = wanted.unwrap_or(5_000);
    let mut random = Random(11);
    let mut count = 0;
    if available().is_empty() {
        evener_core::skipped!("this CPU can run no kernel");
        return;
    }
    while count < wanted {
        for kernel in available() {
            for (cipher, direction) in offers(kernel) {
                count += batch(&mut random, kernel, cipher, direction);
            }
        }
    }
    println!("{count} messages");
}

/// Messages of all lengths that use separate code, with a forged one among those to decrypt.
#[test]
fn batches_of_gcm_give_what_the_portable_kernel_does() {
    const GCM: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm];
    let mut random = Random(12);
    for kernel in available() {
        for cipher in GCM.into_iter().filter(|&cipher| kernel.does(cipher, Direction::Encrypt)) {
            for round in 0..24 {
                let keys = [cipher; 3].map(|cipher| random.bytes(cipher.key_length()));
                let longest = [20, 150, 700, 9000][round % 4];
                let messages: Vec<_> = (0..20)
                    .map(|_| {
                        let key = keys[random.below(3)].clone();
                        let lengths = [longest, [40, 200][round % 2]];
                        let [plain, aad] = lengths.map(|longest| {
                            let length = random.below(longest);
                            random.bytes(length)
                        });
                        let iv = random.bytes(12);
                        let mut sealed = plain.clone();
                        let mut gcm = Gcm::new(Kernel::portable(), &key).unwrap();
                        gcm.start(&iv).unwrap();
                        gcm.add_data(&aad).unwrap();
                        gcm.transform(Direction::Encrypt, Text::InPlace(&mut sealed)).unwrap();
                        sealed.extend(gcm.tag().unwrap());
                        (key, iv, aad, plain, sealed)
                    })
                    .collect();
                let own = keys.each_ref().map(|key| Key::new(key).unwrap());
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    let forged = random.below(messages.len());
                    let inputs: Vec<_> = messages
                        .iter()
                        .enumerate()
                        .map(|(index, (.., plain, sealed))| match direction {
                            Direction::Encrypt => plain.clone(),
                            Direction::Decrypt => {
                                let mut sealed = sealed.clone();
                                let place = random.below(sealed.len());
                                sealed[place] ^= u8::from(index == forged) << random.below(8);
                                sealed
                            }
                        })
                        .collect();
                    let mut outputs: Vec<_> =
                        inputs.iter().map(|input| vec![CANARY; input.len() + 16]).collect();
                    let mut jobs: Vec<_> = messages
                        .iter()
                        .zip(&inputs)
                        .zip(&mut outputs)
                        .map(|(((key, iv, aad, ..), input), output)| Job {
                            // The first key is the session's.
                            key: (1..3).find(|&own| keys[own] == *key).map(|place| &own[place]),
                            aad,
                            ..Job::new(Iv::new(iv).unwrap(), input, output)
                        })
                        .collect();
                    kernel.prepare(cipher, direction, Some(&own[0])).unwrap().process(&mut jobs);
                    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
                    for (index, (.., plain, sealed)) in messages.iter().enumerate() {
                        let place = format!("{} {direction} {cipher}, {index}", kernel.name());
                        let (expected, output) = match direction {
                            Direction::Encrypt => (sealed, &outputs[index]),
                            Direction::Decrypt => (plain, &outputs[index]),
                        };
                        if direction == Direction::Decrypt && index == forged {
                            assert_eq!(
                                outcomes[index],
                                Outcome::Rejected(Rejection::Tag),
                                "{place}"
                            );
                            assert!(output[..plain.len()].iter().all(|&byte| byte == 0), "{place}");
                            continue;
                        }
                        let written = expected.len();
                        assert_eq!(outcomes[index], Outcome::Done { written }, "{place}");
                        assert!(output[..written] == expected[..], "{place}: the bytes differ");
                        assert!(output[written..].iter().all(|&byte| byte == CANARY), "{place}");
                    }
                }
            }
        }
    }
}

struct Message {
    key: Option<Key>,
    iv: Iv,
    padding: Padding,
    input: Vec<u8>,
    expected: Vec<u8>,
    outcome: Outcome,
}

fn batch(random: &mut Random, kernel: Kernel, cipher: Cipher, direction: Direction) -> usize {
    let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
    let most = [5, 40, 200][random.below(3)];
    let count = 1 + random.below(most);
    let longest = [17, 65, 300, 2000][random.below(4)];
    let one_length = random.below(3) == 0;
    // Rows of uniform messages use separate code.
    let all_alike = random.below(2) == 0;
    let own_keys = if all_alike { 0 } else { random.below(3) };
    let mut length = random.below(longest);
    if all_alike && random.below(2) == 0 {
        length = length.next_multiple_of(64);
    }
    let messages: Vec<_> = (0..count)
        .map(|index| {
            let is_odd = all_alike && index > 40 && random.below(100) == 0;
            if !one_length && !all_alike || is_odd {
                length = random.below(longest);
            }
            let own = own_keys == 2 || own_keys == 1 && random.below(4) == 0 || is_odd;
            let pads = !all_alike && random.below(2) == 0;
            message(random, cipher, direction, &key, own, pads, length)
        })
        .collect();
    let mut outputs: Vec<_> = messages
        .iter()
        .map(|message| {
            let (offset, room) = (random.below(64), message.input.len() + 16);
            (offset, vec![CANARY; offset + room + random.below(70)])
        })
        .collect();
    let mut jobs: Vec<_> = messages
        .iter()
        .zip(&mut outputs)
        .map(|(message, (offset, output))| Job {
            key: message.key.as_ref(),
            padding: message.padding,
            ..Job::new(message.iv, &message.input, &mut output[*offset..])
        })
        .collect();
    kernel.prepare(cipher, direction, Some(&key)).unwrap().process(&mut jobs);
    let lengths: Vec<_> = jobs.iter().map(|job| job.output_length(cipher, direction)).collect();
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    for (index, (message, (offset, output))) in messages.iter().zip(&outputs).enumerate() {
        let place = format!("{} {direction} {cipher}, {index} of {count}", kernel.name());
        assert_eq!(outcomes[index], message.outcome, "{place}");
        let (before, rest) = output.split_at(*offset);
        let (result, after) = rest.split_at(lengths[index]);
        if let Outcome::Done { written } = message.outcome {
            assert!(result[..written] == message.expected, "{place}: the bytes differ");
        }
        assert!(before.iter().chain(after).all(|&byte| byte == CANARY), "{place}");
    }
    count
}

fn message(
    random: &mut Random,
    cipher: Cipher,
    direction: Direction,
    session_key: &Key,
    own: bool,
    pads: bool,
    length: usize,
) -> Message {
    let pads = pads && cipher.mode() != Mode::Ctr;
    let padding = if pads { Padding::Pkcs7 } else { Padding::None };
    let length = if pads { length } else { length - length % cipher.block_length() };
    let key = own.then(|| Key::new(&random.bytes(cipher.key_length())).unwrap());
    let mut iv = random.bytes(cipher.iv_length());
    if cipher.mode() == Mode::Ctr && random.below(4) == 0 {
        // Counters about to carry into their high half, or to wrap.
        iv[random.below(9)..15].fill(0xFF);
    }
    let text = random.bytes(length);
    let sealed = encrypt(cipher, key.as_ref().unwrap_or(session_key), &iv, padding, &text);
    let iv = Iv::new(&iv).unwrap();
    let done = |written| Outcome::Done { written };
    match direction {
        Direction::Encrypt => {
            let outcome = done(sealed.len());
            Message { key, iv, padding, input: text, expected: sealed, outcome }
        }
        Direction::Decrypt if pads && random.below(8) == 0 => {
            let outcome = Outcome::Rejected(Rejection::Malformed(
                "the message is not a whole number of blocks",
            ));
            let input = sealed[1..].to_vec();
            Message { key, iv, padding, input, expected: Vec::new(), outcome }
        }
        Direction::Decrypt => {
            Message { key, iv, padding, input: sealed, outcome: done(length), expected: text }
        }
    }
}

const CANARY: u8 = 0xA5;
