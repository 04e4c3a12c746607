//! Published examples, and every number of messages up to 17, for every kernel that this CPU can
//! run.

mod common;

use std::fs;
use std::path::Path;

use common::{Random, encrypt, offers};
use evener_core::{Cipher, Direction, Iv, Job, Key, Mode, Outcome, Padding};
use evener_lanes::stream::{Chain, Confidential, Text};
use evener_lanes::{Kernel, available};

/// FIPS 197, appendix C.
#[test]
fn examples_of_the_standard_hold() {
    let (key, plain) = (counting(32, 0x01), counting(16, 0x11));
    for (cipher, sealed) in [
        (Cipher::Aes128Ecb, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (Cipher::Aes192Ecb, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (Cipher::Aes256Ecb, "8ea2b7ca516745bfeafc49904b496089"),
    ] {
        let key = key[..cipher.key_length()].to_vec();
        let (plain, sealed) = (plain.clone(), from_hex(sealed));
        judge(&[Message { cipher, key, iv: Vec::new(), plain, sealed }]);
    }
}

/// The vectors of NIST and of other sources, nine at once: one more than eight lanes.
#[test]
fn published_vectors_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    for file in ["aes-ecb.txt", "aes-cbc.txt", "aes-ctr.txt"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let messages: Vec<_> = text.lines().filter_map(Message::read).collect();
        assert!(messages.len() > 5, "{file}");
        for messages in messages.chunk_by(|one, next| one.cipher == next.cipher) {
            messages.chunks(9).for_each(judge);
        }
    }
}

/// The messages differ in length.
#[test]
fn any_number_of_messages_is_done() {
    let mut random = Random(51);
    for cipher in Cipher::ALL.iter().copied() {
        if !available().iter().any(|&kernel| offers(kernel).iter().any(|offer| offer.0 == cipher)) {
            continue;
        }
        for count in 1..=17 {
            let messages: Vec<_> = (0..count)
                .map(|_| {
                    let (key, iv) = (random.bytes(cipher.key_length()), random.bytes(16));
                    let unit = if cipher.mode() == Mode::Ctr { 1 } else { 16 };
                    let length = random.below(400) / unit * unit;
                    let plain = random.bytes(length);
                    let iv = iv[..cipher.iv_length()].to_vec();
                    let sealed =
                        encrypt(cipher, &Key::new(&key).unwrap(), &iv, Padding::None, &plain);
                    Message { cipher, key, iv, plain, sealed }
                })
                .collect();
            judge(&messages);
        }
    }
}

/// A message in one of the modes of NIST SP 800-38A.
struct Message {
    cipher: Cipher,
    key: Vec<u8>,
    iv: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Message {
    /// Reads a line of a file of vectors; `None` if it has another subject.
    fn read(line: &str) -> Option<Message> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [cipher, key, iv, "-", plain, sealed] = fields[..] else { return None };
        let [key, iv, plain, sealed] = [key, iv, plain, sealed].map(from_hex);
        Some(Message { cipher: cipher.parse().ok()?, key, iv, plain, sealed })
    }

    /// The input and the expected output.
    fn sides(&self, direction: Direction) -> (&[u8], &[u8]) {
        match direction {
            Direction::Encrypt => (&self.plain, &self.sealed),
            Direction::Decrypt => (&self.sealed, &self.plain),
        }
    }
}

/// Processes messages of one cipher with every kernel: all at once, each with its own key, and the
/// first again in place.
fn judge(messages: &[Message]) {
    let cipher = messages[0].cipher;
    for kernel in available() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if kernel.does(cipher, direction) {
                at_once(kernel, direction, messages);
                in_place(kernel, direction, &messages[0]);
            }
        }
    }
}

fn at_once(kernel: Kernel, direction: Direction, messages: &[Message]) {
    let cipher = messages[0].cipher;
    let keys: Vec<_> = messages.iter().map(|message| Key::new(&message.key).unwrap()).collect();
    let mut outputs: Vec<_> = messages.iter().map(|message| vec![0; message.plain.len()]).collect();
    let mut jobs: Vec<_> = messages
        .iter()
        .zip(&keys)
        .zip(&mut outputs)
        .map(|((message, key), output)| Job {
            key: Some(key),
            ..Job::new(Iv::new(&message.iv).unwrap(), message.sides(direction).0, output)
        })
        .collect();
    kernel.prepare(cipher, direction, None).unwrap().process(&mut jobs);
    let is_done = |job: &Job<'_>| job.outcome == Outcome::Done { written: job.input.len() };
    assert!(jobs.iter().all(is_done), "{} {direction} {cipher}", kernel.name());
    for (message, output) in messages.iter().zip(&outputs) {
        assert!(output == message.sides(direction).1, "{} {direction} {cipher}", kernel.name());
    }
}

fn in_place(kernel: Kernel, direction: Direction, message: &Message) {
    let (cipher, (from, to)) = (message.cipher, message.sides(direction));
    let mut iv = [0; 16];
    iv[..message.iv.len()].copy_from_slice(&message.iv);
    let confidential = Confidential::new(kernel, cipher.mode(), direction, &message.key).unwrap();
    let mut text = from.to_vec();
    confidential.transform(&mut Chain::new(iv), Text::InPlace(&mut text)).unwrap();
    assert!(text == to, "{} {direction} {cipher} in place", kernel.name());
}

/// This many multiples of `by`, from zero.
fn counting(count: u8, by: u8) -> Vec<u8> {
    (0..count).map(|place| place * by).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = if text == "-" { "" } else { text };
    let byte = |pair: &str| u8::from_str_radix(pair, 16).unwrap();
    (0..digits.len() / 2).map(|place| byte(&digits[2 * place..][..2])).collect()
}
