//! Base64 in the form of `openssl enc -a`, and age's ASCII armour, around a stream.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::FileError;

/// The text form of a stream's encrypted side. Decoding accepts the first two, whatever the line
/// lengths; armour is decoded without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base64 {
    /// In lines of 64 characters (`openssl enc -a`).
    Lines,
    /// Without any end of line (`openssl enc -a -A`).
    OneLine,
    /// As lines, between the lines that begin and end an age file (`age -a`).
    Armour,
}

/// Encodes bytes as text, in pieces as they arrive.
pub(super) struct Encoder {
    form: Base64,
    /// Bytes of an incomplete line or group.
    rest: Vec<u8>,
    has_begun: bool,
}

impl Encoder {
    pub(super) fn new(form: Base64) -> Encoder {
        Encoder { form, rest: Vec::new(), has_begun: false }
    }

    /// The text of these bytes and of those left over before.
    pub(super) fn encode(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let unit = if self.form == Base64::OneLine { GROUP } else { LINE };
        let whole = self.rest.len() / unit * unit;
        let mut text = self.begin();
        text += &self.text_of(&self.rest[..whole]);
        self.rest.drain(..whole);
        text
    }

    /// The line with which armour begins, once.
    fn begin(&mut self) -> String {
        let begins = self.form == Base64::Armour && !self.has_begun;
        self.has_begun = true;
        if begins { BEGIN.to_owned() } else { String::new() }
    }

    /// The text of the bytes left over at the end.
    pub(super) fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        let end = if self.form == Base64::Armour { END } else { "" };
        self.begin() + &self.text_of(&rest) + end
    }

    fn text_of(&self, bytes: &[u8]) -> String {
        if self.form == Base64::OneLine {
            return STANDARD.encode(bytes);
        }
        bytes.chunks(LINE).map(|line| STANDARD.encode(line) + "\n").collect()
    }
}

/// Decodes text into bytes, in pieces as it arrives.
#[derive(Default)]
pub(super) struct Decoder {
    /// Characters of an incomplete group.
    rest: Vec<u8>,
    has_ended: bool,
}

impl Decoder {
    /// The bytes of this text and of the characters left over before.
    pub(super) fn decode(&mut self, text: &[u8]) -> Result<Vec<u8>, FileError> {
        self.rest.extend(text.iter().filter(|byte| !byte.is_ascii_whitespace()));
        let whole = self.rest.len() / 4 * 4;
        if self.has_ended && !self.rest.is_empty() {
            return Err(not_base64());
        }
        let bytes = STANDARD.decode(&self.rest[..whole]).map_err(|_| not_base64())?;
        self.has_ended = self.rest[..whole].ends_with(b"=");
        self.rest.drain(..whole);
        Ok(bytes)
    }

    /// Checks that the text may end here.
    pub(super) fn finish(&self) -> Result<(), FileError> {
        if self.rest.is_empty() { Ok(()) } else { Err(not_base64()) }
    }
}

fn not_base64() -> FileError {
    FileError::NotBase64
}

/// The number of bytes in a line, and in a group of four characters.
const LINE: usize = 48;
const GROUP: usize = 3;

const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n";
const END: &str = "-----END AGE ENCRYPTED FILE-----\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_make_the_same() {
        for length in [0, 1, 2, 3, 47, 48, 49, 96, 1000] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            for form in [Base64::Lines, Base64::OneLine] {
                let mut texts = Vec::new();
                for piece in [1, 7, 48, 4096] {
                    let mut encoder = Encoder::new(form);
                    let mut text: String =
                        bytes.chunks(piece).map(|piece| encoder.encode(piece)).collect();
                    text += &encoder.finish();
                    let mut decoder = Decoder::default();
                    let decoded: Vec<u8> = text
                        .as_bytes()
                        .chunks(piece)
                        .flat_map(|piece| decoder.decode(piece).unwrap())
                        .collect();
                    decoder.finish().unwrap();
                    assert_eq!(decoded, bytes);
                    texts.push(text);
                }
                assert!(texts.iter().all(|text| *text == texts[0]));
                let longest = texts[0].lines().map(str::len).max().unwrap_or(0);
                assert!(form == Base64::OneLine || longest <= 64);
                assert_eq!(texts[0].ends_with('\n'), form == Base64::Lines && length > 0);
            }
        }
    }

    #[test]
    fn armour_has_lines_between_its_first_and_last() {
        for length in [0, 1, 47, 48, 49, 1000] {
            let bytes = vec![7; length];
            let mut lines = Encoder::new(Base64::Lines);
            let body = lines.encode(&bytes) + &lines.finish();
            for piece in [1, 48, 4096] {
                let mut armour = Encoder::new(Base64::Armour);
                let mut text: String =
                    bytes.chunks(piece).map(|piece| armour.encode(piece)).collect();
                text += &armour.finish();
                assert_eq!(text, [BEGIN, &body, END].concat());
            }
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        let decode = |text: &str| {
            let mut decoder = Decoder::default();
            let mut bytes = Vec::new();
            for byte in text.as_bytes() {
                bytes.extend(decoder.decode(&[*byte])?);
            }
            decoder.finish().map(|()| bytes)
        };
        assert_eq!(decode("QUJD\r\nRA==\n").unwrap(), b"ABCD");
        for text in ["Q", "QUJ", "QUJDR", "RA==QUJD", "RA=", "Q*JD", "====", "RA===="] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
