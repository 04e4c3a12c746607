//! The text of key files.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use evener_keys::{KeyMaterial, NoUnlock, PipeHead};

/// A key file that is not encrypted: Evener's line or a Tink keyset. A key that was read is written
/// and read back the same. Or the head of a pipe, of which no byte too many is read.
pub fn key_file(data: &[u8]) {
    let mut rest = data;
    if let Ok(Ok(head)) = PipeHead::read(&mut rest, Path::new("pipe")) {
        let _ = head.open(&NoUnlock);
        let line = data.iter().position(|&byte| byte == b'\n').expect("the line's end");
        let wrapped = &data[line + 1..data.len() - rest.len()];
        assert!(PipeHead::of(wrapped) == data[..data.len() - rest.len()], "it is made otherwise");
    }
    let Ok(key) = KeyMaterial::parse(data) else { return };
    let text = key.to_text();
    let again = KeyMaterial::parse(text.as_bytes()).expect("what it wrote");
    assert!(again.to_text() == text, "it reads back as another key");
    assert!(!format!("{key:?}").contains("value: ["), "it shows its key");
    let _ = key.key_ring(b"context");
}

/// A Tink keyset whose keys are the protocol buffers in the bytes: the byte before each gives its
/// length, and that byte's highest bit means that the key is disabled.
pub fn tink_keyset(data: &[u8]) {
    let mut rest = data;
    let mut keys = Vec::new();
    while let Some((&head, behind)) = rest.split_first() {
        let (message, behind) = behind.split_at(usize::from(head & 0x7F).min(behind.len()));
        let status = if head & 0x80 == 0 { "ENABLED" } else { "DISABLED" };
        keys.push(serde_json::json!({
            "keyData": {
                "typeUrl": "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey",
                "value": BASE64_STANDARD.encode(message),
                "keyMaterialType": "SYMMETRIC",
            },
            "status": status,
            "keyId": keys.len() + 1,
            "outputPrefixType": "RAW",
        }));
        rest = behind;
    }
    let keyset = serde_json::json!({ "primaryKeyId": 1, "key": keys });
    key_file(keyset.to_string().as_bytes());
}
