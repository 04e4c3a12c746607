//! Random batches against the `openssl` engine.

use std::env;

use evener_core::{Cipher, Direction, Engine, Key, Mode, Outcome, SessionRequest};

use super::messages::{Message, Random, engines, offers};
use crate::lanes::Arena;

/// `EVENER_LANES_MESSAGES` sets the approximate number of messages; 20,000 if it is not set.
#[test]
fn random_batches_give_what_openssl_gives() {
    let wanted = env::var("EVENER_LANES_MESSAGES").ok().and_then(|number| number.parse().ok());
    let wanted: usize = wanted.unwrap_or(20_000);
    let mut random = Random(1);
    let engines = engines();
    let mut count = 0;
    while count < wanted && !engines.is_empty() {
        for engine in &engines {
            for (cipher, direction) in offers(&**engine) {
                count += batch(&mut random, &**engine, cipher, direction);
            }
        }
    }
    println!("{count} messages");
}

/// Outputs this large are written around the cache, if they begin on cache lines.
#[test]
fn large_batches_give_what_openssl_gives() {
    let mut random = Random(2);
    for engine in engines() {
        for (cipher, direction) in offers(&*engine) {
            let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
            let lengths = (0..60).map(|index| 180_000 + index * 16);
            let messages: Vec<_> = lengths
                .map(|length| Message::random(&mut random, cipher, direction, &key, false, length))
                .collect();
            let mut arena = Arena::new();
            let lengths = messages.iter().map(|message| message.output_length(cipher, direction));
            let outputs: Vec<_> = arena.buffers(lengths).collect();
            check(&*engine, cipher, direction, &key, &messages, outputs);
        }
    }
}

/// The kernels of GCM have tables for a counter's last byte, and hash chunks of 256 and 512 bytes.
#[test]
fn counters_that_carry_give_what_openssl_gives() {
    let mut random = Random(3);
    let lengths = [4_063, 4_064, 4_065, 4_096, 4_607, 4_608, 8_160, 16_384, (1 << 20) + 5_000];
    for engine in engines() {
        let is_gcm = |offer: &(Cipher, Direction)| offer.0.mode() == Mode::Gcm;
        for (cipher, direction) in offers(&*engine).into_iter().filter(is_gcm) {
            let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
            for own_key in [false, true] {
                let messages = lengths.map(|length| {
                    Message::random(&mut random, cipher, direction, &key, own_key, length)
                });
                let mut arena = Arena::new();
                let lengths = messages.each_ref();
                let lengths = lengths.map(|message| message.output_length(cipher, direction));
                let outputs = arena.buffers(lengths.into_iter()).collect();
                check(&*engine, cipher, direction, &key, &messages, outputs);
            }
        }
    }
}

/// Runs one random batch and returns its number of messages.
fn batch(random: &mut Random, engine: &dyn Engine, cipher: Cipher, direction: Direction) -> usize {
    let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
    let most = if random.below(4) == 0 { 200 } else { 40 };
    let count = 1 + random.below(most);
    let longest = [17, 65, 300, 2000, 9000][random.below(5)];
    let one_length = random.below(3) == 0;
    let own_keys = random.below(3);
    let mut length = random.below(longest);
    let messages: Vec<_> = (0..count)
        .map(|_| {
            if !one_length {
                length = random.below(longest);
            }
            let own_key = own_keys == 2 || own_keys == 1 && random.below(4) == 0;
            Message::random(random, cipher, direction, &key, own_key, length)
        })
        .collect();
    let mut outputs: Vec<_> = messages
        .iter()
        .map(|message| {
            let (offset, length) = (random.below(64), message.output_length(cipher, direction));
            (offset, vec![CANARY; offset + length + random.below(70)])
        })
        .collect();
    let slices = outputs.iter_mut().map(|(offset, bytes)| &mut bytes[*offset..]).collect();
    check(engine, cipher, direction, &key, &messages, slices);
    for ((offset, bytes), message) in outputs.iter().zip(&messages) {
        let end = offset + message.output_length(cipher, direction);
        let outside = bytes[..*offset].iter().chain(&bytes[end..]);
        assert!(outside.copied().all(|byte| byte == CANARY), "{cipher} {direction}");
    }
    count
}

fn check(
    engine: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
    key: &Key,
    messages: &[Message],
    outputs: Vec<&mut [u8]>,
) {
    let request = SessionRequest { cipher, direction, key: Some(key) };
    let mut session = engine.open(&request).unwrap();
    let mut batch: Vec<_> = messages
        .iter()
        .zip(outputs)
        .map(|(message, output)| message.job(&message.input, output))
        .collect();
    session.process(&mut batch).unwrap();
    let name = &engine.description().name;
    for (index, (job, message)) in batch.iter().zip(messages).enumerate() {
        let place = format!("{name} {direction} {cipher}, message {index} of {}", batch.len());
        assert_eq!(job.outcome, message.outcome, "{place}");
        if let Outcome::Done { written } = job.outcome {
            assert!(job.output[..written] == message.expected, "{place}: the bytes differ");
        }
    }
}

const CANARY: u8 = 0xA5;
