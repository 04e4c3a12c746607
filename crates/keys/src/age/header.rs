//! Reads the header of an age file in time linear in its length.

use std::io::{self, BufRead, Read};

use ::age::armor::ArmoredReader;
use ::age::{DecryptError, Decryptor};

use super::super::age_text::is_armoured;
use super::super::text::{plain_text, with_newlines};

/// Reads the header of an age file, binary or in ASCII armour, whose lines may have blanks around
/// them.
pub(super) fn read_header(bytes: &[u8]) -> Result<Decryptor<AgeFile>, DecryptError> {
    Decryptor::new_buffered(AgeFile { bytes: binary(bytes)?, position: 0 })
}

/// Counts the stanzas of an age file's header: one for each recipient, and perhaps one of nobody's.
/// `None` if there is no such header.
pub(super) fn count_stanzas(bytes: &[u8]) -> Option<usize> {
    read_header(bytes).ok()?;
    let file = binary(bytes).ok()?;
    let lines = file[..header_length(&file)].split(|&byte| byte == b'\n');
    Some(lines.filter(|line| line.starts_with(b"-> ")).count())
}

/// An age file without its armour, if it has one.
fn binary(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut binary = Vec::with_capacity(bytes.len());
    match plain_text(bytes) {
        Ok(text) if is_armoured(bytes) => {
            ArmoredReader::new(&with_newlines(text)[..]).read_to_end(&mut binary)?
        }
        _ => ArmoredReader::new(bytes).read_to_end(&mut binary)?,
    };
    Ok(binary)
}

/// An age file that returns its header at once.
///
/// The age crate requests one line after another, and after each parses all lines so far from the
/// first. With thousands of recipients that would take minutes.
pub(super) struct AgeFile {
    bytes: Vec<u8>,
    position: usize,
}

impl AgeFile {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }
}

impl Read for AgeFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.rest().read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for AgeFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.rest())
    }

    fn consume(&mut self, count: usize) {
        self.position += count;
    }

    /// Returns all lines of the header at the start, and all remaining bytes later.
    fn read_until(&mut self, _line_end: u8, lines: &mut Vec<u8>) -> io::Result<usize> {
        let rest = self.rest();
        let count = match self.position {
            0 => header_length(rest),
            _ => rest.len(),
        };
        lines.extend_from_slice(&rest[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// The length of a header, up to the end of the first line that begins with `---`. Without such a
/// line, the whole file may belong to the header.
fn header_length(file: &[u8]) -> usize {
    let last = file.windows(LAST_LINE.len()).position(|start| start == LAST_LINE);
    let end = last.and_then(|last| {
        let after = last + LAST_LINE.len();
        Some(after + file[after..].iter().position(|&byte| byte == b'\n')? + 1)
    });
    end.unwrap_or(file.len())
}

const LAST_LINE: &[u8] = b"\n---";
