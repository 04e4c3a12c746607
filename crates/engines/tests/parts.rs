//! Messages that are divided into parts, against OpenSSL, which takes them whole.

use evener_core::parts::{LastBlock, Part, Parts};
use evener_core::{Cipher, Direction, Iv, Job, Key, Padding, SessionRequest};

/// Processes a message in parts with an engine that does not divide messages.
fn in_parts(job: &mut Job<'_>, cipher: Cipher, direction: Direction, at_once: bool) -> usize {
    let engine = evener_engines::find("openssl").unwrap();
    let key = Key::new(&[9; 16]).unwrap();
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let mut session = engine.open(&request).unwrap();
    let mut perform = |part: Part<'_>| {
        let mut last = LastBlock::default();
        let input = part.input(&mut last).concat();
        let mut copied = vec![0; part.output.len()];
        part.copy_input(&mut copied);
        assert_eq!(input, copied);
        session.process(&mut [Job::new(part.iv, &input, part.output)]).unwrap();
        input.len()
    };
    let mut parts = Parts::of(job, cipher, direction);
    loop {
        let done: usize = match at_once {
            true => parts.ready(job, 48).map(&mut perform).sum(),
            false => parts.next(job, 48).map_or(0, &mut perform),
        };
        if done == 0 {
            return parts.finish(job).unwrap();
        }
        parts.advance(job, done);
    }
}

#[test]
fn parts_make_the_whole() {
    let engine = evener_engines::find("openssl").unwrap();
    let key = Key::new(&[9; 16]).unwrap();
    let message: Vec<u8> = (0..=255).collect();
    for cipher in [Cipher::Aes128Ecb, Cipher::Aes128Cbc, Cipher::Aes128Ctr] {
        let iv = Iv::new(&[0xFF; 16][..cipher.iv_length()]).unwrap();
        let pads = cipher.block_length() > 1;
        let padding = if pads { Padding::Pkcs7 } else { Padding::None };
        for length in [0, 1, 15, 16, 47, 48, 49, 96, 250] {
            let input = &message[..length];
            let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key) };
            let mut whole = vec![0; length + 16];
            let mut batch = [Job { padding, ..Job::new(iv, input, &mut whole) }];
            engine.open(&request).unwrap().process(&mut batch).unwrap();
            for at_once in [false, true] {
                let mut sealed = vec![0; length + 16];
                let mut job = Job { padding, ..Job::new(iv, input, &mut sealed) };
                let written = in_parts(&mut job, cipher, Direction::Encrypt, at_once);
                sealed.truncate(written);
                assert_eq!(sealed, whole[..written], "{cipher} {length}");
                let mut opened = vec![0; written];
                let mut job = Job { padding, ..Job::new(iv, &sealed, &mut opened) };
                let written = in_parts(&mut job, cipher, Direction::Decrypt, at_once);
                assert_eq!(opened[..written], *input, "{cipher} {length}");
            }
        }
    }
}
