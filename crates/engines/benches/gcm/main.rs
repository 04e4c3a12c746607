//! Compares GCM of messages in the cache, in the engine `lanes` and in a bare loop over OpenSSL's
//! EVP with one reused context, on one core.
//!
//! `cargo bench -p evener-engines --bench gcm [-- KERNEL]` prints nanoseconds per message, medians
//! of rounds that alternate between the two in one process, and how many times faster the kernel
//! is: with one message per call, and with many. The rounds are so short that the median stays the
//! same while other programs compete for the core.

#[path = "../openssl_overhead/sys.rs"]
mod sys;

use std::hint::black_box;
use std::iter::repeat_n;
use std::time::{Duration, Instant};

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome, Session, SessionRequest};
use evener_engines::lanes::Arena;
use sys::Bare;

fn main() {
    let kernel = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let engine = kernel.map_or("lanes".to_owned(), |kernel| format!("lanes:{kernel}"));
    let found = evener_engines::find(&engine).unwrap_or_else(|error| panic!("{error}"));
    println!("# {}; {ROUNDS} rounds", openssl::version::version());
    println!("# {engine}: {}", found.description().detail);
    println!("cipher       direction   bytes  a call   EVP ns  lanes ns   ratio");
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let request = SessionRequest { cipher, direction, key: Some(&key(cipher)) };
            let mut session = found.open(&request).expect("the kernel does GCM");
            for length in LENGTHS {
                for count in [1, BATCH] {
                    let [evp, lanes] = measure(&mut *session, cipher, direction, length, count);
                    println!(
                        "{cipher:12} {direction:9} {length:>7} {count:>7} {evp:>8.1} {lanes:>9.1} {:>7.3}",
                        evp / lanes,
                    );
                }
            }
        }
    }
}

/// Median nanoseconds per message, in the bare loop and in the engine.
fn measure(
    session: &mut dyn Session,
    cipher: Cipher,
    direction: Direction,
    length: usize,
    count: usize,
) -> [f64; 2] {
    let iv = Iv::new(&[3; 12]).expect("GCM's nonces have 12 bytes");
    let tag = cipher.tag_length();
    let plain = vec![7; length];
    let mut sealed = vec![0; length + tag];
    Bare::new(cipher, Direction::Encrypt, &key(cipher)).message(
        None,
        iv.bytes(),
        &plain,
        &mut sealed,
    );
    let (input, expected) = match direction {
        Direction::Encrypt => (&plain, &sealed),
        Direction::Decrypt => (&sealed, &plain),
    };
    // Both read and write the same memory, because alignment and cache sets matter.
    let (mut inputs, mut outputs) = (Arena::new(), Arena::new());
    let mut places: Vec<_> = inputs
        .buffers(repeat_n(input.len(), count))
        .zip(outputs.buffers(repeat_n(length + tag, count)))
        .collect();
    places.iter_mut().for_each(|(from, _)| from.copy_from_slice(input));

    let messages = (ROUND_BYTES / length.max(LINE)).max(count).next_multiple_of(count);
    let mut bare = Bare::new(cipher, direction, &key(cipher));
    let mut with_evp = |places: &mut Places<'_>| {
        let start = Instant::now();
        for _ in 0..messages / count {
            for (from, to) in &mut *places {
                bare.message(None, iv.bytes(), black_box(from), to);
            }
        }
        start.elapsed()
    };
    let mut with_lanes = |places: &mut Places<'_>| {
        let jobs = places.iter_mut().map(|(from, to)| Job::new(iv, from, to));
        let mut jobs: Vec<_> = jobs.collect();
        let start = Instant::now();
        for _ in 0..messages / count {
            jobs.iter_mut().for_each(|job| job.outcome = Outcome::Pending);
            session.process(black_box(&mut jobs)).expect("the session has a key");
        }
        start.elapsed()
    };

    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(with_evp(&mut places));
        places.iter_mut().for_each(|(_, to)| to.fill(0));
        times[1].push(with_lanes(&mut places));
        assert!(places.iter().all(|(_, to)| to.starts_with(expected)), "the results differ");
    }
    times.map(|times| median(times).as_nanos() as f64 / messages as f64)
}

/// The places of each message and of its result.
type Places<'a> = Vec<(&'a mut [u8], &'a mut [u8])>;

fn key(cipher: Cipher) -> Key {
    Key::new(&vec![1; cipher.key_length()]).expect("a cipher's key is of a valid length")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The lengths of messages, in bytes.
const LENGTHS: [usize; 6] = [64, 256, 1_024, 4_096, 8_192, 16_384];

/// The number of messages per call, where there are many.
const BATCH: usize = 16;

const ROUNDS: usize = 501;

/// The bytes to process between two readings of the clock.
const ROUND_BYTES: usize = 256 << 10;

const LINE: usize = 64;
