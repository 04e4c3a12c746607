//! Lists encrypted files with their formats and sizes, as far as these are known without a key.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use evener_format::{Cobblestone, Ending, Geometry, Layout};
use evener_keys::{Guess, has_wrapped_key_name, recognise};
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::IntoSystemError;
use crate::location::Location;
use crate::seal::{Blob, geometry_of_age};
use crate::selection::Watch;
use crate::source::Source;
use crate::temporary::is_temporary_name;
use crate::tree::{Descent, is_mount_list_beginning, target_name};
use crate::{Failure, FileError, KeyRing, Notice, Operation, Options, Refusal, left_out};

/// The content of a file or a tree.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Listing {
    /// Each file, sorted by path.
    pub files: Vec<Listed>,
    /// Entries that are not among `files`: symbolic links, special files and unfinished outputs.
    /// `notices` names each.
    pub left_out: u64,
    /// Directories entered.
    pub directories: u64,
    /// Entries that were left out, and parts of the selection without a match.
    pub notices: Vec<Notice>,
    /// Files and directories that could not be read.
    pub failures: Vec<Failure>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The path as the user would write it.
    #[serde(flatten, serialize_with = "crate::report::path_entries")]
    pub path: PathBuf,
    /// The format's name, such as `cobblestone-256`; without a key, what is known of it, such as
    /// `cobblestone?`.
    pub format: String,
    /// True if the format is certain.
    pub certain: bool,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The plaintext's length in bytes, if the file's length and format determine it.
    pub plain_bytes: Option<u64>,
}

/// Lists a file, or all files of a tree. Without keys, formats that need one to be told apart are
/// guessed at. Uses the selection, the suffix and [`Options::one_file_system`] of the options; as
/// everywhere, the selection matches the names without the suffix.
///
/// # Errors
/// When `path` does not exist, or is neither a file nor a tree.
pub fn list(path: &Path, keys: Option<&KeyRing>, options: &Options) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    let fail = |error| Failure { path: path.to_owned(), error };
    let system = |action| move |errno| failure(path, action, errno);
    let status = statat(CWD, path, AtFlags::empty()).map_err(system("open it"))?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = openat(CWD, path, flags, Mode::empty());
            let root = opened.map_err(system("read the directory"))?;
            let watch = options.selection.watch();
            walk(&root, path, keys, (&watch, options), &mut listing);
            listing.notices.sort_by(|a, b| a.path.cmp(&b.path));
            for reason in watch.notices(Some(&options.suffix)) {
                listing.notices.push(Notice { path: path.to_owned(), reason });
            }
            for (below, error) in watch.missing(Some(&options.suffix)) {
                listing.failures.push(Failure { path: path.join(below), error });
            }
        }
        FileType::RegularFile => {
            let file = Source::open(CWD, path.as_os_str(), true);
            let listed = file.and_then(|file| look_at(&file, path, keys)).map_err(fail)?;
            listing.files.push(listed);
        }
        // Opening a FIFO would wait for a writer.
        _ => return Err(fail(Refusal::NeitherFileNorTree.into())),
    }
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

/// Lists the tree below `root`, whose path is `path`.
fn walk(
    root: &OwnedFd,
    path: &Path,
    keys: Option<&KeyRing>,
    (selection, options): (&Watch<'_>, &Options),
    listing: &mut Listing,
) {
    let mut descent = Descent::new(root.as_fd(), false);
    let mut directories = vec![Location::root()];
    while let Some(location) = directories.pop() {
        let listed = descent.to(&location).and_then(|directory| {
            if options.one_file_system && fstat(directory)?.st_dev != fstat(root)?.st_dev {
                listing.leave_out(path.join(location.path()), left_out::OTHER_FILE_SYSTEM);
                return Ok(());
            }
            listing.directories += 1;
            for entry in Dir::read_from(directory)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if matches!(name.as_bytes(), b"." | b"..") {
                    continue;
                }
                let chosen = |name: &OsStr| selection.path_of(&location, name);
                let stem = || target_name(Operation::Decrypt, name, &options.suffix);
                let full = || path.join(location.path_of(name));
                let kind = match kind_of(directory, &entry) {
                    Ok(kind) => kind,
                    Err(errno) => {
                        listing.failures.push(failure(&full(), "open it", errno));
                        continue;
                    }
                };
                match kind {
                    FileType::Directory if selection.takes_directory(&chosen(name)) => {
                        directories.push(Location::below(&location, name));
                    }
                    FileType::RegularFile
                        if !selection.takes_file(&chosen(stem().as_deref().unwrap_or(name))) => {}
                    FileType::RegularFile if is_temporary_name(name.as_bytes()) => {
                        listing.leave_out(full(), left_out::UNFINISHED);
                    }
                    FileType::RegularFile => {
                        let full = full();
                        match Source::open(directory, name, false)
                            .and_then(|file| look_at(&file, &full, keys))
                        {
                            Ok(listed) => listing.files.push(listed),
                            Err(error) => listing.failures.push(Failure { path: full, error }),
                        }
                    }
                    FileType::Directory => {}
                    other if selection.takes_file(&chosen(name)) => {
                        listing.leave_out(full(), left_out::special(other));
                    }
                    _ => {}
                }
            }
            Ok(())
        });
        if let Err(errno) = listed {
            let path = path.join(location.path());
            listing.failures.push(failure(&path, "read the directory", errno));
        }
    }
}

impl Listing {
    fn leave_out(&mut self, path: PathBuf, reason: &str) {
        self.left_out += 1;
        self.notices.push(Notice { path, reason: reason.to_owned() });
    }
}

fn kind_of(directory: BorrowedFd<'_>, entry: &DirEntry) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map(|status| FileType::from_raw_mode(status.st_mode)),
        known => Ok(known),
    }
}

fn look_at(file: &Source, path: &Path, keys: Option<&KeyRing>) -> Result<Listed, FileError> {
    let bytes = file.length();
    let beginning = file.beginning(BEGINNING)?;
    let guess = recognise(&beginning);
    let known = keys.and_then(|keys| keys.recipes().find(|recipe| recipe.open(&beginning).is_ok()));
    let (format, certain, plain_bytes) = match (guess, known) {
        // No other file begins like this by chance.
        (Guess::Key, _) => ("key", true, None),
        _ if is_mount_list_beginning(&beginning) => ("mount-points", true, None),
        (Guess::Age, _) if has_wrapped_key_name(path) => ("wrapped key", true, None),
        (Guess::Age, _) => {
            let geometry = geometry_of_age(file)?;
            ("age", true, geometry.and_then(|geometry| plain_length(&geometry, bytes)))
        }
        (Guess::Pipe, _) => ("evener-pipe", true, None),
        (Guess::OpensslBase64, _) => ("openssl -a", true, None),
        // Tink and raw openssl keys open any header; only decrypting proves the format.
        (_, Some(recipe)) => {
            (recipe.format(), recipe.proves_format(), plain_length(&recipe.geometry(), bytes))
        }
        (Guess::OpensslEnc, None) => ("openssl", true, None),
        (Guess::PerhapsTink, None) => ("tink?", false, None),
        (Guess::PerhapsCobblestone, None) => {
            ("cobblestone?", false, plain_length(&Cobblestone::GEOMETRY, bytes))
        }
        (_, None) => ("unknown", false, None),
    };
    Ok(Listed { path: path.to_owned(), format: format.to_owned(), certain, bytes, plain_bytes })
}

/// The plaintext's length; `None` if it depends on the encrypted padding.
fn plain_length(geometry: &Geometry, sealed: u64) -> Option<u64> {
    if matches!(geometry.ending, Ending::Padded { .. }) {
        return None;
    }
    Layout::for_sealed(geometry, sealed).ok().map(|layout| layout.plain_length())
}

fn failure(path: &Path, action: &'static str, errno: Errno) -> Failure {
    Failure { path: path.to_owned(), error: FileError::System { action, errno: errno.system() } }
}

/// The longest header and tag.
const BEGINNING: u64 = 72;

#[cfg(test)]
mod tests {
    use std::fs;

    use evener_core::Key;

    use super::*;
    use evener_format::{CobblestoneSuite, Recipe};

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
        for name in ["evener-key-2.age", "file.enc.evener-key.age", "other.age"] {
            fs::write(home.path().join(name), b"age-encryption.org/v1\n-> X25519 x\n").unwrap();
        }
        fs::write(home.path().join("my.key"), b"evener-key:v1:cobblestone-256:AAAA\n").unwrap();
        fs::write(home.path().join("salted.b64"), b"U2FsdGVkX18xMjM0NTY3OA==\n").unwrap();
        fs::write(home.path().join("piped"), b"evener-pipe:v1:9\nage-encry").unwrap();
        let others = ["wrapped key", "wrapped key", "key", "age", "evener-pipe", "openssl -a"]
            .map(|format| (format.to_owned(), true, None));

        let with = |keys: Option<&KeyRing>| {
            let listing = list(home.path(), keys, &Options::default()).unwrap();
            let told =
                |listed: &Listed| (listed.format.clone(), listed.certain, listed.plain_bytes);
            listing.files.iter().map(told).collect::<Vec<_>>()
        };
        let openssl = ("openssl".to_owned(), true, None);
        let known = ("cobblestone-256".to_owned(), true, Some(5));
        let all = [&[known, openssl.clone()][..], &others].concat();
        assert_eq!(with(Some(&KeyRing::new(recipe(1)))), all);
        let listing = with(Some(&KeyRing::new(recipe(2))));
        assert!(!listing[0].1 && listing[1] == openssl);
        assert_eq!(list(&path, None, &Options::default()).unwrap().files.len(), 1);
        assert!(list(&home.path().join("none"), None, &Options::default()).is_err());
    }
}
