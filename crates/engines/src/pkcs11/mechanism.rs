//! Maps ciphers to mechanisms.

use cryptoki_sys as ck;
use cryptoki_sys::{CK_KEY_TYPE, CK_MECHANISM_TYPE};
use evener_core::{Cipher, Mode};

/// The mechanism of a cipher and the type of its keys; `None` for ciphers that the standard
/// does not have or that tokens do not offer for bulk data.
pub(super) fn mechanism(cipher: Cipher) -> Option<(CK_MECHANISM_TYPE, CK_KEY_TYPE)> {
    use Cipher::{
        Aes128Cbc, Aes128Ctr, Aes128Ecb, Aes128Gcm, Aes192Cbc, Aes192Ctr, Aes192Ecb, Aes192Gcm,
        Aes256Cbc, Aes256Ctr, Aes256Ecb, Aes256Gcm, DesEde3Cbc,
    };
    Some(match cipher {
        Aes128Ecb | Aes192Ecb | Aes256Ecb => (ck::CKM_AES_ECB, ck::CKK_AES),
        Aes128Cbc | Aes192Cbc | Aes256Cbc => (ck::CKM_AES_CBC, ck::CKK_AES),
        Aes128Ctr | Aes192Ctr | Aes256Ctr => (ck::CKM_AES_CTR, ck::CKK_AES),
        Aes128Gcm | Aes192Gcm | Aes256Gcm => (ck::CKM_AES_GCM, ck::CKK_AES),
        DesEde3Cbc => (ck::CKM_DES3_CBC, ck::CKK_DES3),
        _ => return None,
    })
}

/// Returns whether a key of this type, and of this length in bytes if the type has several, fits
/// the cipher.
pub(super) fn takes_key(cipher: Cipher, kind: CK_KEY_TYPE, length: Option<usize>) -> bool {
    let fits = |length| kind != ck::CKK_AES || length == cipher.key_length();
    mechanism(cipher).is_some_and(|(_, wanted)| wanted == kind) && length.is_none_or(fits)
}

/// Returns whether the key lengths that a token reports for a mechanism include the cipher's. AES
/// mechanisms count bytes, but some modules count bits; DES3 has one length and no count.
pub(super) fn includes_length(cipher: Cipher, shortest: usize, longest: usize) -> bool {
    let length = cipher.key_length();
    let bounds = shortest..=longest;
    longest == 0
        || cipher == Cipher::DesEde3Cbc
        || bounds.contains(&length)
        || (shortest >= 128 && bounds.contains(&(8 * length)))
}

/// Greatest part of a message in one request, in bytes, if the message can be divided. Network
/// tokens allow at least this.
pub(super) const PART_LENGTH: usize = 1 << 15;

/// Returns whether messages can be divided into parts, each with an IV that follows from the
/// previous part.
pub(super) fn can_be_parted(mode: Mode) -> bool {
    matches!(mode, Mode::Ecb | Mode::Cbc | Mode::Ctr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_lengths_are_compared_in_bytes_or_bits() {
        assert!(includes_length(Cipher::Aes128Cbc, 16, 32));
        assert!(!includes_length(Cipher::Aes256Cbc, 16, 24));
        assert!(includes_length(Cipher::Aes256Cbc, 128, 256));
        assert!(!includes_length(Cipher::Aes256Cbc, 128, 192));
        assert!(includes_length(Cipher::Aes256Cbc, 0, 0));
    }

    #[test]
    fn keys_belong_to_ciphers_of_their_type_and_length() {
        assert!(takes_key(Cipher::Aes128Gcm, ck::CKK_AES, Some(16)));
        assert!(!takes_key(Cipher::Aes128Gcm, ck::CKK_AES, Some(32)));
        assert!(takes_key(Cipher::DesEde3Cbc, ck::CKK_DES3, None));
        assert!(!takes_key(Cipher::Aes128Gcm, ck::CKK_DES3, None));
        assert!(!takes_key(Cipher::BfCbc, ck::CKK_AES, None));
    }
}
