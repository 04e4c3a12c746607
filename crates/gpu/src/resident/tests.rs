//! Texts in the memory of PoCL.

use std::sync::{Arc, LazyLock};

use evener_core::lacking;

use super::*;

/// Found once: two threads may not make PoCL's first listing of devices at the same time.
static FOUND: LazyLock<Result<Arc<dyn Device>, String>> =
    LazyLock::new(|| probe::device("gpu:opencl:pocl"));

fn device() -> Option<Arc<dyn Device>> {
    match &*FOUND {
        Ok(device) => Some(Arc::clone(device)),
        Err(reason) => {
            lacking!("{reason} (Debian: pocl-opencl-icd, ocl-icd-libopencl1)");
            None
        }
    }
}

fn reference() -> Arc<dyn Engine> {
    evener_engines::find("openssl").unwrap()
}

const ALL: [Cipher; 4] =
    [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

fn expected(cipher: Cipher, key: &Key, iv: &Iv, aad: &[u8], text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut sealed = vec![0; text.len() + 16];
    let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(key) };
    let mut jobs = [Job { aad, ..Job::new(*iv, text, &mut sealed) }];
    reference().open(&request).unwrap().process(&mut jobs).unwrap();
    let tag = sealed.split_off(text.len());
    (sealed, tag)
}

#[test]
fn texts_of_any_length_are_those_of_the_reference_engine() {
    let Some(device) = device() else { return };
    let iv = Iv::new(b"twelve bytes").unwrap();
    for cipher in ALL {
        let raw: Vec<u8> = (3..).take(cipher.key_length()).collect();
        let key = Key::new(&raw).unwrap();
        let resident =
            Resident::on(Arc::clone(&device), "gpu", (cipher, &key), reference(), 4_096).unwrap();
        for length in [0, 1, 15, 16, 17, 255, 4_095, 4_096, 4_097, 12_288, 12_305, 40_000] {
            let text: Vec<u8> = (0..length).map(|number| (number * 13 % 251) as u8).collect();
            for aad in [&b""[..], b"header", &[5; 33]] {
                let (due, due_tag) = expected(cipher, &key, &iv, aad, &text);
                let (sealed, tag) = resident.seal_inside(&iv, aad, &text).unwrap();
                assert!(sealed == due && tag[..] == due_tag, "{cipher} {length} {}", aad.len());
                let mut site = resident.inside(&sealed).unwrap();
                let mut forged = tag;
                forged[length % 16] ^= 0x10;
                let opened = resident.opened(&mut site, &iv, aad, length, &forged);
                assert_eq!(opened.unwrap(), Err(Rejection::Tag));
                let kept = resident.brought_back(&mut site, length).unwrap();
                assert!(kept == sealed, "a wrong tag leaves the text as it was");
                let mut site = resident.inside(&sealed).unwrap();
                let opened = resident.opened(&mut site, &iv, aad, length, &tag);
                assert_eq!(opened.unwrap(), Ok(()));
                assert!(resident.brought_back(&mut site, length).unwrap() == text);
            }
        }
    }
}

#[test]
fn long_chunks_are_folded_on_the_device() {
    let Some(device) = device() else { return };
    let (iv, key) = (Iv::new(&[1; 12]).unwrap(), Key::new(&[2; 32]).unwrap());
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let resident =
            Resident::on(Arc::clone(&device), "gpu", (cipher, &key), reference(), 256 << 10)
                .unwrap();
        let text: Vec<u8> = (0..900_007_u32).map(|number| (number * 13 % 251) as u8).collect();
        let (due, due_tag) = expected(cipher, &key, &iv, b"aad", &text);
        let (sealed, tag) = resident.seal_inside(&iv, b"aad", &text).unwrap();
        assert!(sealed == due && tag[..] == due_tag, "{cipher}");
        resident.test().unwrap();
    }
}

/// Texts, keys, IVs and additional data of all bits, among them those that cause the most carries.
#[test]
fn random_and_extreme_texts_are_those_of_the_reference_engine() {
    let Some(device) = device() else { return };
    for cipher in ALL {
        for round in 0..20 {
            let mut bytes = vec![0xFF; cipher.key_length() + 12 + 2_500];
            if round > 0 {
                getrandom::fill(&mut bytes).unwrap();
            }
            let (raw, rest) = bytes.split_at(cipher.key_length());
            let (nonce, rest) = rest.split_at(12);
            let (aad, text) = rest.split_at(13 * round);
            let (key, iv) = (Key::new(raw).unwrap(), Iv::new(nonce).unwrap());
            let resident =
                Resident::on(Arc::clone(&device), "gpu", (cipher, &key), reference(), 1_024)
                    .unwrap();
            let (due, due_tag) = expected(cipher, &key, &iv, aad, text);
            let (sealed, tag) = resident.seal_inside(&iv, aad, text).unwrap();
            assert!(sealed == due && tag[..] == due_tag, "{cipher}: {bytes:?}");
        }
    }
}

#[test]
fn what_has_no_tag_or_no_device_is_refused() {
    let key = Key::new(&[2; 16]).unwrap();
    let refused =
        |engine: &str, cipher| Resident::open(engine, cipher, &key, reference()).err().unwrap();
    assert!(matches!(refused("gpu:vulkan:0", Cipher::Aes128Gcm), EngineError::Unavailable { .. }));
    if device().is_some() {
        let engine = "gpu:opencl:pocl";
        assert!(matches!(refused(engine, Cipher::Aes128Ctr), EngineError::NotOffered { .. }));
        assert!(matches!(refused(engine, Cipher::Aes256Gcm), EngineError::KeyLength { .. }));
    }
}
