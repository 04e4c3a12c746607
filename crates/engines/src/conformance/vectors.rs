//! Reads and runs published vectors.

use evener_core::{Cipher, Direction, Iv, Key, Outcome, Padding};

use super::harness::{Case, Expected, Message, Subject};

/// One published vector.
#[derive(Clone)]
pub(super) struct Vector {
    /// Its source, for messages.
    pub(super) source: String,
    pub(super) key: Vec<u8>,
    pub(super) iv: Vec<u8>,
    pub(super) aad: Vec<u8>,
    pub(super) padding: Padding,
    /// `None` when the ciphertext must be rejected.
    pub(super) plaintext: Option<Vec<u8>>,
    /// The ciphertext, with the tag if there is one.
    pub(super) ciphertext: Vec<u8>,
}

impl Vector {
    /// Returns whether the vector applies to the direction: a forgery can't be encrypted.
    pub(super) fn is_for(&self, direction: Direction) -> bool {
        direction == Direction::Decrypt || !self.is_forged()
    }

    pub(super) fn is_forged(&self) -> bool {
        self.plaintext.is_none()
    }

    /// The vector as a job with its own key.
    fn case(&self, direction: Direction) -> Option<Case> {
        let (input, expected) = match (direction, &self.plaintext) {
            (Direction::Encrypt, None) => return None,
            (Direction::Encrypt, Some(plaintext)) => {
                (plaintext.clone(), Expected::Output(self.ciphertext.clone()))
            }
            (Direction::Decrypt, Some(plaintext)) => {
                (self.ciphertext.clone(), Expected::Output(plaintext.clone()))
            }
            (Direction::Decrypt, None) if self.ciphertext.is_empty() => {
                (Vec::new(), Expected::Malformed)
            }
            (Direction::Decrypt, None) => (self.ciphertext.clone(), Expected::Forged),
        };
        let message = Message {
            key: Key::new(&self.key).ok(),
            iv: Iv::new(&self.iv).ok()?,
            aad: self.aad.clone(),
            padding: self.padding,
            input,
            missing_output: 0,
            outcome: Outcome::Pending,
        };
        Some(Case { message, expected })
    }
}

/// Runs every vector twice: all in one batch, each with its own key, and each on its own in a
/// session of its key. Returns the failures.
pub(super) fn run(subject: &Subject<'_>, vectors: &[Vector]) -> Vec<String> {
    let usable = || vectors.iter().filter(|vector| vector.is_for(subject.direction));
    let cases: Option<Vec<_>> = usable().map(|vector| vector.case(subject.direction)).collect();
    let Some(cases) = cases else {
        return vec!["a vector is not well-formed".to_owned()];
    };
    let mut complaints = Vec::new();
    if let Err(complaint) = subject.expect(None, &cases) {
        complaints.push(format!("all vectors in one batch: {complaint}"));
    }
    for (vector, case) in usable().zip(cases) {
        let key = Key::new(&vector.key).ok();
        let case = Case { message: Message { key: None, ..case.message }, ..case };
        if let Err(complaint) = subject.expect(key.as_ref(), &[case]) {
            complaints.push(format!("{}: {complaint}", vector.source));
        }
    }
    complaints
}

/// The vectors of the folder `vectors`, whose README describes the format.
pub(super) fn published(cipher: Cipher) -> Vec<Vector> {
    let mut vectors = Vec::new();
    for text in FILES {
        let mut source = "";
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = line.strip_prefix("= ") {
                source = name;
            } else if line.split(' ').next() == Some(cipher.name()) {
                let source = format!("{source}, line {} of the condensed file", index + 1);
                vectors.extend(read(line, source));
            }
        }
    }
    vectors
}

fn read(line: &str, source: String) -> Option<Vector> {
    let mut fields = line.split(' ').skip(1);
    let mut octets = || hexadecimal(fields.next()?);
    let (key, iv, aad) = (octets()?, octets()?, octets()?);
    let plaintext = match fields.next()? {
        "!" => None,
        text => Some(hexadecimal(text)?),
    };
    let ciphertext = hexadecimal(fields.next()?)?;
    Some(Vector { source, key, iv, aad, padding: Padding::None, plaintext, ciphertext })
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let octet = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(octet).collect()
}

const FILES: [&str; 9] = [
    include_str!("../../vectors/aes-ecb.txt"),
    include_str!("../../vectors/aes-cbc.txt"),
    include_str!("../../vectors/aes-ctr.txt"),
    include_str!("../../vectors/aes-gcm.txt"),
    include_str!("../../vectors/aes-xts.txt"),
    include_str!("../../vectors/camellia-cbc.txt"),
    include_str!("../../vectors/des-ede3-cbc.txt"),
    include_str!("../../vectors/bf-cbc.txt"),
    include_str!("../../vectors/chacha20-poly1305.txt"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_file_is_read() {
        let lines =
            FILES.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('='));
        let read: usize = Cipher::ALL.iter().map(|&cipher| published(cipher).len()).sum();
        assert_eq!(read, lines.count());
        for &cipher in Cipher::ALL {
            assert!(!published(cipher).is_empty(), "{cipher} has no vectors");
        }
    }
}
