//! Every way of reading a sealed file, and a check that they agree.

use std::sync::{Arc, LazyLock};

use evener_core::{Cipher, Engine, Iv, Key};
use evener_format::{Digest, OpensslSecret, Recipe};
use evener_keys::recognise;
use evener_place::{
    KeyRing, Operation, RunSettings, StreamOptions, StreamSource, StreamTarget, buffer,
    process_stream, random_access,
};
use zeroize::Zeroizing;

use crate::memory_file::MemoryFile;

/// Files of `openssl enc`: the first byte chooses the cipher and whether there is a passphrase, and
/// the rest is the file. Nothing authenticates them, so any may open; but all ways of reading
/// agree.
pub fn openssl_enc(data: &[u8]) {
    let Some((&choice, sealed)) = data.split_first() else { return };
    let ring = &OPENSSL[usize::from(choice) % OPENSSL.len()];
    let whole = open_whole(ring, sealed);
    let in_parts = open_in_parts(ring, sealed);
    assert_eq!(whole, in_parts, "a whole file, and the same in parts");
    let (piped, complete) = open_piped(ring, sealed);
    assert_eq!(whole.is_some(), complete, "a whole file, and the same from a pipe");
    if let Some(whole) = whole {
        assert!(whole == piped, "a whole file, and the same from a pipe");
    }
}

/// The plaintext of a file in memory, if it opens.
pub(crate) fn open_whole(keys: &KeyRing, sealed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = vec![UNTOUCHED; sealed.len()];
    match buffer::open(keys, sealed, &mut plain, &run()) {
        Ok(length) => {
            plain.truncate(length);
            Some(plain)
        }
        Err(_) => {
            let left = plain.iter().any(|&byte| byte != UNTOUCHED && byte != 0);
            assert!(!left, "plaintext is left of a file that was refused");
            None
        }
    }
}

/// The plaintext of a file opened for reading any part, if all parts open; they are read from the
/// last to the first.
pub(crate) fn open_in_parts(keys: &KeyRing, sealed: &[u8]) -> Option<Vec<u8>> {
    let file = MemoryFile::new(sealed);
    let opened = random_access(file.path(), keys, Arc::clone(&ENGINE)).ok()?;
    let length = usize::try_from(opened.len()).expect("no longer than the file");
    let mut plain = vec![0; length];
    for start in (0..length).step_by(PART).rev() {
        let part = &mut plain[start..(start + PART).min(length)];
        let wanted = part.len();
        assert_eq!(opened.read_at(part, start as u64).ok()?, wanted);
    }
    let beyond = opened.read_at(&mut [0; 1], length as u64);
    assert!(matches!(beyond, Ok(0)), "{beyond:?} behind the end");
    Some(plain)
}

/// The output of a pipe for a file, and whether it was complete.
pub(crate) fn open_piped(keys: &KeyRing, sealed: &[u8]) -> (Vec<u8>, bool) {
    let (input, output) = (MemoryFile::new(sealed), MemoryFile::new(b""));
    let (from, to) = (input.descriptor(), output.descriptor());
    let (from, to) = (StreamSource::Descriptor(from), StreamTarget::Descriptor(to));
    let complete =
        process_stream(Operation::Decrypt, keys, from, to, &run(), &StreamOptions::default())
            .is_ok();
    // Recognising the first bytes needs no key.
    let _ = recognise(&sealed[..sealed.len().min(72)]);
    (output.content(), complete)
}

pub(crate) static ENGINE: LazyLock<Arc<dyn Engine>> =
    LazyLock::new(|| evener_engines::find("openssl").expect("it is always there"));

/// One worker on the engine.
pub(crate) fn run() -> RunSettings {
    RunSettings::new(vec![Arc::clone(&ENGINE)])
}

static OPENSSL: LazyLock<Vec<KeyRing>> = LazyLock::new(|| {
    let passphrase = || OpensslSecret::Passphrase {
        passphrase: Zeroizing::new(b"open sesame".to_vec()),
        digest: Digest::Sha256,
        iterations: 1,
    };
    let raw = |key: usize, iv: usize| OpensslSecret::Raw {
        key: Key::new(&[7; 32][..key]).expect("a key's length"),
        iv: Iv::new(&[9; 16][..iv]).expect("an IV's length"),
    };
    let ring = |cipher, secret| {
        KeyRing::new(Recipe::openssl_enc(cipher, secret).expect("a cipher of the format"))
    };
    vec![
        ring(Cipher::Aes256Cbc, passphrase()),
        ring(Cipher::Aes128Ctr, passphrase()),
        ring(Cipher::BfCbc, passphrase()),
        ring(Cipher::Aes256Cbc, raw(32, 16)),
        ring(Cipher::DesEde3Cbc, raw(24, 8)),
        ring(Cipher::Aes256Ctr, raw(32, 16)),
        ring(Cipher::Camellia128Cbc, raw(16, 16)),
    ]
});

/// Not zero, and unlikely in a row.
const UNTOUCHED: u8 = 0xA5;

/// Not a part of any format's chunks.
const PART: usize = 5_003;
