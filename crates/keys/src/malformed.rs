//! Faults in the text of a key. No message quotes the text.

use crate::text::NotText;

/// The fault in a key's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedKey {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The bytes are not text in UTF-8.
    #[error(transparent)]
    NoText(#[from] NotText),
    /// An age file that encrypts something other than a key.
    #[error("the age file holds no key")]
    NoKeyInAge,
    /// The text is of neither format that Evener reads.
    #[error("it is neither an `evener-key:` line nor a Tink keyset in JSON")]
    Unknown,
    /// The text is an age file, which must be opened first.
    #[error("it is encrypted with age; decrypt it first")]
    AgeEncrypted,
    /// The text is an age identity, which opens key files but is not a key.
    #[error("it is an age identity; give it as such")]
    AgeIdentity,
    /// A key line that lacks some of its four parts.
    #[error("the key line is cut short; it reads `evener-key:v1:SUITE:KEY`")]
    CutShort,
    /// Several lines that do not join to a key line.
    #[error(
        "there is more than the key line, or it was wrapped and changed; leave only that, in one line"
    )]
    MoreThanOneLine,
    /// A key line of another version.
    #[error("the key line's version is not `v1`; a newer Evener may read it")]
    Version,
    /// A key line for a suite that Evener does not support.
    #[error("the key line's suite is neither `cobblestone-256` nor `cobblestone-128`")]
    Suite,
    /// The key in a key line is not base64url.
    #[error("the key line's key is not base64url (RFC 4648); it was changed or cut")]
    Encoding,
    /// The key in a key line does not have its suite's length.
    #[error("the key line's key has {actual} bytes, and its suite takes {expected}")]
    Length {
        /// Length in bytes.
        expected: usize,
        /// Length in bytes.
        actual: usize,
    },
    /// Not JSON, or not the JSON of a keyset.
    #[error("it is no Tink keyset: {fault} at line {line}, column {column}")]
    Json {
        /// The fault, in syntax or content.
        fault: JsonFault,
        /// The line number, from 1.
        line: usize,
        /// The column number, from 1; 0 when the line is empty.
        column: usize,
    },
    /// A keyset that a key management service encrypted.
    #[error(
        "the keyset is encrypted with a key management service; \
         convert it with `tinkey convert-keyset` first"
    )]
    EncryptedKeyset,
    /// Tink does not allow the keyset as a whole.
    #[error("the keyset {0}")]
    Keyset(KeysetFault),
    /// A key of the keyset has another type.
    #[error(
        "key {id} of the keyset is of type {name}, not AesGcmHkdfStreamingKey; \
         make one with `evener keygen`"
    )]
    KeyType {
        /// The key's identifier.
        id: u32,
        /// The type's short name.
        name: String,
    },
    /// Tink does not allow a key of the keyset.
    #[error("key {id} of the keyset: {fault}")]
    KeysetKey {
        /// The key's identifier.
        id: u32,
        /// The fault.
        fault: KeysetKeyFault,
    },
}

/// The fault in the JSON of a keyset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// It is not JSON.
    #[error("a syntax error")]
    Syntax,
    /// It is JSON, and not that of a keyset.
    #[error("an unexpected value")]
    Value,
}

/// The fault in a keyset as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysetFault {
    /// Several enabled keys have the primary key's identifier.
    #[error("has several primary keys")]
    SeveralPrimaryKeys,
    /// No key is enabled.
    #[error("holds no enabled key")]
    NoEnabledKey,
    /// Keys are enabled, but not the primary one.
    #[error("has no enabled primary key")]
    NoPrimaryKey,
}

/// The fault in a key of a keyset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysetKeyFault {
    /// It is not known whether the key is enabled.
    #[error("its status is unknown")]
    UnknownStatus,
    /// Its output prefix type is missing.
    #[error("its output prefix type is unknown")]
    UnknownPrefix,
    /// The field `keyData` is missing.
    #[error("it has no key data")]
    NoData,
    /// The value is not base64 in either alphabet.
    #[error("its value is not base64")]
    Encoding,
    /// The value is not the protocol buffer of its type.
    #[error("its value is not an AesGcmHkdfStreamingKey message")]
    Message,
    /// The key is of another version.
    #[error("its version is not 0; a newer Evener may read it")]
    Version,
    /// HKDF uses another hash.
    #[error("its HKDF hash is not SHA-1, SHA-256 or SHA-512")]
    Hash,
    /// Tink refuses the parameters; the text says why.
    #[error("{0}")]
    Parameters(&'static str),
}
