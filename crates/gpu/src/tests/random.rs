//! Random batches, compared with OpenSSL: lengths around blocks, mixed keys, additional data of any
//! length, counters that wrap, forged messages, and bytes around outputs that must not change.

use std::env;

use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Mode, Outcome, Padding, Rejection, Session,
    SessionRequest,
};

use super::Random;

/// A message and its buffers.
pub(super) struct Message {
    pub(super) key: Option<usize>,
    pub(super) iv: Iv,
    pub(super) aad: Vec<u8>,
    pub(super) padding: Padding,
    pub(super) input: Vec<u8>,
    /// The output, with bytes before and after it.
    output: Vec<u8>,
    pub(super) room: usize,
}

/// A cipher and direction, open in both engines.
pub(super) struct Pair {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    pub(super) keys: Vec<Key>,
    pub(super) ours: Box<dyn Session>,
    pub(super) theirs: Box<dyn Session>,
    /// OpenSSL's session, for making ciphertext.
    encryptor: Box<dyn Session>,
}

#[test]
fn random_batches_are_those_of_openssl() {
    for (device, seed) in super::layouts().into_iter().zip([0x6770_7521, 0x6770_7522]) {
        run(&*super::engine(device), Random(seed));
    }
}

fn run(ours: &dyn Engine, mut random: Random) {
    let theirs = evener_engines::find("openssl").unwrap();
    let batches = match env::var("EVENER_GPU_BATCHES") {
        Ok(number) => number.parse().expect("EVENER_GPU_BATCHES is a number"),
        Err(_) => USUAL_BATCHES,
    };
    let mut pairs = pairs(ours, &*theirs, &mut random);
    let (mut messages, mut rejected) = (0, 0);
    for batch in 0..batches {
        // In a large batch each thread has several blocks, of one message or of different ones.
        let (number, count) = match batch % 100 {
            0 => (batch / 100 % pairs.len(), 300),
            _ => (random.below(pairs.len()), 1 + random.below(12)),
        };
        let pair = &mut pairs[number];
        // This many are bitsliced.
        let is_des = (pair.cipher, pair.direction) == (Cipher::DesEde3Cbc, Direction::Decrypt);
        let count = if is_des && count == 300 { 1_200 } else { count };
        let batch_of: Vec<_> = (0..count).map(|_| message(pair, &mut random)).collect();
        messages += batch_of.len();
        rejected += compare(pair, batch_of, batch);
    }
    println!("{batches} batches, {messages} messages, {rejected} of them rejected");
    assert!(batches < 100 || rejected > 0, "nothing was forged");
}

/// Sessions for all ciphers of OpenSSL, in both directions; a GPU has no Blowfish.
pub(super) fn pairs(ours: &dyn Engine, theirs: &dyn Engine, random: &mut Random) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for &cipher in Cipher::ALL.iter().filter(|cipher| **cipher != Cipher::BfCbc) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if theirs.offer(cipher, direction).is_some() {
                pairs.push(open(ours, theirs, cipher, direction, random));
            }
        }
    }
    pairs
}

fn open(
    ours: &dyn Engine,
    theirs: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
    random: &mut Random,
) -> Pair {
    let keys: Vec<_> =
        (0..5).map(|_| Key::new(&random.bytes(cipher.key_length())).unwrap()).collect();
    let open = |engine: &dyn Engine, direction| {
        engine.open(&SessionRequest { cipher, direction, key: Some(&keys[0]) }).unwrap()
    };
    let (ours, encryptor) = (open(ours, direction), open(theirs, Direction::Encrypt));
    let theirs = open(theirs, direction);
    Pair { cipher, direction, keys, ours, theirs, encryptor }
}

/// A message of random shape; one in eight of those to decrypt is forged.
pub(super) fn message(pair: &mut Pair, random: &mut Random) -> Message {
    let (cipher, block) = (pair.cipher, pair.cipher.block_length());
    let length = match random.below(16) {
        0 => random.below(30_000),
        1..6 => random.one_of(&[0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257]),
        _ => random.below(700),
    };
    let padding = match block {
        1 => Padding::None,
        _ => random.one_of(&[Padding::None, Padding::Pkcs7]),
    };
    let length = match padding {
        Padding::None if cipher.mode() == Mode::Xts => length.max(16),
        Padding::None => length / block * block,
        Padding::Pkcs7 => length,
    };
    let iv = match random.below(4) {
        // The counter of CTR wraps.
        0 => vec![0xFF; cipher.iv_length()],
        _ => random.bytes(cipher.iv_length()),
    };
    let aad = if cipher.is_authenticated() { random.below(70) } else { 0 };
    let mut message = Message {
        key: (random.below(2) == 0).then(|| random.below(pair.keys.len())),
        iv: Iv::new(&iv).unwrap(),
        aad: random.bytes(aad),
        padding,
        input: random.bytes(length),
        output: Vec::new(),
        room: 0,
    };
    if pair.direction == Direction::Decrypt {
        message.input = encrypted(pair, &message);
        if random.below(8) == 0 && !message.input.is_empty() {
            let place = random.below(message.input.len());
            message.input[place] ^= 1 << random.below(8);
        }
    }
    let mut none = [];
    let job = Job { padding, ..Job::new(message.iv, &message.input, &mut none) };
    message.room = job.output_length(cipher, pair.direction);
    message.output = vec![FILL; message.room + 2 * GUARD];
    message
}

fn encrypted(pair: &mut Pair, message: &Message) -> Vec<u8> {
    let mut output = vec![0; message.input.len() + 32];
    let mut batch = [job(&pair.keys, message, &mut output)];
    pair.encryptor.process(&mut batch).unwrap();
    let Outcome::Done { written } = batch[0].outcome else { panic!("not encrypted") };
    output.truncate(written);
    output
}

pub(super) fn job<'a>(keys: &'a [Key], message: &'a Message, output: &'a mut [u8]) -> Job<'a> {
    Job {
        key: message.key.map(|number| &keys[number]),
        aad: &message.aad,
        padding: message.padding,
        ..Job::new(message.iv, &message.input, output)
    }
}

/// Processes the batch with both engines, and returns the number of messages that they rejected.
fn compare(pair: &mut Pair, mut messages: Vec<Message>, number: usize) -> usize {
    let (cipher, direction) = (pair.cipher, pair.direction);
    let mut expected = Vec::new();
    for message in &messages {
        let mut output = vec![0; message.room];
        let mut batch = [job(&pair.keys, message, &mut output)];
        pair.theirs.process(&mut batch).unwrap();
        expected.push((batch[0].outcome, output));
    }
    let mut outputs: Vec<_> =
        messages.iter_mut().map(|message| std::mem::take(&mut message.output)).collect();
    let mut batch: Vec<_> = messages
        .iter()
        .zip(&mut outputs)
        .map(|(message, output)| {
            let end = GUARD + message.room;
            job(&pair.keys, message, &mut output[GUARD..end])
        })
        .collect();
    pair.ours.process(&mut batch).unwrap();
    let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
    let mut rejected = 0;
    for (index, (outcome, (wanted, result))) in outcomes.into_iter().zip(expected).enumerate() {
        let (output, message) = (&outputs[index], &messages[index]);
        let what = format!(
            "{cipher} {direction}, batch {number}, job {index}, {} bytes, {} of additional data",
            message.input.len(),
            message.aad.len()
        );
        assert_eq!(outcome, wanted, "{what}");
        let inside = GUARD..GUARD + message.room;
        let around = output[..inside.start].iter().chain(&output[inside.end..]);
        assert!(around.into_iter().all(|&byte| byte == FILL), "{what}: wrote around its output");
        match outcome {
            Outcome::Done { written } => {
                assert!(output[inside][..written] == result[..written], "{what}: wrong output");
            }
            Outcome::Rejected(Rejection::Tag | Rejection::Padding) => {
                rejected += 1;
                assert!(output[inside].iter().all(|&byte| byte == FILL), "{what}: left plaintext");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    rejected
}

pub(super) const FILL: u8 = 0xA5;
pub(super) const GUARD: usize = 40;

/// `make test-nightly` runs more.
const USUAL_BATCHES: usize = 10_000;
