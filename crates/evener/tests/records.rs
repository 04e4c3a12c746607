//! Records through the facade, on both engines.

use evener::hazmat::{Padding, RecordCipher, RecordError, RecordLayout};
use evener::{Cipher, Direction, Key, Rejection};

const ENGINES: [&str; 2] = ["openssl", "lanes"];

fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|index| (index as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}

/// Ciphers of every kind of IV, padding and tag.
#[test]
fn records_come_back_and_engines_agree() {
    let cases = [
        (Cipher::Aes256Cbc, true, 24),
        (Cipher::Aes128Cbc, false, 64),
        (Cipher::Aes128Ecb, true, 16),
        (Cipher::Aes192Ctr, false, 9),
        (Cipher::Aes128Gcm, false, 33),
        (Cipher::BfCbc, true, 8),
    ];
    for (cipher, pads, length) in cases {
        let count = 150;
        let key = Key::new(&bytes(1, cipher.key_length())).unwrap();
        let (ivs, messages) = (bytes(2, count * cipher.iv_length()), bytes(3, count * length));
        let mut first = None;
        for engine in ENGINES {
            let Ok(mut records) = RecordCipher::with_engine(cipher, &key, engine) else {
                evener_core::skipped!("{engine} does not do {cipher}");
                continue;
            };
            if pads {
                records = records.padded();
            }
            let size = records.sealed_length(length);
            let mut sealed = vec![0; count * size];
            records.encrypt(length, &ivs, &messages, &mut sealed).unwrap();
            assert_eq!(first.get_or_insert_with(|| sealed.clone()), &sealed, "{cipher}");
            let room = if pads { size } else { length };
            let mut opened = vec![0; count * room];
            records.decrypt(length, &ivs, &sealed, &mut opened).unwrap();
            let pairs = opened.chunks(room).zip(messages.chunks(length));
            assert!(pairs.map(|(open, message)| (&open[..length], message)).all(|(a, b)| a == b));
        }
    }
}

#[test]
fn a_forged_record_is_named_and_the_others_are_there() {
    let (cipher, count, length) = (Cipher::Aes128Gcm, 100, 20);
    let key = Key::new(&bytes(1, 16)).unwrap();
    let (ivs, messages) = (bytes(2, count * 12), bytes(3, count * length));
    for engine in ENGINES {
        let Ok(mut records) = RecordCipher::with_engine(cipher, &key, engine) else { continue };
        let mut sealed = vec![0; count * 36];
        records.encrypt(length, &ivs, &messages, &mut sealed).unwrap();
        sealed[71 * 36] ^= 1;
        sealed[90 * 36 + 35] ^= 1;
        let mut opened = vec![0xA5; count * length];
        let error = records.decrypt(length, &ivs, &sealed, &mut opened).unwrap_err();
        let (record, rejection, count) = (71, Rejection::Tag, 2);
        assert_eq!(error, RecordError::Rejected { record, rejection, count });
        for (record, (open, message)) in
            opened.chunks(length).zip(messages.chunks(length)).enumerate()
        {
            assert_eq!(open == message, record != 71 && record != 90);
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let key = Key::new(&bytes(1, 16)).unwrap();
    let mut records = RecordCipher::new(Cipher::Aes128Cbc, &key).unwrap();
    let (ivs, messages, mut sealed) = (bytes(2, 160), bytes(3, 160), vec![0; 160]);
    let mut refused = |length, ivs: &[u8], messages: &[u8], sealed: &mut [u8]| {
        let error = records.encrypt(length, ivs, messages, sealed).unwrap_err();
        assert!(matches!(error, RecordError::Malformed(_)), "{error}");
    };
    refused(0, &ivs, &messages, &mut sealed);
    refused(15, &ivs, &messages, &mut sealed[..150]);
    refused(16, &ivs[1..], &messages, &mut sealed);
    refused(16, &ivs, &messages[1..], &mut sealed);
    refused(16, &ivs, &messages, &mut sealed[1..]);
    refused(usize::MAX, &ivs, &messages, &mut sealed);
    let (count, length) = (10, 16);
    let layout =
        RecordLayout { count, length, padding: Padding::None, input_stride: 8, output_stride: 16 };
    let overlapping = records.process(Direction::Encrypt, layout, &ivs, &messages, &mut sealed);
    assert!(overlapping.is_err());
    assert!(RecordCipher::new(Cipher::Aes256Cbc, &key).is_err());
}
