//! Lists encrypted files with their formats and sizes, as far as these are known without a key.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use evener_core::IgnorePoison;
use evener_format::{Cobblestone, Ending, Geometry, Layout};
use evener_keys::{Guess, has_wrapped_key_name, recognise};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use serde::Serialize;

use super::choice::{Choice, Found};
use super::directory::Directory;
use super::mounts::is_mount_list_beginning;
use super::walk::{Entry, Step, Visitor, Walk};
use crate::place::{self, Origin, Reading};
use crate::source::Source;
use crate::temporary::is_temporary_name;
use crate::{
    Failure, Fault, FileError, KeyRing, Name, Notice, Operation, Refusal, TreeOptions, left_out,
};
use evener_seal::{Blob, geometry_of_age};

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
/// guessed at. Of the options it uses the names, the selection and
/// [`TreeOptions::one_file_system`]; as everywhere, the selection matches the names without the
/// suffix.
///
/// # Errors
/// When `path` does not exist, or is neither a file nor a tree.
pub fn list(
    path: &Path,
    keys: Option<&KeyRing>,
    options: &TreeOptions,
) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    let fail = |error| Failure { path: path.to_owned(), error };
    let status = statat(CWD, path, AtFlags::empty()).map_err(FileError::system("open it"));
    let status = status.map_err(fail)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => {
            let root = Directory::at(path, false).map_err(fail)?;
            let watch = options.selection.watch();
            let operation = Operation::Verify;
            let choice = Choice { operation, options, selection: &watch, around: None, keys };
            listing.directories = 1;
            Walk::new(root).run(&mut Lister { choice, path, keys, listing: &mut listing });
            listing.notices.sort_by(|a, b| a.path.cmp(&b.path));
            for reason in watch.notices(Some(options.names.suffix())) {
                listing.notices.push(Notice { path: path.to_owned(), reason });
            }
            for (below, error) in watch.missing(Some(options.names.suffix())) {
                listing.failures.push(Failure { path: path.join(below), error });
            }
        }
        FileType::RegularFile => {
            let file = Source::open(CWD, path.as_os_str(), true);
            let listed = file.and_then(|file| look_at_file(&file, path, keys)).map_err(fail)?;
            listing.files.push(listed);
        }
        // Opening a FIFO would wait for a writer.
        _ => return Err(fail(Refusal::NeitherFileNorTree.into())),
    }
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

/// Lists the objects of a place, or one of them, as [`list`] does files; `path` is the user's name for
/// the place. Those of [`SealedNames`](crate::SealedNames) count under their plain names for the
/// selection.
pub fn list_place(
    origin: &dyn Origin,
    path: &Path,
    keys: Option<&KeyRing>,
    options: &TreeOptions,
) -> Listing {
    let watch = options.selection.watch();
    let mut listing = Listing { directories: 1, ..Listing::default() };
    let mut names = Vec::new();
    for entry in origin.walk() {
        match entry {
            Ok(place::Entry { name, kind: place::Kind::Object, .. }) => {
                let file = name.path().file_name().unwrap_or_default();
                let plain = options.names.plain(Operation::Verify, file);
                if watch.takes_below_root(&name.path().with_file_name(plain)) {
                    names.push(name);
                }
            }
            Ok(_) => listing.directories += 1,
            Err(Fault::Entry { name, reason }) => {
                let error = Fault::Failed(reason).into();
                listing.failures.push(Failure { path: path.join(name.path()), error });
            }
            Err(fault) => {
                listing.failures.push(Failure { path: path.to_owned(), error: fault.into() });
            }
        }
    }
    if !origin.abilities().is_sorted() {
        // As most stores order them.
        names.sort_by(|a, b| a.path().as_os_str().cmp(b.path().as_os_str()));
    }
    for (name, looked) in names.iter().zip(look_at_all(origin, &names, path, keys)) {
        match looked {
            Ok(listed) => listing.files.push(listed),
            Err(error) => {
                listing.failures.push(Failure { path: path.join(name.path()), error });
            }
        }
    }
    for reason in watch.notices(Some(options.names.suffix())) {
        listing.notices.push(Notice { path: path.to_owned(), reason });
    }
    for (below, error) in watch.missing(Some(options.names.suffix())) {
        listing.failures.push(Failure { path: path.join(below), error });
    }
    listing
}

/// Looks at objects, as many at once as the place likes; the results are in their order.
fn look_at_all(
    origin: &dyn Origin,
    names: &[Name],
    path: &Path,
    keys: Option<&KeyRing>,
) -> Vec<Result<Listed, FileError>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let look = || {
        while let Some((index, name)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            names.get(index).map(|name| (index, name))
        } {
            let looked = look_at_object(origin, name, &path.join(name.path()), keys);
            results.lock().ignore_poison().push((index, looked));
        }
    };
    thread::scope(|scope| {
        let more = origin.abilities().requests().min(names.len()).saturating_sub(1);
        // If no thread can be started, this one does all.
        (0..more).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, look)));
        look();
    });
    let mut results = results.into_inner().ignore_poison();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, looked)| looked).collect()
}

fn look_at_object(
    origin: &dyn Origin,
    name: &Name,
    path: &Path,
    keys: Option<&KeyRing>,
) -> Result<Listed, FileError> {
    let mut first = [0; BEGINNING as usize];
    let (blob, read) = origin.open(name, &mut first)?;
    let wanted = BEGINNING.min(blob.length()) as usize;
    if let Some(rest) = first.get_mut(read..wanted) {
        blob.read_at(rest, read as u64)?;
    }
    look_at(&Reading(blob), &first[..wanted], path, keys)
}

/// The visitor that lists a tree; `path` is the user's name for it.
struct Lister<'a> {
    choice: Choice<'a>,
    path: &'a Path,
    keys: Option<&'a KeyRing>,
    listing: &'a mut Listing,
}

impl Visitor for Lister<'_> {
    const OPENING: &'static str = "read the directory";

    fn take(&mut self, step: &mut Step<'_>) -> Result<bool, FileError> {
        if step.is_elsewhere && self.choice.options.one_file_system {
            self.leave_out(step.directory.location.path(), left_out::OTHER_FILE_SYSTEM);
            return Ok(false);
        }
        self.listing.directories += 1;
        Ok(true)
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError> {
        let Found { kind, is_taken, .. } = self.choice.look_at(entry)?;
        match kind {
            _ if !is_taken => {}
            FileType::Directory => return Ok(true),
            FileType::RegularFile if is_temporary_name(entry.name.as_bytes()) => {
                self.leave_out(entry.path(), left_out::UNFINISHED);
            }
            FileType::RegularFile => {
                let file = Source::open(entry.directory.source.as_fd(), entry.name, false)?;
                let path = self.path.join(entry.path());
                if let Ok(plain) = self.choice.options.names.open(entry.name) {
                    let directory = entry.directory;
                    let location = &directory.location;
                    let refused =
                        self.choice.refuse_twin(directory.source.as_fd(), location, &plain);
                    refused.unwrap_or_else(|error| self.failed(entry.path(), error));
                }
                self.listing.files.push(look_at_file(&file, &path, self.keys)?);
            }
            other => self.leave_out(entry.path(), left_out::special(other)),
        }
        Ok(false)
    }

    fn failed(&mut self, path: PathBuf, error: FileError) {
        self.listing.failures.push(Failure { path: self.path.join(path), error });
    }
}

impl Lister<'_> {
    fn leave_out(&mut self, below: PathBuf, reason: &str) {
        self.listing.left_out += 1;
        let path = self.path.join(below);
        self.listing.notices.push(Notice { path, reason: reason.to_owned() });
    }
}

fn look_at_file(file: &Source, path: &Path, keys: Option<&KeyRing>) -> Result<Listed, FileError> {
    look_at(file, &file.beginning(BEGINNING)?, path, keys)
}

fn look_at(
    file: &impl Blob,
    beginning: &[u8],
    path: &Path,
    keys: Option<&KeyRing>,
) -> Result<Listed, FileError> {
    let bytes = file.length();
    let guess = recognise(beginning);
    let known = keys.and_then(|keys| keys.recipes().find(|recipe| recipe.open(beginning).is_ok()));
    let is_of_age = keys.is_some_and(KeyRing::is_of_age);
    let (format, certain, plain_bytes) = match (guess, known) {
        // No other file begins like this by chance.
        (Guess::Key, _) => ("key", true, None),
        _ if is_mount_list_beginning(beginning) => ("mount-points", true, None),
        (Guess::Age, _) if !is_of_age && has_wrapped_key_name(path) => ("wrapped key", true, None),
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
            let listing = list(home.path(), keys, &TreeOptions::default()).unwrap();
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
        assert_eq!(list(&path, None, &TreeOptions::default()).unwrap().files.len(), 1);
        assert!(list(&home.path().join("none"), None, &TreeOptions::default()).is_err());
    }
}
