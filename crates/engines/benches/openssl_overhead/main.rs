//! Compares a job in the `openssl` engine with the same message in a bare EVP loop.
//!
//! `cargo bench -p evener-engines [-- CIPHER]` prints nanoseconds per message for both, medians of
//! rounds that alternate between them, on one thread with its buffers warm in the cache.

mod sys;

use std::hint::black_box;
use std::time::Instant;

use evener_core::{Cipher, Direction, Iv, Job, Key, Session, SessionRequest};
use sys::Bare;

fn main() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("# {}, {cores} cores, {ROUNDS} rounds", openssl::version::version());
    println!("cipher             direction  key     bytes  bare ns  engine ns   ratio");
    let wanted = std::env::args().nth(1).and_then(|name| name.parse::<Cipher>().ok());
    let ciphers = [Cipher::Aes256Gcm, Cipher::Aes128Cbc, Cipher::ChaCha20Poly1305];
    for cipher in ciphers.into_iter().filter(|&cipher| wanted.is_none_or(|name| name == cipher)) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for fresh_key in [false, true] {
                for length in [0, 16, 1_024, 16_384] {
                    let (bare, engine) = measure(cipher, direction, fresh_key, length);
                    println!(
                        "{cipher:18} {direction:9}  {:5} {length:>7} {bare:>8.1} {engine:>10.1} {:>7.3}",
                        if fresh_key { "fresh" } else { "same" },
                        engine / bare,
                    );
                }
            }
        }
    }
}

/// Median nanoseconds per message, in the bare loop and in the engine.
fn measure(cipher: Cipher, direction: Direction, fresh_key: bool, length: usize) -> (f64, f64) {
    let keys = [1, 2].map(|byte| Key::new(&vec![byte; cipher.key_length()]).unwrap());
    let iv = Iv::new(&[3; Iv::MAX_LENGTH][..cipher.iv_length()]).unwrap();
    let engine = evener_engines::find("openssl").unwrap();
    let plaintext = vec![7; length];
    let ciphertexts = [0, 1].map(|at| {
        let request =
            SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&keys[at]) };
        let mut output = vec![0; length + cipher.tag_length()];
        let mut session = engine.open(&request).unwrap();
        session.process(&mut [Job::new(iv, &plaintext, &mut output)]).unwrap();
        output
    });
    // Both write to the same memory, because alignment and cache sets matter at this scale.
    let mut output = vec![0; length + cipher.tag_length()];
    let key_of = |index: usize| if fresh_key { index % 2 } else { 0 };
    let input_of = |at: usize| match direction {
        Direction::Encrypt => &plaintext[..],
        Direction::Decrypt => &ciphertexts[at][..],
    };

    let mut bare = Bare::new(cipher, direction, &keys[0]);
    let mut bare_round = |messages: usize, output: &mut [u8]| {
        for index in 0..messages {
            let at = key_of(index);
            let key = fresh_key.then_some(&keys[at]);
            bare.message(key, iv.bytes(), black_box(input_of(at)), output);
        }
    };
    bare_round(64, &mut output);
    let estimate = once(&mut bare_round, 64, &mut output);
    let messages = (ROUND_NANOSECONDS / estimate) as usize + 1;

    let mut session: Box<dyn Session> =
        engine.open(&SessionRequest { cipher, direction, key: Some(&keys[0]) }).unwrap();
    let mut engine_round = |messages: usize, output: &mut [u8]| {
        for index in 0..messages {
            let at = key_of(index);
            let key = fresh_key.then_some(&keys[at]);
            let job = Job { key, ..Job::new(iv, black_box(input_of(at)), output) };
            session.process(&mut [job]).unwrap();
        }
    };
    engine_round(64, &mut output);

    let (mut bare_times, mut engine_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare_times.push(once(&mut bare_round, messages, &mut output));
        engine_times.push(once(&mut engine_round, messages, &mut output));
    }
    (median(bare_times), median(engine_times))
}

fn once(round: &mut impl FnMut(usize, &mut [u8]), messages: usize, output: &mut [u8]) -> f64 {
    let start = Instant::now();
    round(messages, output);
    start.elapsed().as_nanos() as f64 / messages as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

const ROUNDS: usize = 51;

const ROUND_NANOSECONDS: f64 = 1e6;
