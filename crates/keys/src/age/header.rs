//! Reads the header of an age file in time linear in its length.

use std::io::{self, BufRead, Read};

use ::age::armor::ArmoredReader;
use ::age::{DecryptError, Decryptor};
use evener_format::Age;

use super::super::age_text::is_armoured;
use super::super::text::{plain_text, with_newlines};

/// Reads the header of an age file, binary or in ASCII armour, whose lines may have blanks around
/// them.
pub(super) fn read_header(bytes: &[u8]) -> Result<Decryptor<AgeFile>, DecryptError> {
    parse(binary(bytes)?)
}

/// Parses the header of a binary age file, unless it consists of more words than recipients have, or
/// a stanza lacks its end.
///
/// The crate stores each word on its own: short ones would take a hundred times their length. It also
/// takes stanzas without an end, as early versions of rage wrote them, and age does not.
pub(super) fn parse(file: Vec<u8>) -> Result<Decryptor<AgeFile>, DecryptError> {
    let length = Age::header_length(&file);
    let header = &file[..length.unwrap_or(file.len())];
    let blanks = header.iter().filter(|&&byte| byte == b' ').count();
    if blanks > MOST_SHORT_WORDS + header.len() / SHORTEST_WORD {
        return Err(DecryptError::InvalidHeader);
    }
    if length.is_some() && !all_stanzas_end(header) {
        return Err(DecryptError::InvalidHeader);
    }
    Decryptor::new_buffered(AgeFile::new(file))
}

/// Returns whether each stanza ends in a line of less than 64 characters, which may be empty.
fn all_stanzas_end(header: &[u8]) -> bool {
    let mut has_ended = true;
    header.split(|&byte| byte == b'\n').all(|line| {
        let begins = line.starts_with(b"-> ") || line.starts_with(b"---");
        let is_right = !begins || has_ended;
        has_ended = !line.starts_with(b"-> ") && (has_ended || line.len() < 64);
        is_right
    })
}

/// Counts the stanzas of an age file's header: one for each recipient, and perhaps one of nobody's.
/// `None` if there is no such header.
pub(super) fn count_stanzas(bytes: &[u8]) -> Option<usize> {
    read_header(bytes).ok()?;
    let file = binary(bytes).ok()?;
    let lines = file[..Age::header_length(&file)?].split(|&byte| byte == b'\n');
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
    fn new(bytes: Vec<u8>) -> AgeFile {
        AgeFile { bytes, position: 0 }
    }

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
            // Without a last line, the whole file may belong to the header.
            0 => Age::header_length(rest).unwrap_or(rest.len()),
            _ => rest.len(),
        };
        lines.extend_from_slice(&rest[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// Fewer bytes than a recipient has for each blank: 49 with X25519, 36 with SSH and plugins.
const SHORTEST_WORD: usize = 32;

/// More words than a stanza has that keeps readers from being strict.
const MOST_SHORT_WORDS: usize = 64;
