//! Lines of a configuration.

use std::path::{Path, PathBuf};

/// The lines of a file, each with its continuations.
pub(super) struct Lines {
    path: PathBuf,
    text: Vec<u8>,
    /// The offset of the rest of it.
    begin: usize,
    /// The last line that was read.
    number: usize,
}

impl Lines {
    pub(super) fn of(path: PathBuf, text: Vec<u8>) -> Lines {
        Lines { path, text, begin: 0, number: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last line that was read, from 1 on.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Iterator for Lines {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        while self.begin < self.text.len() {
            let rest = &self.text[self.begin..];
            let length =
                rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            self.begin += length;
            self.number += 1;
            let mut line = &rest[..length];
            while let Some(shorter) = line.strip_suffix(b"\n").or(line.strip_suffix(b"\r")) {
                line = shorter;
            }
            whole.extend(line);
            if !whole.ends_with(b"\\") || whole.ends_with(b"\\\\") {
                return Some(whole);
            }
            whole.pop();
        }
        (!whole.is_empty()).then_some(whole)
    }
}

/// Returns the part before a `#` that is neither quoted nor escaped.
pub(super) fn without_comment(line: &[u8]) -> &[u8] {
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        match (byte, quote) {
            (b'\\', _) => at += 1,
            (b'#', None) => return &line[..at],
            (b'\'' | b'"' | b'`', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            _ => {}
        }
        at += 1;
    }
    line
}
