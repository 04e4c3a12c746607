//! The keys of `--format openssl`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use evener::format::{OpensslSecret, Recipe};
use evener::keys::check_private;
use evener::{Iv, Key};
use zeroize::Zeroizing;

use super::Keyholder;
use super::wrap::required;
use crate::options::{Iterations, OpensslOptions};
use crate::trouble::{Trouble, shown};

/// Whether a passphrase is for something new, and typed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Encrypt,
    Decrypt,
}

/// Reads the passphrase, or the raw key and IV.
pub(super) fn recipe(
    options: &OpensslOptions,
    intent: Intent,
    keyholder: &Keyholder<'_>,
) -> Result<Recipe, Trouble> {
    let Some(cipher) = options.cipher else {
        return Err(Trouble::usage("--format openssl takes --cipher, such as aes-256-cbc"));
    };
    let raw = match (&options.key_hex_file, &options.iv_hex_file) {
        (None, None) => None,
        (Some(key), Some(iv)) => Some((key, iv)),
        _ => return Err(Trouble::usage("--key-hex-file and --iv-hex-file go together")),
    };
    let secret = match raw {
        None if !keyholder.has_passphrase() => {
            return Err(Trouble::usage(
                "--format openssl takes a passphrase, or --key-hex-file and --iv-hex-file",
            ));
        }
        None => {
            let iterations = match (&options.iterations, intent) {
                (Some(Iterations(given)), _) => *given,
                (None, Intent::Encrypt) => OpensslSecret::RECOMMENDED_ITERATIONS,
                // A wrong guess would often give wrong plaintext, and no error.
                (None, Intent::Decrypt) => return Err(Trouble::usage(ITERATIONS_NEEDED)),
            };
            let passphrase = match intent {
                Intent::Encrypt => keyholder.new_passphrase("the output")?,
                Intent::Decrypt => keyholder.known_passphrase("the files")?,
            };
            OpensslSecret::Passphrase {
                passphrase: Zeroizing::new(required(passphrase)?.bytes().to_vec()),
                digest: options.digest.unwrap_or_default(),
                iterations,
            }
        }
        Some(_) if keyholder.has_passphrase() => {
            return Err(Trouble::usage("either a passphrase or --key-hex-file"));
        }
        Some(_) if options.iterations.is_some() || options.digest.is_some() => {
            return Err(Trouble::usage("--iterations and --digest go with a passphrase"));
        }
        Some((key, iv)) => {
            let (key_path, iv_path) = (key, iv);
            let key = hexadecimal(key_path, Secrecy::Secret)?;
            let key = Key::new(&key).ok_or_else(|| not_hexadecimal(key_path))?;
            let iv = hexadecimal(iv_path, Secrecy::Public)?;
            let iv = Iv::new(&iv).ok_or_else(|| not_hexadecimal(iv_path))?;
            OpensslSecret::Raw { key, iv }
        }
    };
    Ok(Recipe::openssl_enc(cipher, secret)?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Secret,
    Public,
}

/// Reads bytes in hexadecimal, as `openssl enc -K` takes them, from a file or a pipe. Space
/// around them is allowed.
fn hexadecimal(path: &Path, secrecy: Secrecy) -> Result<Zeroizing<Vec<u8>>, Trouble> {
    let failed = |cause: io::Error| Trouble::File { action: "read", path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if secrecy == Secrecy::Secret && metadata.is_file() {
        check_private(&metadata, path)?;
    }
    // With room for all that is read: growing would leave copies of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST_TEXT + 1));
    file.take(LONGEST_TEXT as u64).read_to_end(&mut text).map_err(failed)?;
    let digits = text.trim_ascii();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_TEXT / 2));
    for pair in digits.chunks(2) {
        match pair {
            &[high, low] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return Err(not_hexadecimal(path)),
            },
            _ => return Err(not_hexadecimal(path)),
        }
    }
    Ok(bytes)
}

fn not_hexadecimal(path: &Path) -> Trouble {
    Trouble::Usage(format!(
        "{} does not hold a key or IV in hexadecimal digits, two a byte",
        shown(path)
    ))
}

const ITERATIONS_NEEDED: &str = "files of `openssl enc` do not tell with how many iterations of \
     PBKDF2 they were made: give --iterations 600000 for what this version of Evener encrypts, \
     --iterations 10000 for what earlier ones or `openssl enc -pbkdf2` without -iter encrypted";

/// More than the longest key and some space take.
const LONGEST_TEXT: usize = 512;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(text: &str) -> Option<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        hexadecimal(file.path(), Secrecy::Secret).ok().map(|bytes| bytes.to_vec())
    }

    #[test]
    fn hexadecimal_is_read_in_any_case() {
        assert_eq!(read("00ffAb\n"), Some(vec![0, 255, 0xAB]));
        assert_eq!(read(""), Some(vec![]));
        for text in ["0", "0x00", "gg", "00 11", "é"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
