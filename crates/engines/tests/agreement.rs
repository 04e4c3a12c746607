//! Every engine that is here gives the bytes that `openssl` gives, at every length where
//! something changes: blocks, pages, what one request carries, what a socket holds.
//!
//! `EVENER_TEST_ENGINES` names further engines to test, separated by spaces, for those that
//! are used only when named. One that is named and absent fails the test.

use std::env;
use std::sync::Arc;

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Mode, Outcome, Padding, Rejection,
    Session, SessionRequest,
};

#[test]
fn every_engine_agrees_with_openssl() {
    let reference = evener_engines::find("openssl").unwrap();
    let engines = engines();
    if engines.is_empty() {
        println!("skipped: there is no engine here but openssl");
    }
    for engine in engines {
        let name = &engine.description().name;
        let mut ciphers = 0;
        for &cipher in Cipher::ALL {
            let offers = |engine: &dyn Engine| engine.offer(cipher, Direction::Encrypt).is_some();
            if offers(&*engine) && offers(&*reference) {
                Pair { engine: &*engine, reference: &*reference, cipher }.check();
                ciphers += 1;
            }
        }
        println!("{name}: {ciphers} ciphers agree with openssl ({})", engine.description().detail);
    }
}

/// The named ones, and what probing finds.
fn engines() -> Vec<Arc<dyn Engine>> {
    let mut engines = Vec::new();
    for name in env::var("EVENER_TEST_ENGINES").unwrap_or_default().split_whitespace() {
        engines.push(evener_engines::find(name).unwrap_or_else(|error| panic!("{error}")));
    }
    for probed in evener_engines::probe_all() {
        match probed.engine {
            Ok(engine) if probed.name != "openssl" => engines.push(engine),
            Ok(_) => {}
            Err(error) => println!("skipped: {error}"),
        }
    }
    engines
}

struct Pair<'a> {
    engine: &'a dyn Engine,
    reference: &'a dyn Engine,
    cipher: Cipher,
}

impl Pair<'_> {
    fn check(&self) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let keys: Vec<_> = (0..2).map(|seed| self.key(seed)).collect();
            let mut session = self.open(self.engine, direction, Some(&keys[0]));
            let mut reference = self.open(self.reference, direction, Some(&keys[0]));
            for (number, &length) in LENGTHS.iter().enumerate() {
                for padding in [Padding::None, Padding::Pkcs7] {
                    let own_key = (number % 5 == 3).then_some(&keys[1]);
                    let Some(message) = self.message(direction, length, padding, own_key) else {
                        continue;
                    };
                    let expected = message.run(&mut *reference, self.cipher, direction).unwrap();
                    let actual = message.run(&mut *session, self.cipher, direction);
                    let actual = match actual {
                        Ok(actual) => actual,
                        Err(error) if length > MUST_FIT && self.must_be_whole() => {
                            println!("skipped: {} of {length} bytes: {error}", self.cipher);
                            continue;
                        }
                        Err(error) => panic!("{} of {length} bytes: {error}", self.cipher),
                    };
                    assert!(
                        actual == expected,
                        "{} {direction} {length} bytes {padding:?}: {:?}, not {:?}",
                        self.cipher,
                        actual.0,
                        expected.0,
                    );
                }
            }
        }
        self.check_changed_data();
        self.check_without_key();
    }

    /// A changed tag or padding is rejected, nothing is left in the output, and the session
    /// goes on.
    fn check_changed_data(&self) {
        let (encrypt, decrypt) = (Direction::Encrypt, Direction::Decrypt);
        let key = self.key(0);
        let authenticated = self.cipher.is_authenticated();
        let padding = if authenticated { Padding::None } else { Padding::Pkcs7 };
        let Some(mut message) = self.message(encrypt, 100, padding, None) else { return };
        let mut session = self.open(self.engine, encrypt, Some(&key));
        let (_, sealed) = message.run(&mut *session, self.cipher, encrypt).unwrap();
        let plain = std::mem::replace(&mut message.input, sealed);
        let mut session = self.open(self.engine, decrypt, Some(&key));
        for _ in 0..2 {
            let (outcome, output) = message.run(&mut *session, self.cipher, decrypt).unwrap();
            assert_eq!(outcome, Outcome::Done { written: plain.len() });
            assert_eq!(output, plain);
            let last = message.input.len() - 1;
            // The last block's last byte: a tag's or, through CBC, the padding's.
            let at = if self.cipher.mode() == Mode::Cbc {
                last - self.cipher.block_length()
            } else {
                last
            };
            message.input[at] ^= 0x80;
            let (outcome, output) = message.run(&mut *session, self.cipher, decrypt).unwrap();
            let expected = if authenticated { Rejection::Tag } else { Rejection::Padding };
            if self.cipher.mode() != Mode::Ecb {
                assert_eq!(outcome, Outcome::Rejected(expected));
            }
            if self.cipher.mode() != Mode::Ecb {
                assert!(output.iter().all(|&byte| byte == 0), "output is left over");
            }
            message.input[at] ^= 0x80;
        }
    }

    fn check_without_key(&self) {
        let mut session = self.open(self.engine, Direction::Encrypt, None);
        let message = self.message(Direction::Encrypt, 64, Padding::None, None).unwrap();
        let error = message.run(&mut *session, self.cipher, Direction::Encrypt).unwrap_err();
        assert!(matches!(error, EngineError::NoKey { .. }), "{error}");
        let key = self.key(1);
        let message = Message { key: Some(&key), ..message };
        message.run(&mut *session, self.cipher, Direction::Encrypt).unwrap();
    }

    fn open(
        &self,
        engine: &dyn Engine,
        direction: Direction,
        key: Option<&Key>,
    ) -> Box<dyn Session> {
        let request = SessionRequest { cipher: self.cipher, direction, key };
        engine.open(&request).unwrap_or_else(|error| panic!("{error}"))
    }

    /// None when there is no such message.
    fn message<'k>(
        &self,
        direction: Direction,
        length: usize,
        padding: Padding,
        key: Option<&'k Key>,
    ) -> Option<Message<'k>> {
        let Pair { cipher, reference, .. } = self;
        let iv = Iv::new(&bytes(length as u64, cipher.iv_length())).unwrap();
        let aad = if cipher.is_authenticated() { bytes(1, length % 300) } else { Vec::new() };
        let message = Message { iv, aad, padding, key, input: bytes(length as u64 + 7, length) };
        let mut space = vec![0; length + 64];
        message.job(&mut space).check(*cipher, Direction::Encrypt).ok()?;
        if direction == Direction::Encrypt {
            return Some(message);
        }
        let session_key = self.key(0);
        let mut session = self.open(*reference, Direction::Encrypt, Some(&session_key));
        let (_, input) = message.run(&mut *session, *cipher, Direction::Encrypt).unwrap();
        Some(Message { input, ..message })
    }

    fn key(&self, seed: u64) -> Key {
        Key::new(&bytes(seed + 99, self.cipher.key_length())).unwrap()
    }

    fn must_be_whole(&self) -> bool {
        matches!(self.cipher.mode(), Mode::Gcm | Mode::Xts | Mode::Poly1305)
    }
}

struct Message<'k> {
    iv: Iv,
    aad: Vec<u8>,
    padding: Padding,
    key: Option<&'k Key>,
    input: Vec<u8>,
}

impl Message<'_> {
    fn job<'a>(&'a self, output: &'a mut [u8]) -> Job<'a> {
        let Message { iv, aad, padding, key, input } = self;
        Job { aad, padding: *padding, key: *key, ..Job::new(*iv, input, output) }
    }

    /// Runs it as the middle one of a batch of three, and checks that the others agree and
    /// that nothing is written past the output.
    fn run(
        &self,
        session: &mut dyn Session,
        cipher: Cipher,
        direction: Direction,
    ) -> Result<(Outcome, Vec<u8>), EngineError> {
        let mut space = vec![0; self.input.len() + 64];
        let length = self.job(&mut space).output_length(cipher, direction);
        let mut outputs = vec![vec![0x5A; length + 3]; 3];
        let mut batch: Vec<_> = outputs.iter_mut().map(|output| self.job(output)).collect();
        session.process(&mut batch)?;
        let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
        drop(batch);
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
        let mut output = outputs.remove(1);
        assert_eq!(output.split_off(length), [0x5A; 3]);
        if let Outcome::Done { written } = outcomes[1] {
            output.truncate(written);
        }
        Ok((outcomes[1], output))
    }
}

/// Bytes that look random and are the same each time (SplitMix64).
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = vec![0; length];
    for part in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        part.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..part.len()]);
    }
    bytes
}

const LENGTHS: &[usize] = &[
    0, 1, 8, 15, 16, 17, 24, 31, 32, 33, 100, 256, 1000, 4080, 4096, 4112, 16_384, 65_519, 65_520,
    65_536, 65_537, 65_552, 131_088, 200_000, 1_048_576,
];

/// Messages up to this must be done even where a message can't go in parts, in bytes.
const MUST_FIT: usize = 131_088;
