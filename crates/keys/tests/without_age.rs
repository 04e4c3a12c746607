//! Tests that a build without age names age as the cause where a key needs it.

#![cfg(not(feature = "age"))]

use std::fs;
use std::path::Path;

use evener_keys::age::{self, Identity, Recipient};
use evener_keys::{Guess, KeyError, KeyFormat, KeyMaterial, NoUnlock, create, load, recognise};

const AGE: &[u8] = b"age-encryption.org/v1\n-> X25519 x\n";

/// The error names the file, and the feature to build with.
fn assert_named(error: &KeyError, path: &Path) {
    assert!(matches!(error, KeyError::NeedsAge { .. }), "{error}");
    assert_eq!(error.path(), Some(path));
    assert!(error.to_string().contains("build it with the feature `age`"), "{error}");
}

#[test]
fn a_wrapped_key_is_recognised_and_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evener-key.age");
    fs::write(&path, AGE).unwrap();
    assert_eq!(recognise(AGE), Guess::Age);
    assert!(evener_keys::is_wrapped_key(&path));
    assert_named(&load(&path, &NoUnlock).unwrap_err(), &path);
    assert_named(&Identity::read_file(&path, &NoUnlock).unwrap_err(), &path);
    assert_named(&Recipient::read_file(&path, &NoUnlock).unwrap_err(), &path);
}

#[test]
fn nothing_is_wrapped() {
    for error in [age::wrap(b"key", &[]).unwrap_err(), "age1".parse::<Recipient>().unwrap_err()] {
        assert!(error.to_string().contains("build it with the feature `age`"), "{error}");
    }
}

#[test]
fn plain_keys_are_read_and_written() {
    let directory = tempfile::tempdir().unwrap();
    for &format in KeyFormat::ALL {
        let key = KeyMaterial::generate(format).unwrap();
        let path = directory.path().join(format.name());
        create(&path, key.to_text().as_bytes()).unwrap();
        assert_eq!(load(&path, &NoUnlock).unwrap().to_text(), key.to_text());
    }
}
