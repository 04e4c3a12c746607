//! Reads files that other programs made: Tink for Python 1.16.1 and `openssl enc` 3.0.19.

use evener_core::Cipher;

use super::{is_available, open};
use crate::{Digest, HkdfHash, OpensslSecret, Recipe, TinkKey};

const TEXT: &[u8] =
    b"The quick brown fox jumps over the lazy dog, twice a day, and never on Sundays.";

#[test]
fn tink_files_open() {
    let cases = [
        (
            (HkdfHash::Sha1, 16, 64, ""),
            "18bc1c167a7afc8359b18e184c02d9013eef8d26742cde4a9a7555179f076e0d204ffcc8bdb3f218f59a\
             0f99ce5dd74d37dee21dc178449b3eee1c7d03ddc4d79043d7c294e3fd032aacdf04f34004185bf9c687\
             9a86695acccb69787ab257f69e53e24f267ed4765ba1b947ace956dc05746ceeabcb58f1e1568fc17430\
             e4a91cfc8b55e005b53a0e19fff8664a71344057abff087033",
        ),
        (
            (HkdfHash::Sha256, 16, 72, "aad"),
            "1872a0ef6124e9e18cafd16f793bd2ee87ce9dea9745ddd90d2365b4092ae2a513d4f1ee250534b11f41\
             904e19ea79e1fee225f7c6f6fd7a70d23deb6694dc9b6b1eb040fcddd03aad8b6924651d6f44f89782f9\
             b87d97befa2b07aa4ae3aa84634a0ae272f7fe0c6f2ef79b438d402278dd46b5f438aa99bc327d344f9c\
             b4bd7327bd1df33238",
        ),
        (
            (HkdfHash::Sha512, 32, 115, "context"),
            "28a63d5affa6f3e7ed81048656b5271ebe3948f484b0816fb87b72500c30080b9c9583b32976c63a03db\
             63e76e272f0a76019fb665dbcef4a8dd6ea954b72dea86a10440d049c3d4874c30d8425c0834e2d54dfa\
             8e906e485623c9f9cb9d205edba10c0efe23cd00ab5ad9dde8e705aab3682390835403c0ba95a499c829\
             4f54a38e912ecf850e38c7496c7f89a1ce013a09d4989e0bb8",
        ),
    ];
    for ((hash, derived_key_length, segment_length, aad), hex) in cases {
        let value = (0..32).collect::<Vec<u8>>().into();
        let key = TinkKey { id: 1, value, hash, derived_key_length, segment_length };
        let recipe = Recipe::tink(key, aad.as_bytes()).unwrap();
        let sealed = bytes(hex);
        assert_eq!(open(&recipe, &sealed).as_deref(), Ok(TEXT), "{hash:?}");
    }
}

#[test]
fn openssl_files_open() {
    let cases = [
        (
            (Cipher::Aes256Cbc, Digest::Sha256, OpensslSecret::DEFAULT_ITERATIONS),
            "53616c7465645f5fbce2e16a0d4e63f4f44ac1bec5af27d2491e91c5663ea42f076273dffafd5d8907ac\
             e19f24242b0ae3063a56eb09549ad1af2745dd6c35d958e5d1b0f0c16936aa8c0db6e77557d06475a4e3\
             b92afcaffb3bf00ab2ba88bb",
        ),
        (
            (Cipher::Aes128Ctr, Digest::Sha512, 3),
            "53616c7465645f5fab1b56088d4691e421fdb67d4f67b1ef5fdf89fcc1b8ca4c0c01a23ff7b94501a65f\
             485b5e0179f6d71ca31012bf0730b344c62baecb8ddadf4cc58617da2a8d2e7b4044206d33821562b311\
             00511b4abd8b70dae0f002",
        ),
        (
            (Cipher::BfCbc, Digest::Md5, 7),
            "53616c7465645f5f05de259fd804cc7f1d9ab6e9fc9839ae7d3ee12b3a6309060a943c407c9471940337\
             8def4035ea68901c771844faed5f8f46631435a77489694f332078476a380f30c0955ef84678f469becc\
             64fb8afe2345d0024a441be7",
        ),
        (
            (Cipher::Camellia192Cbc, Digest::Sha1, 1),
            "53616c7465645f5f165e22fb4751aca5f32f3463344360b60cd56f02360e50c74559701a7a69a651b79a\
             fc59c83c82fb5a2d51baa3bdcad36240a89362c321fe9244a9617f3ca89749cc99daa498d2ddac0fb14d\
             aef8b181425ae79b46955eaa",
        ),
        (
            (Cipher::DesEde3Cbc, Digest::Sha384, 5),
            "53616c7465645f5ff41d13185d101c920bdb0461b1225baac359f365bca5c6fc15aa7616a929182fac36\
             9b88d462dbc4e0add79f6176d11cc94acc2a09e3c3da01ba031f780f65c60bff63140bfc96a187329276\
             f0181d2833f801b25d68a496",
        ),
    ];
    for ((cipher, digest, iterations), hex) in cases {
        let passphrase = b"horse power".to_vec().into();
        let secret = OpensslSecret::Passphrase { passphrase, digest, iterations };
        let recipe = Recipe::openssl_enc(cipher, secret).unwrap();
        let sealed = bytes(hex);
        if is_available(cipher) {
            assert_eq!(open(&recipe, &sealed).as_deref(), Ok(TEXT), "{cipher}");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |position| u8::from_str_radix(&hex[position..position + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}
