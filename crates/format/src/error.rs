//! Errors of the formats.

use evener_core::Cipher;

/// The reason why a file of a format can't be created or read. The caller names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No file of the format has this length.
    #[error("the file is truncated or was never encrypted: no file of its format has this length")]
    Truncated,
    /// The file has too many bytes for the format.
    #[error("the file is too long for its format")]
    TooLong,
    /// The commitment in the header does not match the key and the context.
    #[error("wrong key or wrong context, or the header was changed, or it was never encrypted")]
    WrongKey,
    /// The header is not this format's.
    #[error("not a file of the format {format}: {reason}")]
    OtherFormat {
        /// The format that was expected.
        format: &'static str,
        /// The reason as text.
        reason: &'static str,
    },
    /// An age file is for recipients whose identities were not given.
    #[error("it is encrypted for others: none of the identities opens it")]
    OtherRecipients,
    /// An age file is for recipients, and only a passphrase was given.
    #[error("it is encrypted for recipients, not with a passphrase; give an identity")]
    IdentityNeeded,
    /// An age file has a passphrase.
    #[error("it is encrypted with a passphrase, and none was given")]
    PassphraseNeeded,
    /// An age file has another passphrase.
    #[error("the passphrase does not open it")]
    WrongPassphrase,
    /// The header of an age file can't be written or opened; the text says why.
    #[error("{0}")]
    Age(String),
    /// A key or an IV does not have the cipher's length.
    #[error("{cipher} takes {what} of {expected} bytes, not {actual}")]
    Length {
        /// The cipher that the key or IV is for.
        cipher: Cipher,
        /// The argument: `a key`, `an IV`.
        what: &'static str,
        /// Length in bytes.
        expected: usize,
        /// Length in bytes.
        actual: usize,
    },
    /// The format does not support this cipher.
    #[error(
        "{0} is no cipher for files of `openssl enc`; give one in ECB, CBC, CFB, OFB or CTR mode, such as \
         aes-256-cbc, or chacha20"
    )]
    NoSuchCipher(Cipher),
    /// The parameters of a key are inconsistent; the text says how.
    #[error("unusable key parameters: {0}")]
    Parameters(&'static str),
    /// The operating system gave no random bytes.
    #[error("the system's random number generator failed: {0}")]
    Random(String),
    /// The library could not derive a key.
    #[error("key derivation failed: {0}")]
    Derivation(String),
}
