//! Listing sealed files: format and sizes, as far as they can be told.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Serialize;

use crate::format::{Cobblestone, Ending, Geometry, Guess, Layout, Recipe, recognise};
use crate::output::is_temporary_name;
use crate::{Failure, FileError, KeyRing, Selection};

/// What is in a file or a tree.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Listing {
    /// Each file, sorted by path.
    pub files: Vec<Listed>,
    /// What could not be looked at.
    pub failures: Vec<Failure>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The path as the user would write it.
    #[serde(serialize_with = "crate::report::lossy")]
    pub path: PathBuf,
    /// The format's name, such as `cobblestone-256`; without a key what can be told of it,
    /// such as `cobblestone?`.
    pub format: String,
    /// Whether the format is certain.
    pub certain: bool,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The plaintext's length in bytes, where the file's length and format tell it.
    pub plain_bytes: Option<u64>,
}

/// Lists a file, or all files of a tree. Without keys, formats that need one to be told apart
/// are guessed at.
///
/// # Errors
/// When `path` is not there.
pub fn list(
    path: &Path,
    keys: Option<&KeyRing>,
    selection: &Selection,
) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    let metadata = fs::metadata(path).map_err(|error| failure(path, "open it", &error))?;
    if metadata.is_dir() {
        walk(path, keys, selection, &mut listing);
    } else {
        listing.files.push(look_at(path, keys)?);
    }
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

fn walk(root: &Path, keys: Option<&KeyRing>, selection: &Selection, listing: &mut Listing) {
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let full = root.join(&directory);
        let entries = match fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) => {
                listing.failures.push(failure(&full, "read the directory", &error));
                continue;
            }
        };
        for entry in entries {
            let (path, kind) =
                match entry.and_then(|e| Ok((directory.join(e.file_name()), e.file_type()?))) {
                    Ok(found) => found,
                    Err(error) => {
                        listing.failures.push(failure(&full, "read the directory", &error));
                        break;
                    }
                };
            if kind.is_dir() && selection.takes_directory(&path) {
                directories.push(path);
            } else if kind.is_file() && selection.takes_file(&path) && !is_unfinished(&path) {
                match look_at(&root.join(&path), keys) {
                    Ok(listed) => listing.files.push(listed),
                    Err(failure) => listing.failures.push(failure),
                }
            }
        }
    }
}

fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_temporary_name(name.as_encoded_bytes()))
}

fn look_at(path: &Path, keys: Option<&KeyRing>) -> Result<Listed, Failure> {
    let system = |error: io::Error| failure(path, "read it", &error);
    let file = File::open(path).map_err(|error| failure(path, "open it", &error))?;
    let bytes = file.metadata().map_err(system)?.len();
    let mut beginning = Vec::with_capacity(BEGINNING as usize);
    file.take(BEGINNING).read_to_end(&mut beginning).map_err(system)?;

    let known = keys.and_then(|keys| keys.recipes().find(|recipe| recipe.open(&beginning).is_ok()));
    let (format, certain, plain_bytes) = match known {
        // Tink and raw openssl keys open any header; only decrypting is proof.
        Some(recipe) => {
            (recipe.format(), is_proof(recipe), plain_length(&recipe.geometry(), bytes))
        }
        None => match recognise(&beginning) {
            Guess::OpensslEnc => ("openssl", true, None),
            Guess::PerhapsTink => ("tink?", false, None),
            Guess::PerhapsCobblestone => {
                ("cobblestone?", false, plain_length(&Cobblestone::GEOMETRY, bytes))
            }
            Guess::Unknown => ("unknown", false, None),
        },
    };
    Ok(Listed { path: path.to_owned(), format: format.to_owned(), certain, bytes, plain_bytes })
}

/// Whether a recipe that opens a header has thereby proven the format.
fn is_proof(recipe: &Recipe) -> bool {
    match recipe {
        Recipe::Cobblestone(_) => true,
        Recipe::OpensslEnc(_) => !recipe.repeats_ivs(),
        Recipe::Tink(_) => false,
    }
}

/// The plaintext's length, unless only decrypting the padding tells.
fn plain_length(geometry: &Geometry, sealed: u64) -> Option<u64> {
    if matches!(geometry.ending, Ending::Padded { .. }) {
        return None;
    }
    Layout::for_sealed(geometry, sealed).ok().map(|layout| layout.plain_length())
}

fn failure(path: &Path, action: &'static str, error: &io::Error) -> Failure {
    let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    Failure { path: path.to_owned(), error: FileError::System { action, errno } }
}

/// The longest header and tag.
const BEGINNING: u64 = 72;

#[cfg(test)]
mod tests {
    use evener_core::Key;

    use super::*;
    use crate::format::CobblestoneSuite;

    #[test]
    fn a_key_makes_the_format_certain() {
        let home = tempfile::tempdir().unwrap();
        let recipe = |byte| {
            let key = Key::new(&[byte; 32]).unwrap();
            Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap()
        };
        let (_, header) = recipe(1).create().unwrap();
        let path = home.path().join("a.enc");
        let sealed = [header.bytes(), &[0; 5 + 16]].concat();
        fs::write(&path, &sealed).unwrap();
        fs::write(home.path().join("b.enc"), b"Salted__12345678").unwrap();

        let with = |keys: Option<&KeyRing>| {
            let listing = list(home.path(), keys, &Selection::default()).unwrap();
            let told =
                |listed: &Listed| (listed.format.clone(), listed.certain, listed.plain_bytes);
            listing.files.iter().map(told).collect::<Vec<_>>()
        };
        let openssl = ("openssl".to_owned(), true, None);
        let known = ("cobblestone-256".to_owned(), true, Some(5));
        assert_eq!(with(Some(&KeyRing::new(recipe(1)))), [known, openssl.clone()]);
        let listing = with(Some(&KeyRing::new(recipe(2))));
        assert!(!listing[0].1 && listing[1] == openssl);
        assert_eq!(list(&path, None, &Selection::default()).unwrap().files.len(), 1);
        assert!(list(&home.path().join("none"), None, &Selection::default()).is_err());
    }
}
