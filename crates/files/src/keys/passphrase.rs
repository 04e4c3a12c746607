//! Passphrases, and reading them from files, descriptors and the environment. The program asks the
//! user.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::path::Path;

use evener_core::shown;
use zeroize::Zeroizing;

use super::{KeyError, NoUnlock, Unlock, check_secret_file};

/// A passphrase: 1 to [`Passphrase::MAX_LENGTH`] bytes without a newline or a zero byte, which
/// are zeroised on drop and never printed.
///
/// `openssl enc` takes a passphrase as bytes in any encoding; age takes UTF-8.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The longest passphrase, in bytes: `openssl` reads as much and ignores the rest of a
    /// longer line, which would not be noticed until it matters.
    pub const MAX_LENGTH: usize = 1023;

    /// Copies a passphrase that came from `origin`, such as "the terminal". The caller's copy
    /// is the caller's to wipe.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when it is empty, too long, or holds a newline or zero byte.
    pub fn new(bytes: &[u8], origin: &str) -> Result<Passphrase, KeyError> {
        let reason = if bytes.is_empty() {
            "it is empty"
        } else if bytes.len() > Passphrase::MAX_LENGTH {
            "it is longer than 1023 bytes"
        } else if bytes.contains(&0) || bytes.contains(&b'\n') {
            "it holds a zero byte or a newline"
        } else {
            return Ok(Passphrase(Zeroizing::new(bytes.to_vec())));
        };
        Err(KeyError::Passphrase { origin: origin.to_owned(), reason: reason.to_owned() })
    }

    /// Reads the first line of a file, which may be a pipe; a regular file or a FIFO must be its
    /// owner's alone. Nothing after the line's newline is read, and a carriage return before it is
    /// part of the passphrase, as for `openssl -pass file:`.
    ///
    /// # Errors
    /// [`KeyError::Io`], those of [`check_secret_file`], and those of [`Passphrase::new`].
    pub fn from_file(path: &Path) -> Result<Passphrase, KeyError> {
        Passphrase::from_file_with(path, &NoUnlock)
    }

    /// As [`Passphrase::from_file`], unless `unlock` takes a file that its group or others may
    /// use.
    ///
    /// # Errors
    /// As [`Passphrase::from_file`].
    pub fn from_file_with(path: &Path, unlock: &dyn Unlock) -> Result<Passphrase, KeyError> {
        let failed = |cause| KeyError::Io {
            action: "read the passphrase file",
            path: path.to_owned(),
            cause,
        };
        let file = File::open(path).map_err(failed)?;
        check_secret_file(&file, path, unlock)?;
        let line = read_line(file).map_err(failed)?;
        Passphrase::new(&line, &format!("`{}`", shown(path)))
    }

    /// Reads a line from an open file descriptor of this process, and nothing after its
    /// newline where the descriptor is a pipe: what follows is for somebody else.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when the descriptor is not open for reading, and those of
    /// [`Passphrase::new`].
    pub fn from_descriptor(descriptor: RawFd) -> Result<Passphrase, KeyError> {
        let origin = format!("file descriptor {descriptor}");
        // The name of a descriptor, and not the descriptor itself: it stays its owner's.
        let line =
            File::open(format!("/dev/fd/{descriptor}")).and_then(read_line).map_err(|cause| {
                let reason = match cause.kind() {
                    io::ErrorKind::NotFound => "it is not open".to_owned(),
                    _ => cause.to_string(),
                };
                KeyError::Passphrase { origin: origin.clone(), reason }
            })?;
        Passphrase::new(&line, &origin)
    }

    /// The passphrase's bytes. What is copied from here is the caller's to wipe.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The passphrase as text; `None` when it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(redacted)")
    }
}

/// Reads up to a newline, which is left out, byte by byte so that nothing after it is taken.
/// Stops when the line is too long to be a passphrase.
fn read_line(mut source: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(Passphrase::MAX_LENGTH + 1));
    let mut byte = Zeroizing::new([0; 1]);
    while line.len() <= Passphrase::MAX_LENGTH {
        match source.read(byte.as_mut()) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn from_text(text: &[u8]) -> Result<Passphrase, KeyError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        Passphrase::from_file(file.path())
    }

    #[test]
    fn the_first_line_counts() {
        assert_eq!(from_text(b"correct horse\nbattery\n").unwrap().bytes(), b"correct horse");
        assert_eq!(from_text(b" kept \r\n").unwrap().bytes(), b" kept \r");
        assert_eq!(from_text(b"no newline").unwrap().text(), Some("no newline"));
        let latin = from_text(b"caf\xE9\n").unwrap();
        assert_eq!((latin.bytes(), latin.text()), (b"caf\xE9".as_slice(), None));
        assert_eq!(from_text(&[b'x'; 1023]).unwrap().bytes().len(), 1023);
    }

    #[test]
    fn what_openssl_would_cut_is_refused() {
        for text in [b"".as_slice(), b"\nsecond", b"a\0b", &[b'x'; 1024], &[b'x'; 5000]] {
            let error = from_text(text).unwrap_err();
            assert!(matches!(error, KeyError::Passphrase { .. }), "{error}");
        }
        assert!(Passphrase::new(b"two\nlines", "a test").is_err());
    }

    #[test]
    fn a_file_open_to_others_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let error = Passphrase::from_file(file.path()).unwrap_err();
        assert!(matches!(error, KeyError::OpenToOthers { mode: 0o644, .. }), "{error}");
    }

    #[test]
    fn a_descriptor_gives_one_line_and_keeps_the_rest() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"secret\nfor somebody else").unwrap();
        drop(writer);
        let passphrase = Passphrase::from_descriptor(reader.as_raw_fd()).unwrap();
        assert_eq!(passphrase.bytes(), b"secret");
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "for somebody else");

        let message = Passphrase::from_descriptor(99_999).unwrap_err().to_string();
        assert!(message.contains("file descriptor 99999"), "{message}");
    }

    #[test]
    fn debug_shows_no_bytes() {
        let passphrase = Passphrase::new(b"secret", "a test").unwrap();
        assert_eq!(format!("{passphrase:?}"), "Passphrase(redacted)");
    }

    proptest! {
        #[test]
        fn a_passphrase_is_its_line(text in prop::collection::vec(any::<u8>(), 0..1100)) {
            let line = text.split(|&byte| byte == b'\n').next().unwrap();
            match from_text(&text) {
                Ok(passphrase) => prop_assert_eq!(passphrase.bytes(), line),
                Err(_) => prop_assert!(
                    line.is_empty() || line.len() > Passphrase::MAX_LENGTH || line.contains(&0)
                ),
            }
        }
    }
}
