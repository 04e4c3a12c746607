//! Tests a keyset from Tink, changes to it that Tink refuses too, and round trips.

use proptest::prelude::*;

use super::super::TinkTemplate;
use super::*;

/// Tink 1.16 for Python wrote this from its template AES256_GCM_HKDF_4KB.
const FROM_TINK: &str = r#"{
  "primaryKeyId": 1874264735,
  "key": [
    {
      "keyData": {
        "typeUrl": "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey",
        "value": "EgcIgCAQIBgDGiAeMc/BnjCXxYUUiQaSiRGZ//GLxoXu4z+U+Kn2bq+HOw==",
        "keyMaterialType": "SYMMETRIC"
      },
      "status": "ENABLED",
      "keyId": 1874264735,
      "outputPrefixType": "RAW"
    }
  ]
}"#;

/// The same key's value, as a protocol buffer.
fn message() -> StreamingKey {
    let value = decode("EgcIgCAQIBgDGiAeMc/BnjCXxYUUiQaSiRGZ//GLxoXu4z+U+Kn2bq+HOw==");
    StreamingKey::decode(value.unwrap().as_slice()).unwrap()
}

fn json_key(id: u32, status: &str, message: &StreamingKey) -> serde_json::Value {
    serde_json::json!({
        "keyData": {
            "typeUrl": TYPE_URL,
            "value": BASE64.encode(message.encode_to_vec()),
            "keyMaterialType": "SYMMETRIC",
        },
        "status": status,
        "keyId": id,
        "outputPrefixType": "RAW",
    })
}

fn keyset(primary: u32, keys: &[serde_json::Value]) -> Result<TinkKeyset, MalformedKey> {
    let json = serde_json::json!({ "primaryKeyId": primary, "key": keys });
    parse(json.to_string().as_bytes())
}

fn key_error(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut key = json_key(9, "ENABLED", &message());
    change(&mut key);
    keyset(9, &[key]).unwrap_err().to_string()
}

fn message_error(change: impl FnOnce(&mut StreamingKey)) -> String {
    let mut message = message();
    change(&mut message);
    keyset(9, &[json_key(9, "ENABLED", &message)]).unwrap_err().to_string()
}

#[test]
fn a_keyset_of_tink_is_read() {
    let keyset = parse(FROM_TINK.as_bytes()).unwrap();
    assert!(keyset.others.is_empty());
    let key = &keyset.primary;
    assert_eq!(key.id, 1_874_264_735);
    assert_eq!((key.hash, key.derived_key_length), (HkdfHash::Sha256, 32));
    assert_eq!(key.segment_length, 4096);
    assert_eq!(key.value.len(), 32);
    assert_eq!(key.value[..4], [0x1E, 0x31, 0xCF, 0xC1]);
}

#[test]
fn what_is_written_for_the_same_key_is_what_tink_writes() {
    let keyset = parse(FROM_TINK.as_bytes()).unwrap();
    let ours: serde_json::Value = serde_json::from_str(&render(&keyset)).unwrap();
    let theirs: serde_json::Value = serde_json::from_str(FROM_TINK).unwrap();
    assert_eq!(ours, theirs);
}

#[test]
fn the_primary_and_every_enabled_key_are_kept() {
    let mut other = message();
    let params = other.params.as_mut().unwrap();
    (params.derived_key_size, params.hkdf_hash_type) = (16, SHA512);
    other.key_value = vec![5; 80];
    let broken = serde_json::json!({ "status": "DESTROYED", "keyId": 4 });
    let keys = [
        json_key(7, "ENABLED", &other),
        json_key(9, "DISABLED", &message()),
        json_key(9, "ENABLED", &message()),
        json_key(7, "ENABLED", &message()),
        broken,
    ];
    let keyset = keyset(9, &keys).unwrap();
    assert_eq!(keyset.primary.id, 9);
    assert_eq!(keyset.others.iter().map(|key| key.id).collect::<Vec<_>>(), [7, 7]);
    assert_eq!(keyset.others[0].hash, HkdfHash::Sha512);
    assert_eq!(*keyset.others[0].value, [5; 80]);

    let again = parse(render(&keyset).as_bytes()).unwrap();
    assert_eq!(again.keys().count(), 3);
    assert_eq!(again.others[0].value, keyset.others[0].value);
}

#[test]
fn a_keyset_that_tink_refuses_is_refused() {
    let enabled = || json_key(9, "ENABLED", &message());
    let disabled = json_key(9, "DISABLED", &message());
    let cases = [
        (keyset(9, &[]), "the keyset holds no enabled key"),
        (keyset(9, &[disabled]), "the keyset holds no enabled key"),
        (keyset(8, &[enabled()]), "the keyset has no enabled primary key"),
        (keyset(9, &[enabled(), enabled()]), "the keyset has several primary keys"),
    ];
    for (result, expected) in cases {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_key_that_tink_refuses_is_refused() {
    let cases = [
        (key_error(|key| key["status"] = "UNKNOWN_STATUS".into()), "status is unknown"),
        (
            key_error(|key| key["outputPrefixType"] = "UNKNOWN_PREFIX".into()),
            "prefix type is unknown",
        ),
        (key_error(|key| key["keyData"] = serde_json::Value::Null), "no key data"),
        (key_error(|key| key["keyData"]["value"] = "?".into()), "not base64"),
        (key_error(|key| key["keyData"]["value"] = "//8=".into()), "not an AesGcmHkdf"),
        (key_error(|key| key["keyData"]["value"] = "".into()), "HKDF hash"),
        (message_error(|message| message.version = 1), "version is not 0"),
        (message_error(|message| message.params = None), "HKDF hash"),
        (message_error(|message| message.params.as_mut().unwrap().hkdf_hash_type = 2), "HKDF hash"),
        (
            message_error(|message| message.params.as_mut().unwrap().derived_key_size = 24),
            "neither 16 nor 32",
        ),
        (message_error(|message| message.key_value.truncate(31)), "shorter than the derived"),
    ];
    for (message, expected) in cases {
        assert!(message.starts_with("key 9 of the keyset: "), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_key_of_another_type_is_named() {
    let message = key_error(|key| {
        key["keyData"]["typeUrl"] = "type.googleapis.com/google.crypto.tink.AesGcmKey".into();
    });
    assert!(message.contains("is of type AesGcmKey, not AesGcmHkdfStreamingKey"), "{message}");
    let message = key_error(|key| key["keyData"]["typeUrl"] = "secret".into());
    assert!(message.contains("is of type unknown"), "{message}");
    // A key in the wrong place.
    let message = key_error(|key| {
        key["keyData"]["typeUrl"] = format!("{TYPE_URL_PREFIX}c2VjcmV0a2V5").into();
    });
    assert!(message.contains("is of type unknown"), "{message}");
}

#[test]
fn an_encrypted_keyset_is_told_apart() {
    let text = br#"{"encryptedKeyset": "AAAA", "keysetInfo": {"primaryKeyId": 1}}"#;
    assert_eq!(parse(text).unwrap_err(), MalformedKey::EncryptedKeyset);
}

#[test]
fn errors_say_where_and_do_not_quote() {
    let text = b"{\n  \"primaryKeyId\": \"swordfish\"\n}";
    let message = parse(text).unwrap_err().to_string();
    assert_eq!(message, "it is no Tink keyset: an unexpected value at line 2, column 29");
    let message = parse(b"{\"swordfish").unwrap_err().to_string();
    assert!(message.contains("a syntax error at line 1"), "{message}");
    assert!(!message.contains("swordfish"));
}

#[test]
fn a_text_cut_anywhere_is_refused() {
    let keyset = TinkKeyset::generate(TinkTemplate::default()).unwrap();
    let text = render(&keyset);
    for length in 0..text.trim_end().len() {
        assert!(parse(&text.as_bytes()[..length]).is_err(), "cut to {length} bytes");
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&text);
    }

    #[test]
    fn changed_text_never_panics(index in 0..FROM_TINK.len(), byte in any::<u8>()) {
        let mut text = FROM_TINK.as_bytes().to_vec();
        text[index] = byte;
        for key in parse(&text).iter().flat_map(TinkKeyset::keys) {
            prop_assert_eq!(key.flaw(), None);
        }
    }

    #[test]
    fn a_garbage_value_never_panics(value in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut key = json_key(9, "ENABLED", &message());
        key["keyData"]["value"] = BASE64.encode(value).into();
        for key in keyset(9, &[key]).iter().flat_map(TinkKeyset::keys) {
            prop_assert_eq!(key.flaw(), None);
        }
    }

    #[test]
    fn every_key_reads_back(
        id in any::<u32>(),
        value in prop::collection::vec(any::<u8>(), 32..200),
        hash in prop::sample::select(vec![HkdfHash::Sha1, HkdfHash::Sha256, HkdfHash::Sha512]),
        derived_key_length in prop::sample::select(vec![16, 32_usize]),
        segment_length in 57..=i32::MAX as u32,
    ) {
        let value = Zeroizing::new(value);
        let primary = TinkKey { id, value, hash, derived_key_length, segment_length };
        let text = render(&TinkKeyset { primary: primary.clone(), others: Vec::new() });
        let read = parse(text.as_bytes()).unwrap().primary;
        prop_assert_eq!(read.id, primary.id);
        prop_assert_eq!(read.value, primary.value);
        prop_assert_eq!(read.hash, primary.hash);
        prop_assert_eq!(read.derived_key_length, primary.derived_key_length);
        prop_assert_eq!(read.segment_length, primary.segment_length);
    }
}
