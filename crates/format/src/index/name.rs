//! Names of files in `data/`.

use std::fmt;

use super::keys::from_hexadecimal;
/// The name of a file in `data/`: a byte for its directory, and 16 random ones. Files that are
/// written together share directories, so that few are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageName([u8; StorageName::LENGTH]);

impl StorageName {
    /// The length in bytes.
    pub const LENGTH: usize = 17;

    /// The name with these bytes.
    pub fn new(bytes: [u8; StorageName::LENGTH]) -> StorageName {
        StorageName(bytes)
    }

    /// The name of a file `data/3f/…`, by the names of its directory and its own.
    pub fn from_text(directory: &str, file: &str) -> Option<StorageName> {
        let [first] = from_hexadecimal(directory)?;
        let mut name = [first; StorageName::LENGTH];
        name[1..].copy_from_slice(&from_hexadecimal::<16>(file)?);
        Some(StorageName(name))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; StorageName::LENGTH] {
        &self.0
    }

    /// The path in the tree: `data/3f/…`, in hexadecimal.
    pub fn path(&self) -> String {
        let mut path = String::with_capacity("data/3f/".len() + 2 * (StorageName::LENGTH - 1));
        path.push_str("data/");
        for (at, byte) in self.0.iter().enumerate() {
            if at == 1 {
                path.push('/');
            }
            path.push(digit(byte >> 4));
            path.push(digit(byte & 15));
        }
        path
    }
}

fn digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value)])
}

impl fmt::Display for StorageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

impl fmt::Debug for StorageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
