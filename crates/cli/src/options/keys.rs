//! Where keys come from.

use std::os::fd::RawFd;
use std::path::PathBuf;

use clap::Args;
use evener::Cipher;
use evener::format::Digest;

use super::{Format, Iterations};

/// What encrypts.
#[derive(Args, Debug)]
pub(crate) struct SealingKeys {
    /// The key file: an `evener-key` line, a Tink keyset, or either encrypted with age
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recipients: Recipients,
    #[command(flatten)]
    pub(crate) identities: Identities,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOptions,
    /// The file format [default: that of the key; cobblestone-256 for -r and --passphrase]
    #[arg(long, help_heading = "Keys")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) openssl: OpensslOptions,
    /// Bind the files to this text, which is not secret; they open only with the same
    /// (Cobblestone's context, Tink's associated data)
    #[arg(long, value_name = "STRING", help_heading = "Keys")]
    pub(crate) context: Option<String>,
}

/// What decrypts.
#[derive(Args, Debug)]
pub(crate) struct OpeningKeys {
    /// A key file: an `evener-key` line, a Tink keyset, or either encrypted with age; may be
    /// given several times, and the one that fits a file opens it
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    pub(crate) keys: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) identities: Identities,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOptions,
    /// The file format [default: that of the key]
    #[arg(long, help_heading = "Keys")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) openssl: OpensslOptions,
    /// The text that the files were bound to when they were encrypted
    #[arg(long, value_name = "STRING", help_heading = "Keys")]
    pub(crate) context: Option<String>,
}

impl SealingKeys {
    /// The files that hold keys, or that open or make them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let Recipients { recipient_files, .. } = &self.recipients;
        let own = self.key.iter().chain(recipient_files);
        own.chain(secret_files(&self.identities, &self.passphrase, &self.openssl))
    }
}

/// The files among these options.
fn secret_files<'o>(
    identities: &'o Identities,
    passphrase: &'o PassphraseOptions,
    openssl: &'o OpensslOptions,
) -> impl Iterator<Item = &'o PathBuf> {
    let openssl = openssl.key_hex_file.iter().chain(&openssl.iv_hex_file);
    identities.identity_files.iter().chain(&passphrase.passphrase_file).chain(openssl)
}

impl OpeningKeys {
    /// The files that hold keys, or that open them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.keys.iter().chain(secret_files(&self.identities, &self.passphrase, &self.openssl))
    }

    /// Whether nothing was given that a key could be made of.
    pub(crate) fn is_empty(&self) -> bool {
        let PassphraseOptions { passphrase, passphrase_file, passphrase_fd } = &self.passphrase;
        self.keys.is_empty()
            && self.identities.identity_files.is_empty()
            && self.format.is_none()
            && self.openssl.any().is_none()
            && !passphrase
            && passphrase_file.is_none()
            && passphrase_fd.is_none()
    }
}

/// Who may open a fresh key.
#[derive(Args, Debug)]
pub(crate) struct Recipients {
    /// Make a fresh key and wrap it for this age recipient (`age1…`); may be given several times
    #[arg(short, long = "recipient", value_name = "AGE-RECIPIENT", help_heading = "Keys")]
    pub(crate) recipients: Vec<String>,
    /// Make a fresh key and wrap it for every age recipient in this file, one per line
    #[arg(short = 'R', long = "recipients-file", value_name = "FILE", help_heading = "Keys")]
    pub(crate) recipient_files: Vec<PathBuf>,
}

impl Recipients {
    pub(crate) fn is_empty(&self) -> bool {
        self.recipients.is_empty() && self.recipient_files.is_empty()
    }
}

/// What opens wrapped keys.
#[derive(Args, Debug)]
pub(crate) struct Identities {
    /// A file with age identities (as `age-keygen` makes it), which open keys that are wrapped
    /// for their recipients; may be given several times
    #[arg(short, long = "identity", value_name = "AGE-IDENTITY-FILE", help_heading = "Keys")]
    pub(crate) identity_files: Vec<PathBuf>,
}

/// Where a passphrase comes from.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct PassphraseOptions {
    /// Ask for a passphrase on the terminal
    #[arg(long, help_heading = "Keys")]
    pub(crate) passphrase: bool,
    /// Take the first line of this file as the passphrase: all before the newline, also spaces, and
    /// a carriage return where lines end in CRLF
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Take the first line from this open file descriptor as the passphrase
    #[arg(long, value_name = "N", help_heading = "Keys")]
    pub(crate) passphrase_fd: Option<RawFd>,
}

/// What `openssl enc` is told, for `--format openssl`.
#[derive(Args, Debug)]
pub(crate) struct OpensslOptions {
    /// The cipher, such as aes-256-cbc
    #[arg(long, value_name = "NAME", help_heading = "With --format openssl",
        value_parser = evener_lab::values::cipher(), ignore_case = true,
        hide_possible_values = true)]
    pub(crate) cipher: Option<Cipher>,
    /// The iterations of PBKDF2, which makes the key of the passphrase (`openssl enc -pbkdf2
    /// -iter N`) [default to encrypt: 600000]. A file does not tell them, so decrypting takes
    /// the number that it was made with: 10000 if openssl made it without -iter
    #[arg(long, value_name = "N", help_heading = "With --format openssl")]
    pub(crate) iterations: Option<Iterations>,
    /// The digest of PBKDF2 (`openssl enc -md`) [default: sha256]
    #[arg(long, value_name = "NAME", help_heading = "With --format openssl")]
    pub(crate) digest: Option<Digest>,
    /// Instead of a passphrase, a raw key in hexadecimal from this file or /dev/fd/N
    /// (`openssl enc -K`)
    #[arg(long, value_name = "FILE", help_heading = "With --format openssl")]
    pub(crate) key_hex_file: Option<PathBuf>,
    /// The initialisation vector that goes with it (`openssl enc -iv`)
    #[arg(long, value_name = "FILE", help_heading = "With --format openssl")]
    pub(crate) iv_hex_file: Option<PathBuf>,
}

impl OpensslOptions {
    /// The first of these options that was given.
    pub(crate) fn any(&self) -> Option<&'static str> {
        [
            (self.cipher.is_some(), "--cipher"),
            (self.iterations.is_some(), "--iterations"),
            (self.digest.is_some(), "--digest"),
            (self.key_hex_file.is_some(), "--key-hex-file"),
            (self.iv_hex_file.is_some(), "--iv-hex-file"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}
