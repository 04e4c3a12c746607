//! A known-answer test, fast enough for every program start.
//!
//! It detects a device with wrong results, a driver that is broken on this kernel, and a build with
//! the wrong code for this processor. The conformance suite is thorough.

use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Rejection, SessionRequest,
};

/// The result of the test of one cipher and direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// The cipher.
    pub cipher: Cipher,
    /// The direction.
    pub direction: Direction,
    /// The failure, if any.
    pub result: Result<(), SelfTestError>,
}

/// The reason why an engine failed its self-test and must not be used for the cipher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// There is no known answer for the cipher, or for the key that the engine holds.
    #[error("no known answer to compare with")]
    NoAnswer,
    /// The engine hung in an earlier test.
    #[error("not tested, because an earlier test hung")]
    Skipped,
    /// The engine offers the cipher but failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine rejected a valid message or did not process it.
    #[error("a valid message came back as {0:?}")]
    NotDone(Outcome),
    /// The result is wrong.
    #[error("the result is not the known answer")]
    WrongAnswer,
    /// The engine accepted a forged message.
    #[error("a forged message came back as {0:?}")]
    Forgery(Outcome),
}

/// Tests everything that the engine offers. A guarded module has 10 seconds for each call, or its
/// guard's time limit if that is less. After a failed test that took 10 seconds, the remaining
/// tests are skipped.
pub fn run(engine: &dyn Engine) -> Vec<SelfTest> {
    run_within(PATIENCE, engine)
}

/// As [`run`], with another time limit.
pub fn run_within(patience: Duration, engine: &dyn Engine) -> Vec<SelfTest> {
    let mut tests = Vec::new();
    let mut has_hung = false;
    for &cipher in Cipher::ALL {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if engine.offer(cipher, direction).is_some() {
                let begun = Instant::now();
                let result = match has_hung {
                    false => check_within(patience, engine, cipher, direction),
                    true => Err(SelfTestError::Skipped),
                };
                has_hung |= result.is_err() && begun.elapsed() >= patience;
                tests.push(SelfTest { cipher, direction, result });
            }
        }
    }
    tests
}

/// Tests one cipher and direction: a full batch of the known message must come back as the
/// known answer and, from an AEAD cipher, a forged message be rejected.
///
/// # Errors
/// When the engine must not be used for this.
pub fn check(
    engine: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
) -> Result<(), SelfTestError> {
    check_within(PATIENCE, engine, cipher, direction)
}

fn check_within(
    patience: Duration,
    engine: &dyn Engine,
    cipher: Cipher,
    direction: Direction,
) -> Result<(), SelfTestError> {
    if engine.holds_key() {
        return Err(SelfTestError::NoAnswer);
    }
    // A guard would hide failures by using the reference engine.
    let alone = crate::guard::alone(engine, patience);
    let engine = alone.as_deref().unwrap_or(engine);
    let known = ANSWERS.iter().find(|(known, _)| *known == cipher);
    let (_, answer) = known.ok_or(SelfTestError::NoAnswer)?;
    let answer: Vec<u8> = answer.iter().flat_map(|word| word.to_be_bytes()).collect();
    let (input, expected) = match direction {
        Direction::Encrypt => (&MESSAGE[..], &answer[..]),
        Direction::Decrypt => (&answer[..], &MESSAGE[..]),
    };
    let key: Vec<u8> = (0..).take(cipher.key_length()).collect();
    let iv: Vec<u8> = (0xA0..).take(cipher.iv_length()).collect();
    let (key, iv) = (Key::new(&key).ok(), Iv::new(&iv).unwrap_or(Iv::NONE));
    let mut session = engine.open(&SessionRequest { cipher, direction, key: key.as_ref() })?;

    let number = engine.offer(cipher, direction).map_or(1, |offer| offer.batch.max(1));
    let mut outputs = vec![vec![0; expected.len()]; number];
    let mut batch: Vec<_> = outputs.iter_mut().map(|output| Job::new(iv, input, output)).collect();
    session.process(&mut batch)?;
    for job in batch {
        match job.outcome {
            Outcome::Done { written } if job.output.get(..written) == Some(expected) => {}
            Outcome::Done { .. } => return Err(SelfTestError::WrongAnswer),
            other => return Err(SelfTestError::NotDone(other)),
        }
    }
    if cipher.is_authenticated() && direction == Direction::Decrypt {
        let mut forged = input.to_vec();
        forged[0] ^= 1;
        let mut output = MESSAGE;
        let mut batch = [Job::new(iv, &forged, &mut output)];
        session.process(&mut batch)?;
        if batch[0].outcome != Outcome::Rejected(Rejection::Tag) {
            return Err(SelfTestError::Forgery(batch[0].outcome));
        }
    }
    Ok(())
}

/// The time limit for a call of a module. Tests are small. Where a driver has to compile, NVIDIA's
/// assembler takes most of the time, a second or two.
const PATIENCE: Duration = Duration::from_secs(10);

/// The message to encrypt, with the key 00 01 02 … and the IV A0 A1 A2 ….
const MESSAGE: [u8; 32] = *b"An evener shares the load fairly";

/// The ciphertexts, with their tags, in words of 16 bytes.
const ANSWERS: &[(Cipher, &[u128])] = &[
    (
        Cipher::Aes128Ecb,
        &[0xf72a2fe3_724a342e_3d549327_b20edaf2, 0x542c28e1_5cfbe636_27c2eeca_6a301a60],
    ),
    (
        Cipher::Aes192Ecb,
        &[0xa374cc71_7460f58d_6f5a0920_0226dd29, 0xf460003b_f1886330_3899d8a3_63899f20],
    ),
    (
        Cipher::Aes256Ecb,
        &[0x83ec4d25_b44d44a1_b2f15059_fe98fe37, 0xab7c374b_33f5b145_921150a6_0172fe2a],
    ),
    (
        Cipher::Aes128Cbc,
        &[0x2661b037_9da1fdb1_6aeb5f3c_ad45853b, 0x3980d31d_8aa7722d_41885a75_66f0dc1b],
    ),
    (
        Cipher::Aes192Cbc,
        &[0x5f4d62ae_170ef6cc_04a169cb_37c6e0f8, 0xe24e3f3e_52a530ae_3c06a98f_0c323dd0],
    ),
    (
        Cipher::Aes256Cbc,
        &[0x8fca7ffe_bb2d8ffa_44027143_f30d90f7, 0x596399d9_1df6b172_44e7cd44_bf38d853],
    ),
    (
        Cipher::Aes128Ctr,
        &[0x1f76f19b_8078661b_b2834dbf_55d5f4fc, 0x3ab6d7b9_b79916f0_35c1ded2_5c9e46a2],
    ),
    (
        Cipher::Aes192Ctr,
        &[0xbfadf183_b90e2a5c_7ab0d625_ebafe043, 0x5b902888_711626b3_0a4858e3_2fcf330f],
    ),
    (
        Cipher::Aes256Ctr,
        &[0x9df12198_00dd1268_7d6b9bed_6a798993, 0xc1a58374_5c2dfa49_88aa9eeb_0e42bfe6],
    ),
    (
        Cipher::Aes128Gcm,
        &[
            0xebe818de_08ec5d6f_f858c668_2760d513,
            0x739a4b6d_a37b52ce_413017fa_2bffe3d1,
            0xc031f98c_ede93bcd_b308bf77_7ec44a47,
        ],
    ),
    (
        Cipher::Aes192Gcm,
        &[
            0x7a0c9e07_8f367616_8c15cca9_8eaf910a,
            0xb4634377_bd5e21b8_f6ac4c8a_1fc0d442,
            0xd7534be1_190f95ee_bc8b32dd_c9107d4d,
        ],
    ),
    (
        Cipher::Aes256Gcm,
        &[
            0xa7765c48_33ae6cda_1045f4bb_6608a5ad,
            0x50d83175_b2db2d0d_f82e40e7_16d91978,
            0x494a2339_1e0a4067_93484e11_fa18c92c,
        ],
    ),
    (
        Cipher::Aes128Xts,
        &[0x01cefc67_bef01f88_77ca2342_285f3228, 0x2836c27d_68d4f2ef_d3b7a7ee_078588c2],
    ),
    (
        Cipher::Aes256Xts,
        &[0x89cebc68_c7756210_e72ae63c_c40dbcc4, 0x95836795_8a95d488_6cd0bfa7_12ad0950],
    ),
    (
        Cipher::Camellia128Cbc,
        &[0x35bedbfb_0ce917fe_d1daaf59_8db64c21, 0x7afb7765_8a777092_888e8655_3556663d],
    ),
    (
        Cipher::Camellia192Cbc,
        &[0x7b767b74_16d16a77_612e8a66_119a12e7, 0xfcb2c237_d20c0925_c99adc3e_a80330a5],
    ),
    (
        Cipher::Camellia256Cbc,
        &[0xae96446a_c17259cd_c36b600e_14cbccc9, 0x6f77516e_8de64c5b_d1d2c2c0_2518075a],
    ),
    (
        Cipher::DesEde3Cbc,
        &[0xa50c1839_3e512679_a27d5503_423b4692, 0xbc4e3e41_2b20cc82_3b777443_aa463932],
    ),
    (
        Cipher::BfCbc,
        &[0x450f233a_267a7008_3f30b840_3588a28b, 0x31de2a42_5a3b4d8c_e40a6502_24262e4c],
    ),
    (
        Cipher::ChaCha20Poly1305,
        &[
            0x4dc5583a_3b83acc8_d22f807c_9d889888,
            0xbd2abbda_63060fc2_d0f8bdd0_1810af75,
            0x8748168a_3a5d6eba_a1bacb2f_1ed75725,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_has_an_answer() {
        for cipher in Cipher::ALL {
            assert!(ANSWERS.iter().any(|(known, _)| known == cipher), "{cipher}");
        }
    }

    #[test]
    #[cfg(feature = "openssl")]
    fn openssl_passes() {
        let tests = run(&*crate::find("openssl").unwrap());
        assert!(tests.len() >= 38);
        for test in tests {
            assert_eq!(test.result, Ok(()), "{} {}", test.cipher, test.direction);
        }
    }
}
