//! Passphrases, read from files, descriptors and the environment. Only the program asks the user.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::path::Path;

use evener_core::shown;
use zeroize::Zeroizing;

use super::faults::PassphraseFault;
use super::text::{BYTE_ORDER_MARK, is_utf_16};
use super::{KeyError, NoUnlock, Unlock, check_secret_file};

/// A passphrase: at most [`Passphrase::MAX_LENGTH`] bytes without a newline or a zero byte, zeroised
/// on drop and never printed. Only the line of a file or descriptor may be empty.
///
/// `openssl enc` takes a passphrase as bytes in any encoding; age takes UTF-8. What is new must have
/// one of 1 to [`Passphrase::MAX_NEW_LENGTH`] bytes ([`Passphrase::check_new`]).
///
/// The first line of a file may hold more than a person would type: [`Oddity`] lists the cases. A
/// new key is wrapped without the oddities. An existing key is tried first with the line as
/// written, then without them.
#[derive(Clone)]
pub struct Passphrase {
    bytes: Zeroizing<Vec<u8>>,
    origin: String,
    /// True if it is the line of a file, not text that a user typed or chose.
    is_line: bool,
    has_further_lines: bool,
}

/// A feature of a file or descriptor that a user who types the passphrase would leave out. Its text
/// follows "it has".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// Before the passphrase.
    ByteOrderMark,
    /// After the passphrase: the line ends in CRLF.
    CarriageReturn,
    /// Before or after the passphrase.
    Blanks,
    /// After the first line, which alone is the passphrase.
    FurtherLines,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Oddity::ByteOrderMark => "a byte-order mark at its beginning",
            Oddity::CarriageReturn => "the carriage return of CRLF at its end",
            Oddity::Blanks => "blanks around it",
            Oddity::FurtherLines => "further lines after it",
        })
    }
}

impl Passphrase {
    /// The maximum length of a passphrase, in bytes: that of a program's argument on Linux, and so of
    /// `openssl enc -pass pass:`.
    pub const MAX_LENGTH: usize = (128 << 10) - 1;

    /// The maximum length of a new passphrase, in bytes: `openssl` reads this much of a file and
    /// ignores the rest of a longer line, which the user would not notice until it matters.
    pub const MAX_NEW_LENGTH: usize = 1023;

    /// Copies a passphrase that came from `origin`, such as "the terminal". The caller wipes its
    /// own copy.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when it is empty, too long, or holds a newline or zero byte.
    pub fn new(bytes: &[u8], origin: &str) -> Result<Passphrase, KeyError> {
        let fault = if bytes.is_empty() {
            PassphraseFault::Empty
        } else if bytes.len() > Passphrase::MAX_LENGTH {
            PassphraseFault::TooLong
        } else if bytes.contains(&0) && is_utf_16(bytes) {
            PassphraseFault::Utf16
        } else if bytes.contains(&0) {
            PassphraseFault::ZeroByte
        } else if bytes.contains(&b'\n') {
            PassphraseFault::Newline
        } else {
            return Ok(Passphrase::unchecked(bytes, origin));
        };
        Err(refused(origin, fault))
    }

    /// Reads the first line of a file, which may be a pipe; a regular file or a FIFO must be
    /// accessible to its owner only. From a pipe, it reads nothing after the line's newline.
    ///
    /// # Errors
    /// [`KeyError::Io`], the errors of [`check_secret_file`], and those of [`Passphrase::new`].
    pub fn from_file(path: &Path) -> Result<Passphrase, KeyError> {
        Passphrase::from_file_with(path, &NoUnlock)
    }

    /// As [`Passphrase::from_file`], unless `unlock` accepts a file that its group or others may
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
        let line = read_line(&file).map_err(failed)?;
        let is_regular = file.metadata().map_err(failed)?.is_file();
        let has_further_lines = is_regular && has_text(&file).map_err(failed)?;
        let passphrase = Passphrase::of_line(&line, &format!("`{}`", shown(path)))?;
        Ok(Passphrase { has_further_lines, ..passphrase })
    }

    /// Reads a line from an open file descriptor of this process. If the descriptor is a pipe, it
    /// reads nothing after the newline: the rest is for another reader.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when the descriptor is not open for reading, and the errors of
    /// [`Passphrase::new`].
    pub fn from_descriptor(descriptor: RawFd) -> Result<Passphrase, KeyError> {
        let origin = format!("file descriptor {descriptor}");
        // Opens the descriptor by name, as the descriptor itself stays its owner's.
        let line =
            File::open(format!("/dev/fd/{descriptor}")).and_then(read_line).map_err(|cause| {
                match cause.kind() {
                    io::ErrorKind::NotFound => refused(&origin, PassphraseFault::NotOpen),
                    _ => refused(&origin, PassphraseFault::Unreadable(cause)),
                }
            })?;
        Passphrase::of_line(&line, &origin)
    }

    /// Refuses a passphrase that must not protect anything new: an empty one, and one that `openssl`
    /// would cut.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`].
    pub fn check_new(&self) -> Result<(), KeyError> {
        self.refuse_empty()?;
        match self.bytes.len() > Passphrase::MAX_NEW_LENGTH {
            true => Err(refused(&self.origin, PassphraseFault::TooLongForNew)),
            false => Ok(()),
        }
    }

    fn refuse_empty(&self) -> Result<(), KeyError> {
        match self.bytes.is_empty() {
            true => Err(refused(&self.origin, PassphraseFault::EmptyLine)),
            false => Ok(()),
        }
    }

    fn unchecked(bytes: &[u8], origin: &str) -> Passphrase {
        Passphrase {
            bytes: Zeroizing::new(bytes.to_vec()),
            origin: origin.to_owned(),
            is_line: false,
            has_further_lines: false,
        }
    }

    fn of_line(line: &[u8], origin: &str) -> Result<Passphrase, KeyError> {
        let passphrase = match line {
            [] => Passphrase::unchecked(line, origin),
            line => Passphrase::new(line, origin)?,
        };
        Ok(Passphrase { is_line: true, ..passphrase })
    }

    /// The passphrase's bytes as written, which `openssl enc` takes. The caller wipes its copies.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The passphrase as text, as written; `None` when it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Its source, such as a file in backquotes.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns whether it came from a file or a descriptor, so that a new age passphrase excludes
    /// its oddities.
    pub fn is_line(&self) -> bool {
        self.is_line
    }

    /// The oddities besides the text that a person would type.
    pub fn oddities(&self) -> Vec<Oddity> {
        let text = self.bytes();
        let unmarked = text.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(text);
        let line = unmarked.strip_suffix(b"\r").unwrap_or(unmarked);
        let has_blanks = match std::str::from_utf8(line) {
            Ok(line) => line.trim() != line,
            Err(_) => line.trim_ascii() != line,
        };
        [
            (unmarked != text, Oddity::ByteOrderMark),
            (line != unmarked, Oddity::CarriageReturn),
            (has_blanks, Oddity::Blanks),
            (self.has_further_lines, Oddity::FurtherLines),
        ]
        .into_iter()
        .filter_map(|(is_there, oddity)| is_there.then_some(oddity))
        .collect()
    }

    /// The text that wraps a new key.
    ///
    /// # Errors
    /// The errors of [`Passphrase::check_new`], and [`KeyError::Passphrase`] when it is not UTF-8, or
    /// is a file's line that is blank or contains a carriage return.
    pub(super) fn for_new(&self) -> Result<&str, KeyError> {
        self.check_new()?;
        let text = self.as_utf_8()?;
        if !self.is_line {
            return Ok(text);
        }
        let text = text.trim_start_matches(BYTE_ORDER_MARK).trim();
        let fault = match text {
            "" => PassphraseFault::BlankLine,
            text if text.contains('\r') => PassphraseFault::CarriageReturn,
            text => return Ok(text),
        };
        Err(refused(&self.origin, fault))
    }

    /// The texts to try on an existing key: as written, then as an editor shows the line, then
    /// without blanks around it. Usually they are all the same.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when it is empty or not UTF-8.
    pub(super) fn for_existing(&self) -> Result<Vec<&str>, KeyError> {
        self.refuse_empty()?;
        let text = self.as_utf_8()?;
        let line = text.trim_start_matches(BYTE_ORDER_MARK);
        let line = line.split('\r').next().unwrap_or(line);
        let mut texts = vec![text];
        texts.extend([line, line.trim()].into_iter().filter(|text| !text.is_empty()));
        texts.dedup();
        Ok(texts)
    }

    fn as_utf_8(&self) -> Result<&str, KeyError> {
        self.text().ok_or_else(|| {
            refused(
                &self.origin,
                match is_utf_16(&self.bytes) {
                    true => PassphraseFault::Utf16,
                    false => PassphraseFault::NotUtf8,
                },
            )
        })
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(redacted)")
    }
}

fn refused(origin: &str, fault: PassphraseFault) -> KeyError {
    KeyError::Passphrase { origin: origin.to_owned(), fault }
}

/// Reads up to a newline, which it drops, byte by byte so that it takes nothing after it. Stops
/// when the line is too long to be a passphrase.
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

/// Returns whether the next bytes to read include a nonblank.
fn has_text(mut source: impl Read) -> io::Result<bool> {
    let mut bytes = Zeroizing::new([0; 1024]);
    loop {
        match source.read(bytes.as_mut()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                let is_text = |byte: &u8| !byte.is_ascii_whitespace() && *byte != 0;
                return Ok(bytes[..read?].iter().any(is_text));
            }
        }
    }
}

#[cfg(test)]
mod tests;
