//! The self-test of a kernel before it is offered.

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome};

use super::LanesEngine;
use crate::self_test;
use evener_lanes::Kernel;

/// Runs NIST SP 800-38A's examples in both directions, in every lane and with one message more. For
/// GCM, runs the test that every engine has, which also tries a forgery.
///
/// # Errors
/// The name of the cipher that failed.
pub(super) fn run(engine: &LanesEngine) -> Result<(), String> {
    let kernel = engine.kernel;
    for answer in ANSWERS {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if kernel.does(answer.cipher, direction) && !gives(kernel, answer, direction) {
                let (title, cipher) = (kernel.title(), answer.cipher);
                return Err(format!("{title} failed its self-test of {direction} {cipher}"));
            }
        }
    }
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if kernel.does(cipher, direction) {
                self_test::check(engine, cipher, direction).map_err(|error| {
                    let title = kernel.title();
                    format!("{title} failed its self-test of {direction} {cipher}: {error}")
                })?;
            }
        }
    }
    Ok(())
}

fn gives(kernel: Kernel, answer: &Answer, direction: Direction) -> bool {
    let (input, expected) = match direction {
        Direction::Encrypt => (&PLAINTEXT, &answer.ciphertext),
        Direction::Decrypt => (&answer.ciphertext, &PLAINTEXT),
    };
    let key =
        Key::new(&KEYS[answer.cipher.key_length() / 8 - 2][..answer.cipher.key_length()]).ok();
    let iv = Iv::new(&answer.iv[..answer.cipher.iv_length()]).ok();
    let (Some(key), Some(iv)) = (key, iv) else { return false };
    let Some(mut prepared) = kernel.prepare(answer.cipher, direction, Some(&key)) else {
        return false;
    };
    let mut outputs = vec![[0; PLAINTEXT.len()]; kernel.lanes() + 1];
    let mut jobs: Vec<_> =
        outputs.iter_mut().map(|output| Job::new(iv, input, &mut output[..])).collect();
    prepared.process(&mut jobs);
    let done = Outcome::Done { written: PLAINTEXT.len() };
    jobs.iter().all(|job| job.outcome == done) && outputs.iter().all(|output| output == expected)
}

/// An example of NIST SP 800-38A, appendix F.
struct Answer {
    cipher: Cipher,
    iv: [u8; 16],
    ciphertext: [u8; 64],
}

const ANSWERS: &[Answer] = &[
    Answer {
        cipher: Cipher::Aes128Ecb,
        iv: ZERO,
        ciphertext: hex("3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf\
             43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4"),
    },
    Answer {
        cipher: Cipher::Aes192Ecb,
        iv: ZERO,
        ciphertext: hex("bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef\
             ef7afd2270e2e60adce0ba2face6444e9a4b41ba738d6c72fb16691603c18e0e"),
    },
    Answer {
        cipher: Cipher::Aes256Ecb,
        iv: ZERO,
        ciphertext: hex("f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870\
             b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7"),
    },
    Answer {
        cipher: Cipher::Aes128Cbc,
        iv: CHAIN,
        ciphertext: hex("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
             73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"),
    },
    Answer {
        cipher: Cipher::Aes192Cbc,
        iv: CHAIN,
        ciphertext: hex("4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
             571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd"),
    },
    Answer {
        cipher: Cipher::Aes256Cbc,
        iv: CHAIN,
        ciphertext: hex("f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
             39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"),
    },
    Answer {
        cipher: Cipher::Aes128Ctr,
        iv: COUNTER,
        ciphertext: hex("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
             5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"),
    },
    Answer {
        cipher: Cipher::Aes192Ctr,
        iv: COUNTER,
        ciphertext: hex("1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94\
             1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050"),
    },
    Answer {
        cipher: Cipher::Aes256Ctr,
        iv: COUNTER,
        ciphertext: hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
             2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"),
    },
];

const PLAINTEXT: [u8; 64] = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
     30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");

/// The keys by length: 16, 24 and 32 bytes.
const KEYS: [[u8; 32]; 3] = [
    hex("2b7e151628aed2a6abf7158809cf4f3c"),
    hex("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b"),
    hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"),
];

const ZERO: [u8; 16] = [0; 16];
const CHAIN: [u8; 16] = hex("000102030405060708090a0b0c0d0e0f");
const COUNTER: [u8; 16] = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");

/// Bytes written in hexadecimal; zeros where there are no digits left.
const fn hex<const N: usize>(digits: &str) -> [u8; N] {
    let digits = digits.as_bytes();
    let mut bytes = [0; N];
    let mut index = 0;
    while index < digits.len() {
        let digit = match digits[index] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        bytes[index / 2] = bytes[index / 2] << 4 | digit;
        index += 1;
    }
    bytes
}
