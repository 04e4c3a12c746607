//! Messages in place and streamed messages against the `openssl` engine.

use evener_core::{
    Cipher, Direction, Engine, InPlaceJob, Iv, Job, Key, Mode, Outcome, Rejection, SessionRequest,
};

use super::messages::{Random, engines, offers};

#[test]
fn in_place_is_what_openssl_gives() {
    let mut random = Random(3);
    for engine in engines() {
        for (cipher, direction) in offers(&*engine) {
            if !matches!(cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr) {
                continue;
            }
            for blocks in [0, 1, 3, 4, 31, 32, 33, 129, 2_000] {
                let tail = if cipher.mode() == Mode::Ctr { random.below(16) } else { 0 };
                let case = Case::random(&mut random, cipher, direction, 16 * blocks + tail);
                let offset = random.below(64);
                let mut bytes = [vec![0x5A; offset], case.message.clone(), vec![0x5A; 9]].concat();
                let end = offset + case.message.len();
                let mut session = engine.open(&case.request()).unwrap();
                let data = &mut bytes[offset..end];
                let mut job = InPlaceJob::new(cipher, direction, case.iv, data);
                session.process_in_place(&mut job).unwrap();
                assert_eq!(job.outcome, Outcome::Done { written: end - offset });
                let name = &engine.description().name;
                assert!(bytes[offset..end] == case.by_openssl(), "{name} {cipher} {direction}");
                assert!(bytes[..offset].iter().chain(&bytes[end..]).all(|&byte| byte == 0x5A));
            }
        }
    }
}

#[test]
fn a_session_without_a_key_says_so_in_place() {
    for engine in engines() {
        let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
        let mut session = engine.open(&SessionRequest { cipher, direction, key: None }).unwrap();
        let mut data = [7; 40];
        let iv = Iv::new(&[1; 16]).unwrap();
        let mut job = InPlaceJob::new(cipher, direction, iv, &mut data);
        assert!(session.process_in_place(&mut job).is_err());
        assert_eq!((job.done, job.outcome), (0, Outcome::Pending));
        assert_eq!(data, [7; 40]);
    }
}

/// The job's own check sees only the job's fields, not the session's cipher.
#[test]
fn a_message_for_another_cipher_is_not_touched() {
    let openssl = crate::find("openssl").unwrap();
    for engine in engines().into_iter().chain([openssl]) {
        let (cipher, direction) = (Cipher::Aes128Ecb, Direction::Decrypt);
        let key = Key::new(&[3; 16]).unwrap();
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut session = engine.open(&request).unwrap();
        for (other, iv) in [(Cipher::Aes128Ctr, 16), (Cipher::DesEde3Cbc, 8)] {
            let mut data = [7; 40];
            let iv = Iv::new(&[1; 16][..iv]).unwrap();
            let mut job = InPlaceJob::new(other, direction, iv, &mut data);
            session.process_in_place(&mut job).unwrap();
            assert!(matches!(job.outcome, Outcome::Rejected(Rejection::Malformed(_))));
            assert_eq!((job.done, data), (0, [7; 40]));
        }
    }
}

/// A streamed message begins where its output does: on a cache line or some blocks before one.
#[test]
fn streamed_counters_go_on_from_any_address() {
    let mut random = Random(4);
    for engine in engines() {
        for offset in [0, 1, 16, 32, 48, 63] {
            let case =
                Case::random(&mut random, Cipher::Aes256Ctr, Direction::Encrypt, 40_000 + offset);
            let mut bytes = vec![0x5A; 64 + offset + case.message.len() + 64];
            let start = bytes.as_ptr().align_offset(64) + offset;
            let end = start + case.message.len();
            let mut session = engine.open(&case.request()).unwrap();
            session.expect_output(1 << 30);
            let mut batch = [Job::new(case.iv, &case.message, &mut bytes[start..end])];
            session.process(&mut batch).unwrap();
            assert!(bytes[start..end] == case.by_openssl(), "offset {offset}");
            assert!(bytes[..start].iter().chain(&bytes[end..]).all(|&byte| byte == 0x5A));
        }
    }
}

struct Case {
    cipher: Cipher,
    direction: Direction,
    key: Key,
    iv: Iv,
    message: Vec<u8>,
}

impl Case {
    /// A case whose counter's low half is about to overflow.
    fn random(random: &mut Random, cipher: Cipher, direction: Direction, length: usize) -> Case {
        let mut iv = vec![0xFF; cipher.iv_length()];
        if let Some(last) = iv.last_mut() {
            *last = random.below(256) as u8;
        }
        let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
        let iv = Iv::new(&iv).unwrap();
        Case { cipher, direction, key, iv, message: random.bytes(length) }
    }

    fn request(&self) -> SessionRequest<'_> {
        let &Case { cipher, direction, ref key, .. } = self;
        SessionRequest { cipher, direction, key: Some(key) }
    }

    fn by_openssl(&self) -> Vec<u8> {
        let engine: &dyn Engine = &*crate::find("openssl").unwrap();
        let mut output = vec![0; self.message.len()];
        let mut batch = [Job::new(self.iv, &self.message, &mut output)];
        engine.open(&self.request()).unwrap().process(&mut batch).unwrap();
        assert!(matches!(batch[0].outcome, Outcome::Done { .. }));
        output
    }
}
