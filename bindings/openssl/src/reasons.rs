//! The reasons for errors in OpenSSL's error queue.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::sys::Item;

/// The reason for which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Reason {
    /// The text or its tag is not genuine. As in OpenSSL's own ciphers, the status of the call
    /// reports it and nothing is put into the queue: a caller may continue after it. (For a TLS 1.2
    /// record it is [`Reason::OperationFailed`].)
    Forged = 1,
    KeyLength,
    IvLength,
    NoKey,
    IvUsed,
    Tag,
    NoTag,
    Aad,
    Room,
    Overlap,
    Order,
    Record,
    Random,
    Parameter,

    /// `ERR_R_MALLOC_FAILURE`, which all of OpenSSL's libraries have.
    Memory = 3 << 18 | 256,

    // Reasons that ECB, CBC and CTR share with OpenSSL's own ciphers, with OpenSSL's numbers:
    // programs look for these (`openssl/proverr.h`).
    BadDecrypt = OPENSSLS | 100,
    OperationFailed = OPENSSLS | 102,
    NoParameter = OPENSSLS | 103,
    NoAnswer = OPENSSLS | 104,
    InvalidKeyLength = OPENSSLS | 105,
    TooSmall = OPENSSLS | 106,
    WrongFinalBlockLength = OPENSSLS | 107,
    InvalidIvLength = OPENSSLS | 109,
    NoKeySet = OPENSSLS | 114,
}

/// The library of OpenSSL's own providers, in its place in an error number.
const OPENSSLS: u32 = 57 << 23;

impl Reason {
    /// The reasons for which OpenSSL has no text, except [`Reason::Forged`].
    const RAISED: [Reason; 13] = [
        Reason::KeyLength,
        Reason::IvLength,
        Reason::NoKey,
        Reason::IvUsed,
        Reason::Tag,
        Reason::NoTag,
        Reason::Aad,
        Reason::Room,
        Reason::Overlap,
        Reason::Order,
        Reason::Record,
        Reason::Random,
        Reason::Parameter,
    ];

    const fn words(self) -> &'static CStr {
        match self {
            Reason::Forged => c"the tag is wrong",
            Reason::KeyLength => c"the key has another length than the cipher's",
            Reason::IvLength => c"the IV has no bytes or more than 128, or too few for TLS",
            Reason::NoKey => c"no key has been set",
            Reason::IvUsed => c"the IV has been used; set another one",
            Reason::Tag => {
                c"a tag has 1 to 16 bytes; it is set to decrypt, and got after encryption"
            }
            Reason::NoTag => c"no tag has been set to compare with",
            Reason::Aad => c"the additional data are none of a TLS record",
            Reason::Room => c"there is no room for the result",
            Reason::Overlap => c"the result would replace a part of the text only",
            Reason::Order => c"additional data come before the text, and neither may be too long",
            Reason::Record => c"a TLS record is replaced by its result and has an IV and a tag",
            Reason::Random => c"the system gives no random bytes",
            Reason::Parameter => c"the parameter's value has another type or size",
            _ => c"",
        }
    }
}

/// The numbers and their texts, for OpenSSL.
pub(crate) static REASONS: [Item; Reason::RAISED.len() + 1] = {
    let mut items = [const { Item { number: 0, text: ptr::null::<c_char>() } }; 14];
    let mut index = 0;
    while index < Reason::RAISED.len() {
        let reason = Reason::RAISED[index];
        items[index] = Item { number: reason as u32, text: reason.words().as_ptr() };
        index += 1;
    }
    items
};
