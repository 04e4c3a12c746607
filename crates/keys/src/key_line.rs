//! The text of a Cobblestone key: `evener-key:v1:cobblestone-256:BASE64URL`.
//!
//! One line of ASCII: a magic word, a version, a suite, and the key in base64url (RFC 4648, section
//! 5). Evener writes it without padding and with a newline. It accepts padding, a missing newline,
//! blanks around the line and breaks within it, as mail programs insert them, and refuses anything
//! else.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use evener_core::Key;
use zeroize::Zeroizing;

use super::text::in_one_line;
use super::{CobblestoneSuite, MalformedKey};

/// The first bytes of every key line.
pub(super) const MAGIC: &str = "evener-key:";

/// Reads a key line.
///
/// # Errors
/// Names the fault in the line, without quoting it. The line carries no checksum: exchanging a
/// character of the key for another of the alphabet gives another key.
pub(super) fn parse(text: &[u8]) -> Result<(CobblestoneSuite, Key), MalformedKey> {
    let line = text.trim_ascii();
    if line.iter().any(|byte| b"\r\n".contains(byte)) {
        return parse_line(&in_one_line(line)).map_err(|_| MalformedKey::MoreThanOneLine);
    }
    parse_line(line)
}

fn parse_line(line: &[u8]) -> Result<(CobblestoneSuite, Key), MalformedKey> {
    let line = std::str::from_utf8(line).map_err(|_| MalformedKey::Unknown)?;
    let fields = line.strip_prefix(MAGIC).ok_or(MalformedKey::Unknown)?;
    let (version, fields) = fields.split_once(':').ok_or(MalformedKey::CutShort)?;
    if version != VERSION {
        return Err(MalformedKey::Version);
    }
    let (suite, encoded) = fields.split_once(':').ok_or(MalformedKey::CutShort)?;
    let suite = CobblestoneSuite::ALL
        .into_iter()
        .find(|known| known.name() == suite)
        .ok_or(MalformedKey::Suite)?;
    Ok((suite, decode(encoded, suite.key_length())?))
}

/// Writes a key line, with its newline.
pub(super) fn render(suite: CobblestoneSuite, key: &Key) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new([0; ENCODED_MAX_LENGTH]);
    let length = BASE64URL
        .encode_slice(key.bytes(), encoded.as_mut())
        .expect("the buffer holds the longest key");
    // Allocates all of it at the start: growth would leave copies of the key behind.
    let mut line = Zeroizing::new(String::with_capacity(128));
    for part in [MAGIC, VERSION, ":", suite.name(), ":"] {
        line.push_str(part);
    }
    line.extend(encoded[..length].iter().map(|&byte| char::from(byte)));
    line.push('\n');
    line
}

fn decode(encoded: &str, expected: usize) -> Result<Key, MalformedKey> {
    let mut decoded = Zeroizing::new([0; ENCODED_MAX_LENGTH]);
    if encoded.len() > ENCODED_MAX_LENGTH {
        let actual = encoded.len() / 4 * 3;
        return Err(MalformedKey::Length { expected, actual });
    }
    let actual =
        BASE64URL.decode_slice(encoded, decoded.as_mut()).map_err(|_| MalformedKey::Encoding)?;
    match Key::new(&decoded[..actual]).ok() {
        Some(key) if actual == expected => Ok(key),
        _ => Err(MalformedKey::Length { expected, actual }),
    }
}

const VERSION: &str = "v1";

/// The length of the longest key of any cipher in base64, with padding.
const ENCODED_MAX_LENGTH: usize = Key::MAX_LENGTH.div_ceil(3) * 4;

const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The key 00 01 02 … 1f.
    const LINE: &str =
        "evener-key:v1:cobblestone-256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n";

    fn counting_key(length: u8) -> Key {
        Key::new(&(0..length).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_key_becomes_the_line_of_the_format() {
        let line = render(CobblestoneSuite::Aes256Gcm, &counting_key(32));
        assert_eq!(*line, LINE);
        let line = render(CobblestoneSuite::Aes128Gcm, &counting_key(16));
        assert_eq!(*line, "evener-key:v1:cobblestone-128:AAECAwQFBgcICQoLDA0ODw\n");
    }

    #[test]
    fn a_wrapped_line_is_joined() {
        let line = LINE.trim_end();
        for at in 1..line.len() {
            for end in ["\n", "\r\n", "\r", " \n\t"] {
                let text = format!("{}{end}{}{end}", &line[..at], &line[at..]);
                let (_, key) = parse(text.as_bytes()).unwrap();
                assert_eq!(key.bytes(), counting_key(32).bytes(), "{text:?}");
            }
        }
    }

    #[test]
    fn newline_and_padding_are_optional() {
        let line = LINE.trim_end();
        for text in [
            LINE,
            line,
            &format!("{line}="),
            &format!("{line}=\n"),
            &format!("{line}\r\n"),
            &format!("{line}\r"),
            &format!(" \r\n\t{line} \n\n"),
        ] {
            let (suite, key) = parse(text.as_bytes()).unwrap();
            assert_eq!(suite, CobblestoneSuite::Aes256Gcm);
            assert_eq!(key.bytes(), counting_key(32).bytes());
        }
    }

    #[test]
    fn each_part_is_checked() {
        use MalformedKey::{CutShort, Encoding, Length, MoreThanOneLine, Suite, Unknown, Version};
        let key = "AAECAwQFBgcICQoLDA0ODw";
        let cases = [
            (String::new(), Unknown),
            ("evener-kex:v1:cobblestone-128:".into(), Unknown),
            (format!("\u{a0}evener-key:v1:cobblestone-128:{key}"), Unknown),
            ("evener-key:".into(), CutShort),
            ("evener-key:v1:cobblestone-128".into(), CutShort),
            (format!("evener-key:v2:cobblestone-128:{key}"), Version),
            (format!("evener-key:v1:Cobblestone-128:{key}"), Suite),
            (format!("evener-key:v1:cobblestone-512:{key}"), Suite),
            (format!("evener-key:v1:cobblestone-256:{key}"), Length { expected: 32, actual: 16 }),
            ("evener-key:v1:cobblestone-128:".into(), Length { expected: 16, actual: 0 }),
            (
                format!("evener-key:v1:cobblestone-128:{}", "A".repeat(1000)),
                Length { expected: 16, actual: 750 },
            ),
            (format!("evener-key:v1:cobblestone-128: {key}"), Encoding),
            (format!("evener-key:v1:cobblestone-128:{key}==="), Encoding),
            (format!("evener-key:v1:cobblestone-128:{key}:"), Encoding),
            (format!("evener-key:v1:cobblestone-128:{}+", &key[1..]), Encoding),
            // The last character's unused bits are set.
            (format!("evener-key:v1:cobblestone-128:{}x", &key[..21]), Encoding),
            (format!("evener-key:v1:cobblestone-128:{key}\n#"), MoreThanOneLine),
            (format!("evener-key:v1:cobblestone-128:{key}\n{key}"), MoreThanOneLine),
            (format!("evener-key:v1:cobblestone-128:\n{}", &key[1..]), MoreThanOneLine),
            (format!("evener-key:v1:cobblestone-128:{key}\nmore"), MoreThanOneLine),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_cut_anywhere_is_refused() {
        let line = LINE.trim_end();
        for length in 0..line.len() {
            assert!(parse(&line.as_bytes()[..length]).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn a_line_changed_before_the_key_is_refused() {
        let start = LINE.rfind(':').unwrap();
        for index in 0..=start {
            for bit in 0..8 {
                let mut line = LINE.as_bytes().to_vec();
                line[index] ^= 1 << bit;
                assert!(parse(&line).is_err(), "byte {index}, bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_key_reads_back(bytes in any::<[u8; 32]>(), short in any::<bool>()) {
            let (suite, bytes) = match short {
                true => (CobblestoneSuite::Aes128Gcm, &bytes[..16]),
                false => (CobblestoneSuite::Aes256Gcm, &bytes[..]),
            };
            let line = render(suite, &Key::new(bytes).unwrap());
            let (read_suite, key) = parse(line.as_bytes()).unwrap();
            prop_assert_eq!(read_suite, suite);
            prop_assert_eq!(key.bytes(), bytes);
        }

        #[test]
        fn garbage_is_refused(
            head in prop::sample::select(vec![
                "", "evener-key:", "evener-key:v1:", "evener-key:v1:cobblestone-128:",
            ]),
            tail in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let text = [head.as_bytes(), &tail].concat();
            if let Ok((suite, key)) = parse(&text) {
                prop_assert_eq!(key.len(), suite.key_length());
            }
        }

        #[test]
        fn a_byte_foreign_to_base64url_is_refused(
            position in 0..43_usize,
            byte in any::<u8>().prop_filter("foreign", |byte| {
                !byte.is_ascii_alphanumeric() && !b"-_".contains(byte)
            }),
        ) {
            let mut line = LINE.as_bytes().to_vec();
            let start = line.len() - 44;
            line[start + position] = byte;
            prop_assert!(parse(&line).is_err());
        }
    }
}
