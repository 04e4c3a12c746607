//! The keys of `--format openssl`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use evener::format::{FormatError, Kdf, OpensslEnc, OpensslSecret, Recipe};
use evener::hazmat::Iv;
use evener::keys::Unlock;
use evener::program::{check_secret_file, plain_text};
use evener::{Key, Mode};
use zeroize::Zeroizing;

use super::Keyholder;
use super::wrap::required;
use crate::options::values::KdfName;
use crate::options::{Iterations, OpensslOptions};
use crate::trouble::{Trouble, shown};

/// The use of a passphrase; one for something new is typed twice.
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
        (Some(key), None) if cipher.mode() == Mode::Ecb => Some((key, None)),
        (Some(key), Some(iv)) if cipher.mode() != Mode::Ecb => Some((key, Some(iv))),
        _ if cipher.mode() == Mode::Ecb => {
            return Err(Trouble::usage("ECB has no IV: give --key-hex-file alone"));
        }
        _ => return Err(Trouble::usage("--key-hex-file and --iv-hex-file go together")),
    };
    let is_legacy = options.kdf == Some(KdfName::Legacy);
    let secret = match raw {
        None if !keyholder.has_passphrase() => {
            return Err(Trouble::usage(
                "--format openssl takes a passphrase, or --key-hex-file and --iv-hex-file",
            ));
        }
        None => {
            let iterations = match (&options.iterations, intent) {
                (Some(_), _) if is_legacy => {
                    return Err(Trouble::usage(
                        "--kdf legacy has no iterations; leave --iterations out, or --kdf",
                    ));
                }
                _ if is_legacy => 1,
                (Some(Iterations(given)), _) => *given,
                (None, Intent::Encrypt) => OpensslSecret::RECOMMENDED_ITERATIONS,
                // A wrong guess would often give wrong plaintext, and no error.
                (None, Intent::Decrypt) => return Err(Trouble::usage(ITERATIONS_NEEDED)),
            };
            let passphrase = match intent {
                Intent::Encrypt => {
                    let passphrase = required(keyholder.new_passphrase("the output")?)?;
                    passphrase.check_new()?;
                    keyholder.warn_of_oddities(&passphrase, true);
                    passphrase
                }
                // OpenSSL may have taken one that is empty, or longer than it reads from a file.
                Intent::Decrypt => {
                    let passphrase = required(keyholder.known_passphrase("the files")?)?;
                    keyholder.warn_of_length(&passphrase);
                    passphrase
                }
            };
            OpensslSecret::Passphrase {
                passphrase: Zeroizing::new(passphrase.bytes().to_vec()),
                digest: options.digest.unwrap_or_default(),
                iterations,
            }
        }
        Some(_) if keyholder.has_passphrase() => {
            return Err(Trouble::usage("either a passphrase or --key-hex-file"));
        }
        Some(_)
            if options.iterations.is_some()
                || options.digest.is_some()
                || options.kdf.is_some()
                || options.nosalt =>
        {
            return Err(Trouble::usage(
                "--iterations, --digest, --kdf and --nosalt go with a passphrase; leave them out",
            ));
        }
        Some((key, iv)) => {
            let bytes = hexadecimal(key, Secrecy::Secret, keyholder)?;
            let key = Key::new(&bytes).map_err(|_| {
                let (expected, actual) = (cipher.key_length(), bytes.len());
                FormatError::Length { cipher, what: "a key", expected, actual }
            })?;
            let iv = match iv {
                None => Iv::NONE,
                Some(path) => {
                    let bytes = hexadecimal(path, Secrecy::Public, keyholder)?;
                    Iv::new(&bytes).map_err(|_| {
                        let (expected, actual) = (cipher.iv_length(), bytes.len());
                        FormatError::Length { cipher, what: "an IV", expected, actual }
                    })?
                }
            };
            OpensslSecret::Raw { key, iv }
        }
    };
    let mut recipe = OpensslEnc::new(cipher, secret)?;
    if is_legacy {
        recipe = recipe.kdf(Kdf::Legacy);
    }
    if options.nosalt {
        recipe = recipe.without_salt();
    }
    Ok(Recipe::OpensslEnc(recipe))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Secret,
    Public,
}

/// Reads bytes in hexadecimal, as `openssl enc -K` takes them, from a file or a pipe. Surrounding
/// space is allowed.
fn hexadecimal(
    path: &Path,
    secrecy: Secrecy,
    unlock: &dyn Unlock,
) -> Result<Zeroizing<Vec<u8>>, Trouble> {
    let failed = |cause: io::Error| Trouble::File { action: "read", path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    if secrecy == Secrecy::Secret {
        check_secret_file(&file, path, unlock)?;
    }
    // Reserves room for everything: growing would leave copies of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST_TEXT + 1));
    file.take(LONGEST_TEXT as u64).read_to_end(&mut text).map_err(failed)?;
    let wrong = |reason| Trouble::Usage(format!("{}: {reason}", shown(path)));
    let digits = plain_text(&text).map_err(wrong)?.trim_ascii();
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
        "{} does not hold a key or IV in hexadecimal digits, two a byte, in one line",
        shown(path)
    ))
}

const ITERATIONS_NEEDED: &str = "files of `openssl enc` do not tell with how many iterations of \
     PBKDF2 they were made: give --iterations 600000 for what this version of Evener encrypts, \
     --iterations 10000 for what earlier ones or `openssl enc -pbkdf2` without -iter encrypted, or \
     --kdf legacy for what `openssl enc` without -pbkdf2 encrypted";

/// More bytes than the longest key and some space take.
const LONGEST_TEXT: usize = 512;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use evener::keys::NoUnlock;

    use super::*;

    fn read(text: &str) -> Option<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        hexadecimal(file.path(), Secrecy::Secret, &NoUnlock).ok().map(|bytes| bytes.to_vec())
    }

    #[test]
    fn hexadecimal_is_read_in_any_case() {
        for text in ["00ffAb", "00ffAb\n", "\u{feff}00ffAb\r\n", "00ffAb\r", "\n\t00ffAb \n\n"] {
            assert_eq!(read(text), Some(vec![0, 255, 0xAB]), "{text:?}");
        }
        assert_eq!(read(""), Some(vec![]));
        for text in ["0", "0x00", "gg", "00 11", "00\n11", "é", "00\0"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
