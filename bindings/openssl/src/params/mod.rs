//! The parameters of a call, by their names and types.

#[allow(unsafe_code)]
mod sys;

pub(crate) use sys::{Params, Value};

/// The parameters that ciphers have (`openssl/core_names.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Mode,
    BlockSize,
    Aead,
    CustomIv,
    KeyLength,
    IvLength,
    Iv,
    UpdatedIv,
    Tag,
    TagLength,
    TlsAad,
    TlsAadPad,
    TlsIvFixed,
    TlsIvGenerated,
    TlsIvInvocation,
    IvGenerated,
    Padding,
    Number,
    UseBits,
    TlsVersion,
    TlsMac,
    TlsMacLength,
    /// A parameter for a feature that no cipher here has.
    Absent,
    Unknown,
}

impl Name {
    pub(crate) fn of(key: &[u8]) -> Name {
        match key {
            b"mode" => Name::Mode,
            b"blocksize" => Name::BlockSize,
            b"aead" => Name::Aead,
            b"custom-iv" => Name::CustomIv,
            b"cts" | b"tls-multi" | b"has-randkey" | b"encrypt-then-mac" => Name::Absent,
            b"keylen" => Name::KeyLength,
            b"ivlen" => Name::IvLength,
            b"iv" => Name::Iv,
            b"updated-iv" => Name::UpdatedIv,
            b"tag" => Name::Tag,
            b"taglen" => Name::TagLength,
            b"tlsaad" => Name::TlsAad,
            b"tlsaadpad" => Name::TlsAadPad,
            b"tlsivfixed" => Name::TlsIvFixed,
            b"tlsivgen" => Name::TlsIvGenerated,
            b"tlsivinv" => Name::TlsIvInvocation,
            b"iv-generated" => Name::IvGenerated,
            b"padding" => Name::Padding,
            b"num" => Name::Number,
            b"use-bits" => Name::UseBits,
            b"tls-version" => Name::TlsVersion,
            b"tls-mac" => Name::TlsMac,
            b"tls-mac-size" => Name::TlsMacLength,
            _ => Name::Unknown,
        }
    }
}
