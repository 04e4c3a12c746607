//! The encoding of SSH's fields ([RFC 4251, section 5](https://www.rfc-editor.org/rfc/rfc4251#section-5)).

/// The fields that have not been read yet.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes so many bytes.
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    /// Takes a number of 4 bytes.
    pub(super) fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Takes bytes behind their length.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.try_into().ok()?)
    }
}

/// Strings, each behind its length.
pub(super) fn strings(strings: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for string in strings {
        let length = u32::try_from(string.len()).expect("a field of a key or signature is short");
        bytes.extend(length.to_be_bytes());
        bytes.extend(*string);
    }
    bytes
}
