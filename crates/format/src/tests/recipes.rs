//! Tests round trips, refusals and secrecy of all recipes.

use evener_core::{Cipher, Direction, Iv, Key, Mode, Padding};
use openssl::hash::MessageDigest;
use openssl::pkcs5::{bytes_to_key, pbkdf2_hmac};
use zeroize::Zeroizing;

use super::{OpenError, is_available, open, process, seal, text};
use crate::{
    Chunk, ChunkIv, CobblestoneSuite, Digest, Ending, FileCipher, FormatError, HkdfHash, Kdf,
    Layout, OpensslEnc, OpensslSecret, Recipe, TinkKey,
};

#[test]
fn files_come_back_around_every_boundary() {
    for recipe in recipes() {
        let geometry = recipe.geometry();
        let ends = [0, geometry.first, geometry.first + geometry.chunk];
        let lengths = ends.into_iter().flat_map(|end| end.saturating_sub(17)..=end + 17);
        for length in lengths {
            let plain = text(length as usize);
            let sealed = seal(&recipe, &plain);
            assert!(open(&recipe, &sealed).unwrap() == plain, "{recipe:?} {length}");
        }
    }
}

#[test]
fn truncation_is_seen_at_every_byte() {
    for recipe in recipes().into_iter().filter(|recipe| recipe.cipher().is_authenticated()) {
        let geometry = recipe.geometry();
        let plain = text((geometry.first + geometry.chunk + 3) as usize);
        let sealed = seal(&recipe, &plain);
        let step = if sealed.len() > 10_000 { 97 } else { 1 };
        for length in (0..sealed.len()).step_by(step) {
            open(&recipe, &sealed[..length]).unwrap_err();
        }
        let chunk_end = geometry.header + geometry.full_sealed_length(0);
        open(&recipe, &sealed[..chunk_end as usize]).unwrap_err();
    }
}

/// Every header bit counts: Cobblestone and age detect a change at once, Tink when the first chunk
/// is opened, as age does in the nonce.
#[test]
fn header_changes_are_seen() {
    for recipe in recipes().into_iter().filter(|recipe| recipe.cipher().is_authenticated()) {
        let sealed = seal(&recipe, b"a camel is a horse");
        for bit in 0..recipe.bytes_to_open(&sealed) * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let error = open(&recipe, &changed).unwrap_err();
            if let Recipe::Cobblestone(_) = recipe {
                assert_eq!(error, OpenError::Format(FormatError::WrongKey));
            }
        }
    }
}

/// OpenSSL sees the chunks of `openssl enc` as one message.
#[test]
fn openssl_chunks_make_one_message() {
    for &cipher in Cipher::ALL {
        let key = Key::new(&text(cipher.key_length())).unwrap();
        let iv = Iv::new(&vec![0xFF; cipher.iv_length()]).unwrap();
        let secret = OpensslSecret::Raw { key: key.clone(), iv };
        let recipe = match Recipe::openssl_enc(cipher, secret) {
            Ok(recipe) => recipe,
            Err(error) => {
                assert_eq!(error, FormatError::NoSuchCipher(cipher));
                assert!(!matches!(cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr));
                continue;
            }
        };
        assert!(recipe.repeats_ivs());
        let pads = matches!(cipher.mode(), Mode::Ecb | Mode::Cbc);
        let padding = if pads { Padding::Pkcs7 } else { Padding::None };
        for length in [0, 65_535, 65_536, 65_537, 200_000] {
            if is_available(cipher) {
                let plain = text(length);
                let whole = process(cipher, Direction::Encrypt, &key, iv, padding, &plain).unwrap();
                assert!(seal(&recipe, &plain) == whole, "{cipher} {length}");
            }
        }
    }
}

#[test]
fn chaining_and_padding_follow_the_mode() {
    let file = |cipher| passphrase(cipher).create().unwrap().0;
    let cbc = file(Cipher::Aes128Cbc);
    assert!(cbc.is_chained(Direction::Encrypt) && !cbc.is_chained(Direction::Decrypt));
    assert_eq!((cbc.padding(false), cbc.padding(true)), (Padding::None, Padding::Pkcs7));
    assert_eq!(cbc.iv(&chunk(1)), ChunkIv::PreviousBlock);
    assert_eq!(file(Cipher::DesEde3Cbc).geometry().ending, Ending::Padded { block: 8 });
    let ctr = file(Cipher::Aes128Ctr);
    assert!(!ctr.is_chained(Direction::Encrypt));
    assert_eq!(ctr.padding(true), Padding::None);
    assert_eq!(ctr.geometry().ending, Ending::Exact);
    let (gcm, _) = cobblestone(b"").create().unwrap();
    assert!(!gcm.is_chained(Direction::Encrypt));
    assert_eq!(gcm.padding(true), Padding::None);
}

#[test]
fn every_file_has_a_key_of_its_own() {
    for recipe in recipes().into_iter().filter(|recipe| !recipe.repeats_ivs()) {
        let ((one, one_header), (two, two_header)) =
            (recipe.create().unwrap(), recipe.create().unwrap());
        assert_ne!(one.key().bytes(), two.key().bytes());
        assert_ne!(one_header, two_header);
        assert_eq!(one_header.bytes().len(), recipe.bytes_to_open(one_header.bytes()));
        assert_eq!(recipe.geometry().header, recipe.bytes_to_open(one_header.bytes()) as u64);
        let again = recipe.open(one_header.bytes()).unwrap();
        assert_eq!(again.key().bytes(), one.key().bytes());
        assert_eq!(again.iv(&chunk(0)), one.iv(&chunk(0)));
    }
}

#[test]
fn wrong_keys_and_contexts_are_told_apart_from_damage() {
    let sealed = seal(&cobblestone(b"here"), b"hello");
    let wrong = Err(OpenError::Format(FormatError::WrongKey));
    assert_eq!(open(&cobblestone(b"there"), &sealed), wrong);
    assert_eq!(open(&cobblestone(b""), &sealed), wrong);
    assert_eq!(open(&cobblestone(b"here"), &sealed), Ok(b"hello".to_vec()));

    let other_aad = Recipe::tink(tink_key(16, 256), b"there").unwrap();
    let sealed = seal(&Recipe::tink(tink_key(16, 256), b"here").unwrap(), b"hello");
    assert_eq!(open(&other_aad, &sealed), Err(OpenError::Chunk));
}

#[test]
fn other_formats_are_refused() {
    for recipe in recipes().into_iter().filter(|recipe| !recipe.repeats_ivs()) {
        for length in 0..recipe.bytes_to_open(&[0; 64]) {
            assert!(recipe.open(&[0; 64][..length]).is_err());
        }
    }
    let refused = |recipe: &Recipe, header: &[u8]| {
        matches!(recipe.open(header), Err(FormatError::OtherFormat { .. }))
    };
    let openssl = passphrase(Cipher::Aes256Cbc);
    assert!(refused(&openssl, b"salted__12345678"));
    assert!(refused(&openssl, b"Sal-"));
    assert_eq!(openssl.open(b"Salted__1234567").unwrap_err(), FormatError::Truncated);
    assert!(refused(&Recipe::tink(tink_key(32, 256), b"").unwrap(), &[24; 64]));
}

#[test]
fn a_salt_that_begins_like_a_tink_stream_is_one_for_all_that_can_be_told() {
    let sealed = loop {
        let sealed = seal(&cobblestone(b""), b"hello");
        if sealed[0] == 40 {
            break sealed;
        }
    };
    let tink = Recipe::tink(tink_key(32, 256), b"").unwrap();
    assert_eq!(open(&tink, &sealed), Err(OpenError::Chunk));
    let mut damaged = seal(&tink, b"hello");
    damaged[1] ^= 1;
    assert_eq!(open(&tink, &damaged), Err(OpenError::Chunk));
}

#[test]
fn unusable_parameters_are_refused() {
    let key = Key::new(&[1; 16]).unwrap();
    assert!(matches!(
        Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b""),
        Err(FormatError::Length { expected: 32, actual: 16, .. })
    ));
    let tink = |derived, segment| Recipe::tink(tink_key(derived, segment), b"");
    assert!(tink(16, 40).is_err() && tink(16, 41).is_ok());
    assert!(tink(32, 56).is_err() && tink(32, 57).is_ok());
    assert!(tink(24, 4096).is_err());
    assert!(tink(16, 1 << 31).is_err() && tink(16, (1 << 31) - 1).is_ok());
    let short = TinkKey { value: vec![1; 31].into(), ..tink_key(32, 4096) };
    assert!(Recipe::tink(short, b"").is_err());
    let raw = |key: usize, iv: usize| {
        let (key, iv) = (Key::new(&vec![1; key]).unwrap(), Iv::new(&vec![1; iv]).unwrap());
        Recipe::openssl_enc(Cipher::Aes256Cbc, OpensslSecret::Raw { key, iv })
    };
    assert!(raw(16, 16).is_err() && raw(32, 8).is_err() && raw(32, 16).is_ok());
    let iterated = |iterations| {
        let (passphrase, digest) = (Zeroizing::default(), Digest::Sha256);
        let secret = OpensslSecret::Passphrase { passphrase, digest, iterations };
        Recipe::openssl_enc(Cipher::Aes256Cbc, secret)
    };
    assert!(iterated(0).is_err() && iterated(1 << 31).is_err() && iterated((1 << 31) - 1).is_ok());
}

#[test]
fn debug_shows_no_secret() {
    // All secrets here consist of 171s or horses.
    let key = Key::new(&[0xAB; 32]).unwrap();
    let iv = Iv::new(&[0; 16]).unwrap();
    let raw = OpensslSecret::Raw { key: key.clone(), iv };
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap(),
        Recipe::tink(tink_key(16, 4096), b"").unwrap(),
        Recipe::openssl_enc(Cipher::Aes256Cbc, raw).unwrap(),
        passphrase(Cipher::Aes256Cbc),
    );
    assert!(!shown.contains("171") && !shown.to_lowercase().contains("ab, ab"), "{shown}");
    assert!(!shown.contains("horse"), "{shown}");
}

#[test]
fn digests_have_their_openssl_names() {
    for &digest in Digest::ALL {
        assert_eq!(digest.name().to_uppercase().parse(), Ok(digest));
    }
    assert!("md6".parse::<Digest>().is_err());
}

/// Uses keys and IVs that need several blocks of the digest, and a passphrase longer than one.
#[test]
fn keys_of_passphrases_are_those_of_openssl() {
    let passphrase = [7; 150];
    let salt = *b"saltsalt";
    for &digest in Digest::ALL {
        let Some(by_openssl) = MessageDigest::from_name(digest.name()) else {
            evener_core::skipped!("this OpenSSL has no {digest}");
            continue;
        };
        for kdf in [Kdf::Pbkdf2, Kdf::Legacy] {
            let secret = OpensslSecret::Passphrase {
                passphrase: passphrase.to_vec().into(),
                digest,
                iterations: 3,
            };
            let recipe = OpensslEnc::new(Cipher::Aes256Cbc, secret).unwrap().kdf(kdf);
            let recipe = Recipe::OpensslEnc(recipe);
            let file = recipe.open(&[&OpensslEnc::MAGIC[..], &salt].concat()).unwrap();
            let mut expected = [0; 48];
            match kdf {
                Kdf::Pbkdf2 => {
                    pbkdf2_hmac(&passphrase, &salt, 3, by_openssl, &mut expected).unwrap();
                }
                Kdf::Legacy => {
                    let derived = bytes_to_key(
                        openssl::symm::Cipher::aes_256_cbc(),
                        by_openssl,
                        &passphrase,
                        Some(&salt),
                        1,
                    )
                    .unwrap();
                    expected[..32].copy_from_slice(&derived.key);
                    expected[32..].copy_from_slice(&derived.iv.unwrap());
                }
            }
            let layout = Layout::for_plaintext(file.geometry(), 0).unwrap();
            let ChunkIv::Known(iv) = file.iv(&layout.chunk(0)) else { panic!("the first has one") };
            assert_eq!([file.key().bytes(), iv.bytes()].concat(), expected, "{digest}, {kdf:?}");
        }
    }
}

#[test]
fn workers_can_share() {
    fn shared<T: Send + Sync>() {}
    shared::<Recipe>();
    shared::<FileCipher>();
}

fn recipes() -> Vec<Recipe> {
    let key = Key::new(&text(16)).unwrap();
    let iv = Iv::new(&[9; 16]).unwrap();
    let raw =
        |cipher| Recipe::openssl_enc(cipher, OpensslSecret::Raw { key: key.clone(), iv }).unwrap();
    vec![
        cobblestone(b"context"),
        Recipe::cobblestone(CobblestoneSuite::Aes128Gcm, &key, b"").unwrap(),
        Recipe::tink(tink_key(16, 41), b"aad").unwrap(),
        Recipe::tink(tink_key(32, 4096), b"").unwrap(),
        super::age::recipe(),
        passphrase(Cipher::Aes256Cbc),
        passphrase(Cipher::DesEde3Cbc),
        passphrase(Cipher::Aes192Ctr),
        raw(Cipher::Aes128Cbc),
        raw(Cipher::Aes128Ctr),
    ]
}

fn cobblestone(context: &[u8]) -> Recipe {
    Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &Key::new(&[3; 32]).unwrap(), context).unwrap()
}

fn passphrase(cipher: Cipher) -> Recipe {
    let secret = OpensslSecret::Passphrase {
        passphrase: b"horse power".to_vec().into(),
        digest: Digest::Sha256,
        iterations: 2,
    };
    Recipe::openssl_enc(cipher, secret).unwrap()
}

fn tink_key(derived_key_length: usize, segment_length: u32) -> TinkKey {
    let value = vec![0xAB; 32].into();
    TinkKey { id: 1, value, hash: HkdfHash::Sha256, derived_key_length, segment_length }
}

fn chunk(index: u64) -> Chunk {
    Chunk { index, plain: 0..0, sealed: 0..0, last: false }
}
