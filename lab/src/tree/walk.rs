//! The content of a tree.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::LabError;

/// A tree's directories and regular files, relative to its root. Directories come before their
/// content.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    /// Total length of the files, in bytes.
    pub(crate) bytes: u64,
}

impl Listing {
    /// Lists the tree at `root`, without following links.
    pub(crate) fn of(root: &Path) -> Result<Listing, LabError> {
        let mut listing = Listing::default();
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            let path = root.join(&directory);
            for entry in fs::read_dir(&path).map_err(LabError::file("read", &path))? {
                let entry = entry.map_err(LabError::file("read", &path))?;
                let name = directory.join(entry.file_name());
                let found = entry.metadata().map_err(LabError::file("look at", entry.path()))?;
                if found.is_dir() {
                    open.push(name);
                } else if found.is_file() {
                    listing.bytes += found.len();
                    listing.files.push(name);
                }
            }
            listing.directories.push(directory);
        }
        Ok(listing)
    }
}

/// Reads every file of the tree at `root` into the page cache. Returns the number of bytes that
/// this takes there.
pub(crate) fn warm(root: &Path) -> Result<u64, LabError> {
    let mut buffer = vec![0; BUFFER];
    let listing = Listing::of(root)?;
    // On average a file's last page is half empty, and each file has its inode and name.
    let bytes = listing.bytes + 4096 * listing.files.len() as u64;
    for name in listing.files {
        let path = root.join(name);
        let mut file = File::open(&path).map_err(LabError::file("open", &path))?;
        while file.read(&mut buffer).map_err(LabError::file("read", &path))? > 0 {}
    }
    Ok(bytes)
}

/// The first regular file of `source` that is missing from `copy` or differs there.
pub(crate) fn first_difference(source: &Path, copy: &Path) -> Result<Option<PathBuf>, LabError> {
    for name in Listing::of(source)?.files {
        let original = source.join(&name);
        if !same(&original, &copy.join(&name)).map_err(LabError::file("compare", &original))? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn same(left: &Path, right: &Path) -> io::Result<bool> {
    let mut right = match File::open(right) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut left = File::open(left)?;
    let (mut ours, mut theirs) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        let read = left.read(&mut ours)?;
        if read == 0 {
            return Ok(right.read(&mut theirs[..1])? == 0);
        }
        match right.read_exact(&mut theirs[..read]) {
            Ok(()) if ours[..read] == theirs[..read] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

const BUFFER: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let (source, copy) = (directory.path().join("a"), directory.path().join("b"));
        for root in [&source, &copy] {
            fs::create_dir_all(root.join("deep/er")).unwrap();
            fs::write(root.join("deep/er/file"), vec![7; BUFFER + 1]).unwrap();
        }
        let listing = Listing::of(&source).unwrap();
        assert_eq!((listing.directories.len(), listing.files.len()), (3, 1));
        assert_eq!(listing.bytes, BUFFER as u64 + 1);
        assert_eq!(first_difference(&source, &copy).unwrap(), None);

        let name = PathBuf::from("deep/er/file");
        for changed in [vec![7; BUFFER], vec![7; BUFFER + 2], vec![8; BUFFER + 1]] {
            fs::write(copy.join(&name), changed).unwrap();
            assert_eq!(first_difference(&source, &copy).unwrap().as_ref(), Some(&name));
        }
        fs::remove_file(copy.join(&name)).unwrap();
        assert_eq!(first_difference(&source, &copy).unwrap(), Some(name));
    }
}
