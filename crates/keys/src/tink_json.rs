//! Tink keysets as text: Tink's JSON keyset format, with key values as protocol buffers in base64
//! (tink.proto, aes_gcm_hkdf_streaming.proto and common.proto of Tink).

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message as _;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::malformed::{JsonFault, KeysetFault, KeysetKeyFault};
use super::text::in_one_line;
use super::{HkdfHash, MalformedKey, TinkKey, TinkKeyset};

/// Reads the enabled keys of a keyset; skips disabled and destroyed keys unread.
///
/// # Errors
/// Names the fault, without quoting the text.
pub(super) fn parse(text: &[u8]) -> Result<TinkKeyset, MalformedKey> {
    // serde_json's own messages quote the offending text. A mail program may have wrapped a key's
    // long value, and JSON allows no line breaks within a string.
    let keyset: JsonKeyset = serde_json::from_slice(text)
        .or_else(|error| serde_json::from_slice(&in_one_line(text)).map_err(|_| error))
        .map_err(|error| MalformedKey::Json {
            fault: if error.is_data() { JsonFault::Value } else { JsonFault::Syntax },
            line: error.line(),
            column: error.column(),
        })?;
    if keyset.encrypted_keyset.is_some() {
        return Err(MalformedKey::EncryptedKeyset);
    }
    let mut primary = None;
    let mut others = Vec::new();
    for key in &keyset.key {
        let Some(key) = read_key(key)? else { continue };
        if key.id != keyset.primary_key_id {
            others.push(key);
        } else if primary.replace(key).is_some() {
            return Err(MalformedKey::Keyset(KeysetFault::SeveralPrimaryKeys));
        }
    }
    match primary {
        Some(primary) => Ok(TinkKeyset { primary, others }),
        None if others.is_empty() => Err(MalformedKey::Keyset(KeysetFault::NoEnabledKey)),
        None => Err(MalformedKey::Keyset(KeysetFault::NoPrimaryKey)),
    }
}

/// Writes a keyset that every Tink reads, with all keys enabled and a newline at the end.
pub(super) fn render(keyset: &TinkKeyset) -> Zeroizing<String> {
    let json = JsonKeyset {
        primary_key_id: keyset.primary.id,
        key: keyset.keys().map(write_key).collect(),
        encrypted_keyset: None,
    };
    // Allocates all of it at the start: growth would leave copies of the keys behind.
    let values: usize = keyset.keys().map(|key| key.value.len() * 2 + 1024).sum();
    let mut text = Zeroizing::new(Vec::with_capacity(1024 + values));
    serde_json::to_writer_pretty(&mut *text, &json).expect("writing to memory does not fail");
    text.push(b'\n');
    let text = String::from_utf8(std::mem::take(&mut *text)).expect("JSON is UTF-8");
    Zeroizing::new(text)
}

fn read_key(key: &JsonKey) -> Result<Option<TinkKey>, MalformedKey> {
    let id = key.key_id;
    let wrong = |fault| MalformedKey::KeysetKey { id, fault };
    match key.status {
        Status::Enabled => {}
        Status::Disabled | Status::Destroyed => return Ok(None),
        Status::Unknown => return Err(wrong(KeysetKeyFault::UnknownStatus)),
    }
    // Streaming ciphertexts have no prefix whatever this field says, but the field is required.
    if key.output_prefix_type == PrefixType::Unknown {
        return Err(wrong(KeysetKeyFault::UnknownPrefix));
    }
    let data = key.key_data.as_ref().ok_or_else(|| wrong(KeysetKeyFault::NoData))?;
    if data.type_url != TYPE_URL {
        return Err(MalformedKey::KeyType { id, name: short_type_name(&data.type_url) });
    }
    let value = decode(&data.value).ok_or_else(|| wrong(KeysetKeyFault::Encoding))?;
    let mut message =
        StreamingKey::decode(value.as_slice()).map_err(|_| wrong(KeysetKeyFault::Message))?;
    if message.version != 0 {
        return Err(wrong(KeysetKeyFault::Version));
    }
    let params = message.params.clone().unwrap_or_default();
    let key = TinkKey {
        id,
        value: Zeroizing::new(std::mem::take(&mut message.key_value)),
        hash: match params.hkdf_hash_type {
            SHA1 => HkdfHash::Sha1,
            SHA256 => HkdfHash::Sha256,
            SHA512 => HkdfHash::Sha512,
            _ => return Err(wrong(KeysetKeyFault::Hash)),
        },
        derived_key_length: params.derived_key_size as usize,
        segment_length: params.ciphertext_segment_size,
    };
    match key.flaw() {
        Some(flaw) => Err(wrong(KeysetKeyFault::Parameters(flaw))),
        None => Ok(Some(key)),
    }
}

fn write_key(key: &TinkKey) -> JsonKey {
    let message = StreamingKey {
        version: 0,
        params: Some(StreamingParams {
            ciphertext_segment_size: key.segment_length,
            derived_key_size: key.derived_key_length as u32,
            hkdf_hash_type: match key.hash {
                HkdfHash::Sha1 => SHA1,
                HkdfHash::Sha256 => SHA256,
                HkdfHash::Sha512 => SHA512,
            },
        }),
        key_value: key.value.to_vec(),
    };
    let value = Zeroizing::new(message.encode_to_vec());
    JsonKey {
        key_data: Some(JsonKeyData {
            type_url: TYPE_URL.to_owned(),
            value: Zeroizing::new(BASE64.encode(value.as_slice())),
            key_material_type: "SYMMETRIC".to_owned(),
        }),
        status: Status::Enabled,
        key_id: key.id,
        output_prefix_type: PrefixType::Raw,
    }
}

/// Protocol buffers in JSON encode bytes in either base64 alphabet, with or without padding.
fn decode(encoded: &str) -> Option<Zeroizing<Vec<u8>>> {
    let engine = if encoded.contains(['-', '_']) { BASE64URL } else { BASE64 };
    let mut decoded = Zeroizing::new(Vec::with_capacity(encoded.len()));
    engine.decode_vec(encoded, &mut decoded).ok()?;
    Some(decoded)
}

/// The last word of one of Tink's types. Any other text may be anything, even a key, and is not
/// quoted.
fn short_type_name(url: &str) -> String {
    let name = url.strip_prefix(TYPE_URL_PREFIX);
    let known = TYPES.iter().find(|&&known| name == Some(known));
    known.copied().unwrap_or("unknown").to_owned()
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonKeyset {
    #[serde(default)]
    primary_key_id: u32,
    #[serde(default)]
    key: Vec<JsonKey>,
    /// Present if a key management service encrypted the keyset; then no other field is.
    #[serde(default, skip_serializing)]
    encrypted_keyset: Option<IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonKey {
    key_data: Option<JsonKeyData>,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    key_id: u32,
    #[serde(default)]
    output_prefix_type: PrefixType,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonKeyData {
    #[serde(default)]
    type_url: String,
    #[serde(default)]
    value: Zeroizing<String>,
    #[serde(default)]
    key_material_type: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    #[default]
    #[serde(rename = "UNKNOWN_STATUS")]
    Unknown,
    Enabled,
    Disabled,
    Destroyed,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum PrefixType {
    #[default]
    #[serde(rename = "UNKNOWN_PREFIX")]
    Unknown,
    Tink,
    Legacy,
    Raw,
    Crunchy,
}

/// `AesGcmHkdfStreamingKey`.
#[derive(prost::Message, Zeroize, ZeroizeOnDrop)]
#[prost(skip_debug)]
struct StreamingKey {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, optional, tag = "2")]
    #[zeroize(skip)]
    params: Option<StreamingParams>,
    #[prost(bytes = "vec", tag = "3")]
    key_value: Vec<u8>,
}

/// `AesGcmHkdfStreamingParams`.
#[derive(Clone, prost::Message)]
struct StreamingParams {
    #[prost(uint32, tag = "1")]
    ciphertext_segment_size: u32,
    #[prost(uint32, tag = "2")]
    derived_key_size: u32,
    #[prost(int32, tag = "3")]
    hkdf_hash_type: i32,
}

const TYPE_URL: &str = "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey";
const TYPE_URL_PREFIX: &str = "type.googleapis.com/google.crypto.tink.";

/// Tink's other types of keys.
const TYPES: [&str; 29] = [
    "AesCmacKey",
    "AesCmacPrfKey",
    "AesCtrHmacAeadKey",
    "AesCtrHmacStreamingKey",
    "AesEaxKey",
    "AesGcmKey",
    "AesGcmSivKey",
    "AesSivKey",
    "ChaCha20Poly1305Key",
    "EciesAeadHkdfPrivateKey",
    "EciesAeadHkdfPublicKey",
    "EcdsaPrivateKey",
    "EcdsaPublicKey",
    "Ed25519PrivateKey",
    "Ed25519PublicKey",
    "HkdfPrfKey",
    "HmacKey",
    "HmacPrfKey",
    "HpkePrivateKey",
    "HpkePublicKey",
    "JwtHmacKey",
    "KmsAeadKey",
    "KmsEnvelopeAeadKey",
    "RsaSsaPkcs1PrivateKey",
    "RsaSsaPkcs1PublicKey",
    "RsaSsaPssPrivateKey",
    "RsaSsaPssPublicKey",
    "XAesGcmKey",
    "XChaCha20Poly1305Key",
];

// Values of the enumeration `HashType`.
const SHA1: i32 = 1;
const SHA256: i32 = 3;
const SHA512: i32 = 4;

const PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, PADDING);
const BASE64URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, PADDING);

#[cfg(test)]
mod tests;
