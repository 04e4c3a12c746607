//! Paths of entries and their order.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{IndexError, MOST_PATH};

/// The path of an entry: its directory, which is empty for the root, and its name in it. Only the
/// root's own entry has an empty name.
///
/// The order is that of the index: by directory, component by component, then by name, all as
/// bytes. So the entries of a directory lie together, and so do all entries below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    /// The directory, with `/` between its components.
    pub directory: Arc<[u8]>,
    /// The last component.
    pub name: Vec<u8>,
}

impl EntryPath {
    /// The directory and the name of a path.
    pub fn of(path: &[u8]) -> EntryPath {
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        EntryPath { directory: directory.into(), name: name.to_vec() }
    }

    /// The whole path.
    pub fn whole(&self) -> Vec<u8> {
        match self.directory.is_empty() {
            true => self.name.clone(),
            false => [&*self.directory, b"/", &self.name].concat(),
        }
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &EntryPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &EntryPath) -> Ordering {
        compare_directories(&self.directory, &other.directory)
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// Compares the paths of two directories, component by component.
pub fn compare_directories(one: &[u8], other: &[u8]) -> Ordering {
    // No component has zero bytes.
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(key).cmp(other.iter().map(key))
}

/// Returns whether this is the path of an entry: components without `/` and NUL, none of them empty,
/// `.` or `..`, of at most 255 bytes each.
pub(super) fn is_path(path: &[u8]) -> bool {
    path.len() <= MOST_PATH && path.split(|byte| *byte == b'/').all(is_name)
}

pub(super) fn is_name(name: &[u8]) -> bool {
    (1..=MOST_NAME).contains(&name.len())
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
        && !matches!(name, b"." | b"..")
}

/// Checks the directory of an entry.
pub(super) fn check_directory(directory: &[u8]) -> Result<(), IndexError> {
    if directory.len() > MOST_PATH {
        return Err(IndexError::Limit(
            "its path has more than 128 KiB, which is too much for a sealed tree",
        ));
    }
    match directory.is_empty() || is_path(directory) {
        true => Ok(()),
        false => Err(IndexError::Malformed("the path of a directory is invalid")),
    }
}

/// The most bytes of a name.
pub(super) const MOST_NAME: usize = 255;
