//! Where keys come from.

use std::env;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use clap::Args;
use evener::format::Digest;
use evener::{Base64, Cipher};

use super::values::KdfName;
use super::{Format, Iterations};
use crate::ends::STANDARD_INPUT;
use crate::trouble::Trouble;

/// Options for the key that encrypts.
#[derive(Args, Debug)]
pub(crate) struct SealingKeys {
    /// Key file, or `-` for standard input
    ///
    /// A key file holds an `evener-key` line or a Tink keyset, plain or encrypted with age. The
    /// shell's `<(command)` works too. Without a key, recipient, identity or passphrase, Evener
    /// reads the key file that EVENER_KEY_FILE names
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) origins: KeyOrigins,
    #[command(flatten)]
    pub(crate) recipients: Recipients,
    #[command(flatten)]
    pub(crate) identities: Identities,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOptions,
    /// File format [default: the key's; cobblestone-256 for -r and --passphrase]
    #[arg(long, help_heading = "Keys")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) openssl: OpensslOptions,
    /// Bind the files to this text, which decryption then needs too
    ///
    /// The text is Cobblestone's context or Tink's associated data. It is not secret
    #[arg(long, value_name = "STRING", help_heading = "Keys")]
    pub(crate) context: Option<String>,
}

/// Options for the keys that decrypt.
#[derive(Args, Debug)]
pub(crate) struct OpeningKeys {
    /// Key file, or `-` for standard input; repeatable
    ///
    /// A key file holds an `evener-key` line or a Tink keyset, plain or encrypted with age. If
    /// you give several keys, Evener finds the one that opens each file. The shell's `<(command)`
    /// works too. Without a key, identity or passphrase, Evener reads the key file that
    /// EVENER_KEY_FILE names
    #[arg(short, long = "key", value_name = "KEYFILE", help_heading = "Keys")]
    pub(crate) keys: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) origins: KeyOrigins,
    #[command(flatten)]
    pub(crate) identities: Identities,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOptions,
    /// File format [default: the key's]
    #[arg(long, help_heading = "Keys")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) openssl: OpensslOptions,
    /// Text to which `encrypt --context` bound the files
    #[arg(long, value_name = "STRING", help_heading = "Keys")]
    pub(crate) context: Option<String>,
}

/// Options for keys that are not in files, and for files of keys that others can read.
#[derive(Args, Debug)]
pub(crate) struct KeyOrigins {
    /// Read the key from the output of this command, such as `pass show backup`
    ///
    /// Evener runs it with `sh -c`, and does not know which files it reads: keep those out of SRC
    /// and DST
    #[arg(long, value_name = "COMMAND", help_heading = "Keys")]
    pub(crate) key_command: Option<OsString>,
    #[command(flatten)]
    pub(crate) exposure: Exposure,
}

/// Options for files of secrets and recipients that others can read or change.
#[derive(Args, Debug)]
pub(crate) struct Exposure {
    /// Accept secret files that others can read, with a warning
    ///
    /// The option applies to key, identity and passphrase files that their group or others can
    /// access, and to recipients files that these can change. Evener always accepts files on a file
    /// system that is mounted read-only
    #[arg(long, help_heading = "Keys")]
    pub(crate) insecure_key_file: bool,
}

/// The key file that the environment names, used when no option names a key.
pub(super) fn of_environment() -> Result<Option<PathBuf>, Trouble> {
    let Some(value) = env::var_os(KEY_FILE_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.as_encoded_bytes().trim_ascii_start();
    let is_key = [&b"evener-key:"[..], b"{", b"AGE-SECRET-KEY-", b"-----BEGIN"];
    if is_key.iter().any(|start| text.starts_with(start)) {
        return Err(Trouble::Usage(format!(
            "{KEY_FILE_VARIABLE} holds a key, and takes the path of a key file; write the key to a \
             file, or give --key-command"
        )));
    }
    Ok(Some(value.into()))
}

/// Names the options that read standard input.
fn that_read_stdin<'o>(
    named: impl IntoIterator<Item = (&'static str, &'o PathBuf)>,
    passphrase: &PassphraseOptions,
) -> Vec<&'static str> {
    let reads = |path: &PathBuf| STANDARD_INPUT.iter().any(|name| path == Path::new(name));
    let mut readers: Vec<_> =
        named.into_iter().filter(|(_, path)| reads(path)).map(|(name, _)| name).collect();
    if !readers.is_empty() && passphrase.passphrase_fd == Some(0) {
        readers.push("--passphrase-fd");
    }
    readers
}

impl SealingKeys {
    /// Returns whether the key may be wrapped, and kept beside the outputs.
    pub(crate) fn may_wrap(&self) -> bool {
        let names_a_key = self.key.is_some() || self.origins.key_command.is_some();
        !names_a_key && !matches!(self.format, Some(Format::Age | Format::Openssl))
    }

    /// Adds the key file that the environment names, if no option gives a key.
    pub(crate) fn complete(&mut self) -> Result<(), Trouble> {
        if self.key.is_none()
            && self.origins.key_command.is_none()
            && self.recipients.is_empty()
            && self.identities.identity_files.is_empty()
            && !self.passphrase.is_given()
            && !matches!(self.format, Some(Format::Age | Format::Openssl))
        {
            self.key = of_environment()?;
        }
        Ok(())
    }

    /// The options that read standard input.
    pub(crate) fn that_read_stdin(&self) -> Vec<&'static str> {
        let keys = self.key.iter().map(|path| ("--key", path));
        let recipients = self.recipients.recipient_files.iter();
        let recipients = recipients.map(|path| ("--recipients-file", path));
        let identities = self.identities.identity_files.iter().map(|path| ("--identity", path));
        that_read_stdin(keys.chain(recipients).chain(identities), &self.passphrase)
    }

    /// Refuses options about formats that sealed trees do not have.
    pub(crate) fn check_sealed(&self) -> Result<(), Trouble> {
        check_sealed(self.format, &self.openssl, self.context.as_deref())
    }

    /// The files that hold keys, or that open or make them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let own = self.key.iter().chain(&self.recipients.recipient_files);
        with_secret_files(own, &self.identities, &self.passphrase, &self.openssl)
    }
}

/// Returns the `own` files and those among these options. Standard input and descriptors are files
/// too: their paths lead to the open files.
fn with_secret_files<'o>(
    own: impl Iterator<Item = &'o PathBuf>,
    identities: &'o Identities,
    passphrase: &'o PassphraseOptions,
    openssl: &'o OpensslOptions,
) -> Vec<PathBuf> {
    let openssl = openssl.key_hex_file.iter().chain(&openssl.iv_hex_file);
    let named = own.chain(&identities.identity_files).chain(&passphrase.passphrase_file);
    let is_stdin = |path: &PathBuf| path == Path::new("-");
    let path = |path| if is_stdin(path) { Path::new("/dev/stdin").into() } else { path.clone() };
    let descriptor = passphrase.passphrase_fd.map(|number| format!("/dev/fd/{number}").into());
    named.chain(openssl).map(path).chain(descriptor).collect()
}

impl OpeningKeys {
    /// Adds the key file that the environment names, if no option gives a key.
    pub(crate) fn complete(&mut self) -> Result<(), Trouble> {
        if self.is_empty() {
            self.keys.extend(of_environment()?);
        }
        Ok(())
    }

    /// Returns whether an option gives a key, wrapped or not, and not only something that opens
    /// one.
    pub(crate) fn name_a_key(&self) -> bool {
        !self.keys.is_empty() || self.origins.key_command.is_some()
    }

    /// Returns whether to look for the key where the files are.
    pub(crate) fn look_for_one(&self) -> bool {
        !self.name_a_key()
            && self.format != Some(Format::Openssl)
            && (!self.identities.identity_files.is_empty() || self.passphrase.is_given())
    }

    /// The options that read standard input.
    pub(crate) fn that_read_stdin(&self) -> Vec<&'static str> {
        let keys = self.keys.iter().map(|path| ("--key", path));
        let identities = self.identities.identity_files.iter().map(|path| ("--identity", path));
        that_read_stdin(keys.chain(identities), &self.passphrase)
    }

    /// Refuses options about formats that sealed trees do not have.
    pub(crate) fn check_sealed(&self) -> Result<(), Trouble> {
        check_sealed(self.format, &self.openssl, self.context.as_deref())
    }

    /// The files that hold keys, or that open them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        with_secret_files(self.keys.iter(), &self.identities, &self.passphrase, &self.openssl)
    }

    /// Returns whether no option gives anything to make a key of.
    pub(crate) fn is_empty(&self) -> bool {
        !self.name_a_key()
            && self.identities.identity_files.is_empty()
            && self.format.is_none()
            && self.openssl.any().is_none()
            && !self.passphrase.is_given()
    }
}

/// Recipients and passphrases that open a fresh key.
#[derive(Args, Debug)]
pub(crate) struct Recipients {
    /// Encrypt to this age or SSH recipient (-R: to all in a file); repeatable
    ///
    /// RECIPIENT is `age1...` (also of a plugin), `ssh-ed25519 ...` or `ssh-rsa ...`. Evener
    /// encrypts (wraps) the key for it
    #[arg(short, long = "recipient", value_name = "RECIPIENT", help_heading = "Keys")]
    pub(crate) recipients: Vec<String>,
    /// Encrypt to all recipients in this file
    ///
    /// FILE has one recipient per line; `-` is standard input. See --recipient
    #[arg(short = 'R', long = "recipients-file", value_name = "FILE", help_heading = "Keys")]
    pub(crate) recipient_files: Vec<PathBuf>,
}

impl Recipients {
    pub(crate) fn is_empty(&self) -> bool {
        self.recipients.is_empty() && self.recipient_files.is_empty()
    }

    /// The options that read standard input.
    pub(crate) fn that_read_stdin(&self) -> Vec<&'static str> {
        let named = self.recipient_files.iter().map(|path| ("--recipients-file", path));
        that_read_stdin(named, &PassphraseOptions::default())
    }
}

/// Options that open wrapped keys.
#[derive(Args, Debug)]
pub(crate) struct Identities {
    /// Open wrapped keys and age files with this age or SSH identity; repeatable
    ///
    /// FILE is an identity file, as `age-keygen` and age's plugins make it, or a private SSH key;
    /// `-` is standard input. It opens the keys and files that were encrypted to its recipient
    #[arg(short, long = "identity", value_name = "FILE", help_heading = "Keys")]
    pub(crate) identity_files: Vec<PathBuf>,
}

/// Options for the source of a passphrase.
#[derive(Args, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct PassphraseOptions {
    /// Ask for a passphrase on the terminal
    ///
    /// Evener asks separately for each key, and for each identity file and SSH key that has a
    /// passphrase
    #[arg(long, help_heading = "Keys")]
    pub(crate) passphrase: bool,
    /// Read the passphrase from the first line of this file
    ///
    /// The passphrase opens keys, identity files and SSH keys. For a new key, Evener removes a
    /// byte-order mark, surrounding blanks and the carriage return of CRLF from it, and warns you;
    /// to open a key, it tries the passphrase with and without them. With --format openssl,
    /// everything before the newline counts, as for `openssl enc`
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Read the passphrase from the first line of this open file descriptor
    ///
    /// See --passphrase-file
    #[arg(long, value_name = "N", help_heading = "Keys")]
    pub(crate) passphrase_fd: Option<RawFd>,
}

/// Refuses options about formats that sealed trees do not have.
fn check_sealed(
    format: Option<Format>,
    openssl: &OpensslOptions,
    context: Option<&str>,
) -> Result<(), Trouble> {
    if !matches!(format, None | Some(Format::Cobblestone256)) {
        return Err(Trouble::usage(
            "a sealed tree is in cobblestone-256, whatever --format says; leave it out",
        ));
    }
    if context.is_some() {
        return Err(Trouble::usage(
            "--context: a sealed tree binds its files to itself; leave it out",
        ));
    }
    match openssl.any() {
        Some(name) => Err(Trouble::Usage(format!("{name} is not for sealed trees; leave it out"))),
        None => Ok(()),
    }
}

impl PassphraseOptions {
    /// Returns whether any of these options was given.
    pub(crate) fn is_given(&self) -> bool {
        let PassphraseOptions { passphrase, passphrase_file, passphrase_fd } = self;
        *passphrase || passphrase_file.is_some() || passphrase_fd.is_some()
    }
}

/// The options of `openssl enc`, for `--format openssl`.
#[derive(Args, Debug, Default)]
pub(crate) struct OpensslOptions {
    /// Cipher, as `openssl enc` names it, such as aes-256-cbc; required
    ///
    /// OpenSSL's ciphers in ECB, CBC, CFB, OFB and CTR mode are available, and so are chacha20 and
    /// aliases such as aes256
    #[arg(long, value_name = "NAME", ignore_case = true,
        value_parser = evener_cli::values::cipher_of_openssl_enc(), hide_possible_values = true,
        help_heading = "With --format openssl")]
    pub(crate) cipher: Option<Cipher>,
    /// Iterations of PBKDF2 (`openssl enc -pbkdf2 -iter N`) [default to encrypt: 600000]
    ///
    /// The file does not record N, and decryption has no default: give the number that the file was
    /// encrypted with, which is 10000 for `openssl enc -pbkdf2` without -iter
    #[arg(long, value_name = "N", help_heading = "With --format openssl")]
    pub(crate) iterations: Option<Iterations>,
    /// Digest that --kdf uses (`openssl enc -md`) [default: sha256; OpenSSL before 1.1.0 used md5]
    #[arg(long, value_name = "NAME", help_heading = "With --format openssl")]
    pub(crate) digest: Option<Digest>,
    /// Function that derives the key from the passphrase [default: pbkdf2]
    #[arg(long, value_name = "NAME", help_heading = "With --format openssl")]
    pub(crate) kdf: Option<KdfName>,
    /// Use no salt and no header (`openssl enc -nosalt`): all files share one key and one IV
    #[arg(long, help_heading = "With --format openssl")]
    pub(crate) nosalt: bool,
    /// Read or write the encrypted data in base64, in lines of 64 characters (`openssl enc -a`, `age
    /// -a`)
    ///
    /// The option is for files and pipes, not for trees. With --format age, encryption writes ASCII
    /// armour, which decryption recognises without the option
    #[arg(short = 'a', long, help_heading = "With --format openssl or age")]
    pub(crate) base64: bool,
    /// Read or write base64 in one long line (`openssl enc -a -A`)
    #[arg(short = 'A', long, help_heading = "With --format openssl")]
    pub(crate) one_line: bool,
    /// Read a raw key in hexadecimal from this file or /dev/fd/N, instead of a passphrase (`openssl
    /// enc -K`)
    #[arg(long, value_name = "FILE", help_heading = "With --format openssl")]
    pub(crate) key_hex_file: Option<PathBuf>,
    /// Read the initialisation vector for --key-hex-file from this file (`openssl enc -iv`)
    #[arg(long, value_name = "FILE", help_heading = "With --format openssl")]
    pub(crate) iv_hex_file: Option<PathBuf>,
}

impl OpensslOptions {
    /// The text encoding of the encrypted side.
    pub(crate) fn armour(&self, format: Option<Format>) -> Option<Base64> {
        if format == Some(Format::Age) {
            return self.base64.then_some(Base64::Armour);
        }
        match (self.base64, self.one_line) {
            (_, true) => Some(Base64::OneLine),
            (true, false) => Some(Base64::Lines),
            (false, false) => None,
        }
    }

    /// The first of these options that was given, except for the one that age has too.
    pub(crate) fn any_but_base64(&self) -> Option<&'static str> {
        self.any().filter(|name| *name != "--base64")
    }

    /// The first of these options that was given.
    pub(crate) fn any(&self) -> Option<&'static str> {
        [
            (self.cipher.is_some(), "--cipher"),
            (self.iterations.is_some(), "--iterations"),
            (self.digest.is_some(), "--digest"),
            (self.kdf.is_some(), "--kdf"),
            (self.nosalt, "--nosalt"),
            (self.one_line, "--one-line"),
            (self.key_hex_file.is_some(), "--key-hex-file"),
            (self.iv_hex_file.is_some(), "--iv-hex-file"),
            (self.base64, "--base64"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// The variable that names a key file for commands that are given none.
const KEY_FILE_VARIABLE: &str = "EVENER_KEY_FILE";
