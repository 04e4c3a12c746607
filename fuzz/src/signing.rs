//! Signatures and public keys of OpenSSH.

use evener_keys::signing::{PublicKey, verify};

/// A binary signature, a public key, or a public key's line. A key that was read is shown, and read
/// back the same.
pub fn ssh_signature(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let line = PublicKey::from_line(&text).map(|(key, _)| key);
    let keys = [verify(data, MESSAGE).ok(), PublicKey::from_wire(data).ok(), line.ok()];
    for key in keys.into_iter().flatten() {
        let (again, comment) = PublicKey::from_line(&key.to_string()).expect("what it showed");
        assert!(again == key && comment.is_empty(), "it reads back as another key");
        assert!(PublicKey::from_wire(key.wire()) == Ok(key), "its wire form is of another key");
    }
}

/// The message that the signatures in the corpus sign.
const MESSAGE: &[u8] = b"a root";
