//! Recognises files and identities of age by their text, without the age crate.

use crate::text::{BYTE_ORDER_MARK, trimmed_lines};

/// Returns whether these bytes begin like an age file, binary or in ASCII armour.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(BINARY_START) || is_armoured(bytes)
}

/// Returns whether the first nonblank line begins an age file in ASCII armour.
pub fn is_armoured(bytes: &[u8]) -> bool {
    without_blanks(bytes).starts_with(ARMOUR_START)
}

/// The text after a byte-order mark and blanks.
pub(crate) fn without_blanks(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(bytes).trim_ascii_start()
}

/// Returns whether the first meaningful line of this text is an age identity.
pub(crate) fn is_identity(text: &[u8]) -> bool {
    let first = lines(text).find_map(|(_, line)| line);
    first.is_some_and(|line| has_prefix(line, SECRET_KEY_START))
}

pub(crate) fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The meaningful lines, with their numbers from 1; `None` for a line that is not UTF-8.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Option<&str>)> {
    trimmed_lines(text)
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(index, line)| (index + 1, std::str::from_utf8(line).ok()))
}

pub(crate) const BINARY_START: &[u8] = b"age-encryption.org/";
/// As many bytes as the shortest header of another format.
pub(crate) const ARMOUR_START: &[u8] = b"-----BEGIN AGE ENCRYPTED";
pub(crate) const SECRET_KEY_START: &str = "AGE-SECRET-KEY-";
