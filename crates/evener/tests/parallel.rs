//! Several threads make of one buffer exactly the result of OpenSSL on one thread.

use std::num::NonZeroUsize;
use std::sync::Arc;

use evener::hazmat::{BufferError, Iv, ParallelCipher};
use evener::{Cipher, Direction, Key, Pool};
use evener_core::{Job, Outcome, Padding, SessionRequest};

/// OpenSSL's result for the whole message at once.
fn by_openssl(
    cipher: Cipher,
    direction: Direction,
    padding: Padding,
    iv: Iv,
    input: &[u8],
) -> Vec<u8> {
    let key = key(cipher);
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let mut output = vec![0; input.len() + 16];
    let mut batch = [Job { padding, ..Job::new(iv, input, &mut output) }];
    evener::engines::find("openssl").unwrap().open(&request).unwrap().process(&mut batch).unwrap();
    let Outcome::Done { written } = batch[0].outcome else { panic!("{:?}", batch[0].outcome) };
    output.truncate(written);
    output
}

fn key(cipher: Cipher) -> Key {
    Key::new(&(0..cipher.key_length() as u8).collect::<Vec<u8>>()).unwrap()
}

fn message(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}

fn pool(threads: usize) -> Arc<Pool> {
    Arc::new(Pool::new(NonZeroUsize::new(threads).unwrap()))
}

/// Runs every engine that a caller would use, out of place and in place, `shift` bytes into its
/// buffers, whose other bytes must stay unchanged.
fn check(cipher: Cipher, threads: usize, iv: Iv, length: usize, shift: usize) {
    let pool = pool(threads);
    let input = message(length + shift);
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let expected = by_openssl(cipher, direction, Padding::None, iv, &input[shift..]);
        let engines = ["openssl", "lanes"]
            .map(|engine| ParallelCipher::with_engine(cipher, &key(cipher), pool.clone(), engine));
        let default = ParallelCipher::new(cipher, &key(cipher), pool.clone());
        for parallel in engines.into_iter().chain([default]) {
            let parallel = match parallel {
                Ok(parallel) => parallel,
                Err(error) => {
                    evener_core::skipped!("{error}");
                    continue;
                }
            };
            let engine = &parallel.engine(direction).description().name;
            let what = format!("{cipher} {direction} {threads} {length} {shift} {engine}");
            let mut output = vec![0x5A; length + shift + 7];
            let (from, to) = (&input[shift..], &mut output[shift..]);
            let written = match direction {
                Direction::Encrypt => parallel.encrypt(iv, from, to),
                Direction::Decrypt => parallel.decrypt(iv, from, to),
            };
            assert_eq!(written, Ok(length), "{what}");
            assert!(output[shift..shift + length] == expected, "{what}");
            assert!(output[..shift].iter().chain(&output[shift + length..]).all(|&b| b == 0x5A));

            let mut data = input.clone();
            let done = match direction {
                Direction::Encrypt => parallel.encrypt_in_place(iv, &mut data[shift..]),
                Direction::Decrypt => parallel.decrypt_in_place(iv, &mut data[shift..]),
            };
            assert_eq!(done, Ok(()), "{what} in place");
            assert!(
                data[shift..] == expected && data[..shift] == input[..shift],
                "{what} in place"
            );
        }
    }
}

#[test]
fn counters_carry_over_every_boundary() {
    let mut ivs = vec![[0xFF; 16], [0; 16]];
    // The low 8, 32 and 64 bits overflow within the message: before, at and after the places where
    // it is cut. (With three threads there is a cut every 3,072 blocks.)
    for (bytes, before) in [(1, 5), (4, 1), (4, 3_072), (4, 3_073), (8, 1), (8, 3_072), (8, 9_000)]
    {
        let mut iv = [0x42; 16];
        let carry = (1_u128 << (8 * bytes)) - before;
        iv[16 - bytes..].copy_from_slice(&carry.to_be_bytes()[16 - bytes..]);
        ivs.push(iv);
        let mut iv = [0xFF; 16];
        iv[8..].copy_from_slice(&(u64::MAX - before as u64).to_be_bytes());
        ivs.push(iv);
    }
    for iv in ivs {
        check(Cipher::Aes128Ctr, 3, Iv::new(&iv).unwrap(), 800_001, 0);
    }
    for cipher in [Cipher::Aes192Ctr, Cipher::Aes256Ctr] {
        check(cipher, 3, Iv::new(&[0xFF; 16]).unwrap(), 800_001, 0);
    }
}

#[test]
fn every_number_of_threads_length_and_address_will_do() {
    let iv = Iv::new(&[0xFE; 16]).unwrap();
    for threads in [1, 2, 5, 16] {
        for length in [0, 1, 15, 16, 17, 65_537, 524_288, 1_048_577] {
            check(Cipher::Aes128Ctr, threads, iv, length, threads - 1);
        }
        for length in [0, 16, 524_304, 1_048_560] {
            check(Cipher::Aes128Cbc, threads, iv, length, 2 * threads - 1);
            check(Cipher::Aes128Ecb, threads, Iv::NONE, length, threads);
        }
    }
    check(Cipher::Aes256Cbc, 3, iv, 800_000, 5);
    let iv = Iv::new(&[7; 8]).unwrap();
    check(Cipher::DesEde3Cbc, 3, iv, 100_008, 3);
}

#[test]
fn a_long_buffer_is_streamed_to_any_address() {
    let iv = Iv::new(&[0xFF; 16]).unwrap();
    for shift in [0, 1, 16, 40] {
        check(Cipher::Aes128Ctr, 2, iv, (9 << 20) + 77, shift);
    }
}

#[test]
fn padding_is_that_of_the_whole_message() {
    let cipher = Cipher::Aes256Cbc;
    let iv = Iv::new(&[9; 16]).unwrap();
    let parallel = ParallelCipher::new(cipher, &key(cipher), pool(4)).unwrap().padded();
    for length in [0, 5, 16, 524_288, 600_000] {
        let plaintext = message(length);
        let ciphertext = by_openssl(cipher, Direction::Encrypt, Padding::Pkcs7, iv, &plaintext);
        let mut output = vec![0; length + 16];
        assert_eq!(parallel.encrypt(iv, &plaintext, &mut output), Ok(ciphertext.len()));
        assert!(output[..ciphertext.len()] == ciphertext);
        assert_eq!(parallel.decrypt(iv, &ciphertext, &mut output), Ok(length));
        assert!(output[..length] == plaintext);
    }
    let mut broken = by_openssl(cipher, Direction::Encrypt, Padding::Pkcs7, iv, &message(600_000));
    let last = broken.len() - 17;
    broken[last] ^= 0x80;
    let mut output = vec![0x5A; broken.len()];
    let rejected = parallel.decrypt(iv, &broken, &mut output);
    assert!(matches!(rejected, Err(BufferError::Rejected(_))), "{rejected:?}");
    assert!(output.iter().all(|&byte| byte == 0), "plaintext was left behind");
}

#[test]
fn what_can_not_be_done_is_said() {
    let new = |cipher, key: &[u8]| ParallelCipher::new(cipher, &Key::new(key).unwrap(), pool(2));
    assert!(matches!(new(Cipher::Aes128Gcm, &[1; 16]), Err(BufferError::Mode { .. })));
    assert!(matches!(new(Cipher::Aes128Xts, &[1; 32]), Err(BufferError::Mode { .. })));
    assert!(matches!(new(Cipher::Aes128Ctr, &[1; 24]), Err(BufferError::Engine(_))));
    let absent =
        ParallelCipher::with_engine(Cipher::Aes128Ctr, &key(Cipher::Aes128Ctr), pool(2), "x");
    assert!(matches!(absent, Err(BufferError::Engine(_))));

    let parallel = new(Cipher::Aes128Cbc, &[1; 16]).unwrap();
    let (iv, short) = (Iv::new(&[0; 16]).unwrap(), Iv::new(&[0; 12]).unwrap());
    let mut data = vec![3; 600_001];
    let rejected = |result| matches!(result, Err(BufferError::Rejected(_)));
    assert!(rejected(parallel.decrypt_in_place(iv, &mut data)));
    assert!(rejected(parallel.decrypt_in_place(short, &mut data[1..])));
    assert!(data.iter().all(|&byte| byte == 3));
    let ciphertext = vec![0; 600_000];
    assert!(rejected(parallel.decrypt(iv, &ciphertext, &mut data[..599_999]).map(|_| ())));
    assert!(!format!("{parallel:?}").contains("01"));
}
