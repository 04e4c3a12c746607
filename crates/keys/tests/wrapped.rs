//! Tests key files that age encrypted.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use evener_keys::age::{self, Identity};
use evener_keys::{
    Fingerprint, KeyError, KeyFile, KeyFormat, KeyMaterial, NoUnlock, Passphrase, create, load,
};

#[test]
fn an_encrypted_key_file_may_be_readable_and_a_plain_one_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::generate();
    let key = KeyMaterial::generate(KeyFormat::Tink).unwrap();
    let wrapped = age::wrap(key.to_text().as_bytes(), &[identity.recipient().unwrap()]).unwrap();
    let (plain, encrypted) = (directory.path().join("plain"), directory.path().join("age"));
    create(&plain, key.to_text().as_bytes()).unwrap();
    create(&encrypted, &wrapped).unwrap();
    for path in [&plain, &encrypted] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(load(&encrypted, &vec![identity]).unwrap().to_text(), key.to_text());
    let error = load(&plain, &NoUnlock).unwrap_err();
    assert!(matches!(error, KeyError::OpenToOthers { mode: 0o644, .. }), "{error}");
}

#[test]
fn only_a_passphrase_shows_whose_a_wrapped_key_is() {
    let directory = tempfile::tempdir().unwrap();
    let key = KeyMaterial::generate(KeyFormat::default()).unwrap();
    let text = key.to_text();
    let recipient = Identity::generate().recipient().unwrap();
    let passphrase = Passphrase::new(b"open sesame", "a test").unwrap();
    let files = [
        (text.as_bytes().to_vec(), false),
        (age::wrap(text.as_bytes(), &[recipient]).unwrap(), false),
        (age::wrap_with_passphrase(text.as_bytes(), &passphrase).unwrap(), true),
        (b"age-encryption.org/v1\n-> scrypt".to_vec(), false),
    ];
    for (number, (contents, has_passphrase)) in files.into_iter().enumerate() {
        let path = directory.path().join(number.to_string());
        create(&path, &contents).unwrap();
        let file = KeyFile::read(&path).unwrap();
        assert_eq!(file.has_passphrase(), has_passphrase, "{number}");
        assert_eq!(file.fingerprint(), Fingerprint::of(&contents));
    }
    let empty = Fingerprint::of(b"").to_string();
    assert_eq!(empty, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
