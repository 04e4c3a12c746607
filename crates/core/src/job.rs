//! Jobs: one message each.

use std::fmt;

use crate::{Cipher, Direction, Iv, Key, Mode, Padding, padding};

/// One message (a file, a segment of a file, a record) with its IV.
///
/// A job borrows its input and its output, which never overlap. Engines never write to the input,
/// so another engine can process a job that one engine did not finish.
///
/// Shapes, for a message of *n* bytes:
///
/// | cipher | encrypt: input → output | decrypt: input → output |
/// |---|---|---|
/// | ECB, CBC | n → n, n a multiple of the block | n → n |
/// | ECB, CBC with [`Padding::Pkcs7`] | n → n + 1 to n + block | whole blocks, at least one → n, see [`Outcome::Done`] |
/// | CTR, XTS | n → n (XTS: n ≥ 16) | n → n |
/// | GCM, ChaCha20-Poly1305 | n → n + 16, the tag last (RFC 5116) | n + 16 → n |
///
/// The output may be longer than needed; engines write only to its first [`Job::output_length`]
/// bytes.
pub struct Job<'a> {
    /// The IV, of the cipher's [`Cipher::iv_length`].
    pub iv: Iv,
    /// This message's own key; `None` uses the session's key or the engine's own.
    pub key: Option<&'a Key>,
    /// Additional authenticated data; empty for ciphers that are not AEAD.
    pub aad: &'a [u8],
    /// Padding, for ECB and CBC.
    pub padding: Padding,
    /// The message to encrypt or decrypt.
    pub input: &'a [u8],
    /// The buffer for the result.
    pub output: &'a mut [u8],
    /// The result; the engine sets it.
    pub outcome: Outcome,
    /// The job's verification by the guard; engines without a guard ignore it.
    pub verification: Verification,
}

impl<'a> Job<'a> {
    /// A job without padding, additional data or a key of its own.
    pub fn new(iv: Iv, input: &'a [u8], output: &'a mut [u8]) -> Job<'a> {
        Job {
            iv,
            key: None,
            aad: &[],
            padding: Padding::None,
            input,
            output,
            outcome: Outcome::Pending,
            verification: Verification::ByChance,
        }
    }

    /// The maximum length of the output, in bytes.
    pub fn output_length(&self, cipher: Cipher, direction: Direction) -> usize {
        match (direction, self.padding) {
            (Direction::Encrypt, Padding::Pkcs7) => {
                padding::padded_length(self.input.len(), cipher.block_length())
            }
            (Direction::Encrypt, Padding::None) => self.input.len() + cipher.tag_length(),
            (Direction::Decrypt, _) => self.input.len().saturating_sub(cipher.tag_length()),
        }
    }

    /// Checks the job's lengths. Every engine calls this first and rejects the job on an error.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] names the wrong length.
    pub fn check(&self, cipher: Cipher, direction: Direction) -> Result<(), Rejection> {
        let length = self.input.len();
        let message_length = match direction {
            Direction::Encrypt => length,
            Direction::Decrypt => length.saturating_sub(cipher.tag_length()),
        };
        let whole_blocks = length.is_multiple_of(cipher.block_length());
        let padded = self.padding == Padding::Pkcs7;
        let wrong = if self.iv.bytes().len() != cipher.iv_length() {
            "the IV's length is not the cipher's"
        } else if self.key.is_some_and(|key| key.len() != cipher.key_length()) {
            "the key's length is not the cipher's"
        } else if padded && cipher.block_length() == 1 {
            "the cipher takes no padding"
        } else if !self.aad.is_empty() && !cipher.is_authenticated() {
            "the cipher takes no additional data"
        } else if !whole_blocks && (direction == Direction::Decrypt || !padded) {
            "the message is not a whole number of blocks"
        } else if length == 0 && padded && direction == Direction::Decrypt {
            "a padded message has at least one block"
        } else if direction == Direction::Decrypt && length < cipher.tag_length() {
            "the message is shorter than its tag"
        } else if cipher.mode() == Mode::Xts && length < 16 {
            "XTS takes at least 16 bytes"
        } else if message_length as u64 > cipher.longest_message() {
            "the message is longer than the mode allows"
        } else if self.output.len() < self.output_length(cipher, direction) {
            "the output is too short"
        } else {
            return Ok(());
        };
        Err(Rejection::Malformed(wrong))
    }
}

impl fmt::Debug for Job<'_> {
    /// Prints the length of the message, not its content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("input_length", &self.input.len())
            .field("output_length", &self.output.len())
            .field("padding", &self.padding)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// The verification of a job: a guard recomputes it on the reference engine and compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// The guard chooses jobs at random.
    #[default]
    ByChance,
    /// The guard must recompute this job: perhaps it verifies no other job of the file.
    Wanted,
    /// Both results were equal; the guard sets this.
    Passed,
}

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not done: the engine has not started it, or failed before finishing it.
    Pending,
    /// The first `written` bytes of the output are the result.
    Done {
        /// In bytes; [`Job::output_length`], or less after removing padding.
        written: usize,
    },
    /// No engine can process the message. The output holds no unauthenticated plaintext.
    Rejected(Rejection),
}

/// The reason why a message can't be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The tag does not match: the key is wrong or the data was changed.
    #[error("authentication failed")]
    Tag,
    /// The padding is malformed: the key is wrong or the data was changed.
    #[error("the padding is malformed")]
    Padding,
    /// The job's lengths are inconsistent; the text names the error.
    #[error("malformed job: {0}")]
    Malformed(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        cipher: Cipher,
        direction: Direction,
        input: usize,
        output: usize,
        padding: Padding,
    ) -> bool {
        let (input, mut output) = (vec![0; input], vec![0; output]);
        let iv = Iv::new(&vec![0; cipher.iv_length()]).unwrap();
        let job = Job { padding, ..Job::new(iv, &input, &mut output) };
        job.check(cipher, direction).is_ok()
    }

    #[test]
    fn shapes_are_checked() {
        use Direction::{Decrypt, Encrypt};
        use Padding::{None, Pkcs7};
        let cases = [
            (Cipher::Aes128Cbc, Encrypt, 32, 32, None, true),
            (Cipher::Aes128Cbc, Encrypt, 31, 32, None, false),
            (Cipher::Aes128Cbc, Encrypt, 31, 32, Pkcs7, true),
            (Cipher::Aes128Cbc, Encrypt, 32, 32, Pkcs7, false),
            (Cipher::Aes128Cbc, Encrypt, 32, 48, Pkcs7, true),
            (Cipher::Aes128Cbc, Decrypt, 0, 0, None, true),
            (Cipher::Aes128Cbc, Decrypt, 0, 0, Pkcs7, false),
            (Cipher::Aes128Cbc, Decrypt, 17, 32, Pkcs7, false),
            (Cipher::BfCbc, Encrypt, 8, 8, None, true),
            (Cipher::Aes128Ctr, Encrypt, 5, 5, None, true),
            (Cipher::Aes128Ctr, Encrypt, 5, 16, Pkcs7, false),
            (Cipher::Aes256Gcm, Encrypt, 5, 20, None, false),
            (Cipher::Aes256Gcm, Encrypt, 5, 21, None, true),
            (Cipher::Aes256Gcm, Decrypt, 15, 16, None, false),
            (Cipher::Aes256Gcm, Decrypt, 16, 0, None, true),
            (Cipher::Aes128Xts, Encrypt, 15, 15, None, false),
            (Cipher::Aes128Xts, Encrypt, 16 << 20, 16 << 20, None, true),
            (Cipher::Aes128Xts, Encrypt, (16 << 20) + 1, (16 << 20) + 1, None, false),
        ];
        for (cipher, direction, input, output, padding, fine) in cases {
            assert_eq!(
                check(cipher, direction, input, output, padding),
                fine,
                "{cipher} {direction} {input} -> {output} {padding:?}"
            );
        }
    }

    #[test]
    fn wrong_iv_key_and_aad_are_refused() {
        let (input, mut output) = ([0; 16], [0; 32]);
        let key = Key::new(&[0; 24]).unwrap();
        let iv = Iv::new(&[0; 16]).unwrap();
        let mut job = Job { key: Some(&key), ..Job::new(iv, &input, &mut output) };
        let check = |job: &Job<'_>| job.check(Cipher::Aes128Cbc, Direction::Encrypt);
        assert!(check(&job).is_err());
        job.key = None;
        assert!(check(&job).is_ok());
        job.aad = b"header";
        assert!(check(&job).is_err());
        job.aad = &[];
        job.iv = Iv::NONE;
        assert!(check(&job).is_err());
    }
}
