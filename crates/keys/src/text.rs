//! Normalises texts that editors, other systems and mail programs changed: a byte-order mark, other
//! line endings, or blanks around lines.

use zeroize::Zeroizing;

/// The reason why bytes are not text in UTF-8 or ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotText {
    /// The bytes begin with the byte-order mark of UTF-16.
    #[error("it is text in UTF-16; convert it to UTF-8 (`iconv -f utf-16 -t utf-8`)")]
    Utf16,
    /// A byte is zero.
    #[error("it holds a zero byte, which no text does; save it as text in UTF-8")]
    ZeroByte,
}

/// The text of a file of keys, identities or recipients, without a byte-order mark.
///
/// # Errors
/// Says why the bytes are not text in UTF-8 or ASCII.
pub fn plain_text(bytes: &[u8]) -> Result<&[u8], NotText> {
    if is_utf_16(bytes) {
        return Err(NotText::Utf16);
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(bytes);
    if text.contains(&0) { Err(NotText::ZeroByte) } else { Ok(text) }
}

/// Returns whether the bytes begin with a byte-order mark of UTF-16.
pub(super) fn is_utf_16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF])
}

/// The lines without surrounding blanks; they end in a newline, or in a text without newlines, in a
/// carriage return.
pub(super) fn trimmed_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if text.contains(&b'\n') { b'\n' } else { b'\r' };
    text.split(move |&byte| byte == end).map(<[u8]>::trim_ascii)
}

/// The text in lines that end in a newline, without surrounding blanks.
pub(super) fn with_newlines(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut whole = Zeroizing::new(Vec::with_capacity(text.len() + 1));
    for line in trimmed_lines(text.trim_ascii()) {
        whole.extend_from_slice(line);
        whole.push(b'\n');
    }
    whole
}

/// The text as one line: rejoins lines that were wrapped.
pub(super) fn in_one_line(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut whole = Zeroizing::new(Vec::with_capacity(text.len()));
    trimmed_lines(text).for_each(|line| whole.extend_from_slice(line));
    whole
}

/// The mark in UTF-8.
pub(super) const BYTE_ORDER_MARK: &str = "\u{FEFF}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_left_out_and_other_encodings_are_named() {
        assert_eq!(plain_text(b"\xEF\xBB\xBFa\n"), Ok(b"a\n".as_slice()));
        assert_eq!(plain_text(b"a\n"), Ok(b"a\n".as_slice()));
        assert_eq!(plain_text(b""), Ok(b"".as_slice()));
        assert_eq!(plain_text(b"\xFF\xFEa\0\n\0"), Err(NotText::Utf16));
        assert_eq!(plain_text(b"\xFE\xFF\0a\0\n"), Err(NotText::Utf16));
        assert_eq!(plain_text(b"a\n\0"), Err(NotText::ZeroByte));
    }

    #[test]
    fn lines_end_as_in_any_system() {
        for text in ["a\nb\n", "a\r\nb\r\n", "a\rb\r", "\n a \n\tb", "a \r\n b"] {
            assert_eq!(*with_newlines(text.as_bytes()), b"a\nb\n", "{text:?}");
            assert_eq!(*in_one_line(text.as_bytes()), b"ab", "{text:?}");
        }
    }
}
