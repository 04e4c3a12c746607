//! Messages that are longer than an arena.

use evener_core::{
    Cipher, Direction, Engine, Iv, Job, Key, Outcome, Padding, SessionRequest, WipedBuffer,
};

use super::Random;

#[test]
fn messages_longer_than_an_arena_are_done() {
    for device in super::layouts() {
        run_long(&*super::engine(device));
    }
}

fn run_long(ours: &dyn Engine) {
    let theirs = evener_engines::find("openssl").unwrap();
    let mut random = Random(7);
    let text = random.bytes((17 << 20) + 5);
    for (cipher, padding) in [
        (Cipher::Aes128Ctr, Padding::None),
        (Cipher::Aes256Cbc, Padding::Pkcs7),
        (Cipher::Aes192Ecb, Padding::Pkcs7),
        (Cipher::DesEde3Cbc, Padding::Pkcs7),
        (Cipher::Aes256Gcm, Padding::None),
        (Cipher::ChaCha20Poly1305, Padding::None),
    ] {
        let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
        let iv = Iv::new(&random.bytes(cipher.iv_length())).unwrap();
        let run = |engine: &dyn Engine, is_lent: bool, direction, input: &[u8]| {
            let mut session =
                engine.open(&SessionRequest { cipher, direction, key: Some(&key) }).unwrap();
            let (mut lent_input, mut output) = match engine.buffer(input.len()) {
                Some(buffer) if is_lent => (buffer, engine.buffer(input.len() + 16).unwrap()),
                _ => (WipedBuffer::zeros(input.len()), WipedBuffer::zeros(input.len() + 16)),
            };
            lent_input.copy_from_slice(input);
            // Short messages before and after it go through the other arena.
            let (mut before, mut behind) = ([0; 48], [0; 48]);
            let short = &text[..32];
            let mut batch = [
                Job::new(iv, short, &mut before),
                Job { padding, ..Job::new(iv, &lent_input, &mut output) },
                Job::new(iv, short, &mut behind),
            ];
            session.process(&mut batch).unwrap();
            let Outcome::Done { written } = batch[1].outcome else {
                panic!("{cipher} {direction}: {:?}", batch[1].outcome)
            };
            assert_eq!(before, behind);
            assert!(*lent_input == *input);
            output[..written].to_vec()
        };
        let sealed = run(&*theirs, false, Direction::Encrypt, &text);
        for is_lent in [false, true] {
            assert!(run(ours, is_lent, Direction::Encrypt, &text) == sealed, "{cipher}");
            assert!(run(ours, is_lent, Direction::Decrypt, &sealed) == text, "{cipher}");
        }
    }
}

#[test]
fn a_message_that_no_device_memory_holds_is_refused() {
    let Some(device) = super::device() else { return };
    let most = device.properties().largest_allocation.min(device.properties().memory / 8);
    let ours = super::engine(device);
    let Ok(length) = usize::try_from(most) else { return };
    let key = Key::new(&[1; 32]).unwrap();
    let request = SessionRequest {
        cipher: Cipher::Aes256Gcm,
        direction: Direction::Encrypt,
        key: Some(&key),
    };
    let mut session = ours.open(&request).unwrap();
    // Untouched zeros take no memory.
    let (text, mut output) = (vec![0; length], vec![0; length + 16]);
    let mut batch = [Job::new(Iv::new(&[2; 12]).unwrap(), &text, &mut output)];
    let error = session.process(&mut batch).unwrap_err();
    assert!(error.to_string().contains("shorter segments"), "{error}");
    assert_eq!(batch[0].outcome, Outcome::Pending);
    // The session still works.
    let (text, mut output) = ([0; 5], [0; 21]);
    let mut batch = [Job::new(Iv::new(&[2; 12]).unwrap(), &text, &mut output)];
    session.process(&mut batch).unwrap();
    assert_eq!(batch[0].outcome, Outcome::Done { written: 21 });
}
