//! Decides which files are wrapped keys.
//!
//! The wrapped key of a tree is `evener-key.age` in its root, that of a single file NAME is
//! `NAME.evener-key.age` beside it. Later keys in the same place have a number: `evener-key-2.age`.
//! A file of such a name is a wrapped key only if age has made it: an encrypted file can have the
//! same name if the suffix is `.age`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::retry_on_intr;

use crate::KeyRing;
use crate::age_text::is_encrypted;
use crate::key_file::LONGEST;

/// The name of the wrapped key of a tree, or of the single file `file`. The first one in a place
/// has the number 1.
pub fn wrapped_key_name(file: Option<&OsStr>, number: u32) -> OsString {
    let mut name = file.unwrap_or_default().to_owned();
    name.push(if file.is_some() { "." } else { "" });
    name.push(STEM);
    if number > 1 {
        name.push(format!("-{number}"));
    }
    name.push(SUFFIX);
    name
}

/// Returns whether a name is that of a wrapped key of a tree, or of the single file `file`.
pub fn is_wrapped_key_name(file: Option<&OsStr>, name: &OsStr) -> bool {
    let (file, dot) = file.map_or((&b""[..], &b""[..]), |file| (file.as_bytes(), b"."));
    let rest = name.as_bytes().strip_prefix(file);
    rest.and_then(|rest| rest.strip_prefix(dot)).is_some_and(is_of_tree)
}

/// Returns whether the file that a path leads to is a wrapped key, of a tree or of any file beside
/// it.
pub fn is_wrapped_key(path: &Path) -> bool {
    is_wrapped_key_in(CWD, path.as_os_str(), true)
}

/// As [`is_wrapped_key`], for a name in a directory; `follow` says whether a symbolic link is
/// followed.
pub fn is_wrapped_key_in(directory: BorrowedFd<'_>, name: &OsStr, follow: bool) -> bool {
    has_wrapped_key_name(Path::new(name))
        && beginning(directory, name, follow, BEGINNING).is_ok_and(|bytes| is_encrypted(&bytes))
}

impl KeyRing {
    /// As [`is_wrapped_key_in`] for the neighbours of this ring's files. Among age's own files, an
    /// encrypted file can have such a name too, so that it is a wrapped key only if it opens and
    /// holds a key.
    pub fn is_wrapped_key_in(&self, directory: BorrowedFd<'_>, name: &OsStr, follow: bool) -> bool {
        let holds_key = || {
            let whole = beginning(directory, name, follow, LONGEST as u64);
            whole.is_ok_and(|file| self.recipes().any(|recipe| recipe.holds_key(&file)))
        };
        is_wrapped_key_in(directory, name, follow) && (!self.is_of_age() || holds_key())
    }
}

/// Returns whether a path ends in the name of a wrapped key, of a tree or of any file beside it.
pub fn has_wrapped_key_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut dots = (1..name.len()).filter(|&at| name[at] == b'.');
    is_of_tree(name) || dots.any(|at| is_of_tree(&name[at + 1..]))
}

/// The first bytes of a regular file, at most `most`; none of anything else.
fn beginning(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    follow: bool,
    most: u64,
) -> io::Result<Vec<u8>> {
    // NONBLOCK: a FIFO must not block us.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !follow);
    let file = File::from(retry_on_intr(|| openat(directory, name, flags, Mode::empty()))?);
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Returns whether a name is `evener-key.age`, `evener-key-2.age` and so on.
fn is_of_tree(name: &[u8]) -> bool {
    let middle = name.strip_prefix(STEM.as_bytes());
    match middle.and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes())) {
        Some([]) => true,
        Some([b'-', number @ ..]) => !number.is_empty() && number.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

const STEM: &str = "evener-key";
const SUFFIX: &str = ".age";

/// More than the length of an age file's first line, in bytes.
const BEGINNING: u64 = 64;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_names_that_evener_gives_are_those_of_wrapped_keys() {
        let is_name = |file: Option<&str>, name: &str| {
            is_wrapped_key_name(file.map(OsStr::new), name.as_ref())
        };
        for number in [1, 2, 10] {
            for file in [None, Some("a.enc"), Some("evener-key.age")] {
                let name = wrapped_key_name(file.map(OsStr::new), number);
                assert!(is_name(file, name.to_str().unwrap()), "{name:?}");
                assert!(!is_name(Some("other"), name.to_str().unwrap()), "{name:?}");
            }
        }
        for name in [
            "evener-key",
            "evener-key-.age",
            "evener-key-x.age",
            "evener-key-2x.age",
            "evener-keys.age",
            "evener-key2.age",
            "my-evener-key.age",
            "evener-key.age.enc",
            "Evener-key.age",
            "a.evener-key.age",
            ".evener-key.age",
        ] {
            assert!(!is_name(None, name), "{name}");
        }
        assert!(!is_name(Some("a"), "a-evener-key.age") && !is_name(Some("a"), "evener-key.age"));
    }

    #[test]
    fn a_wrapped_key_has_the_name_and_the_content_of_one() {
        let home = tempfile::tempdir().unwrap();
        let is_key = |name: &str, content: &str| {
            fs::write(home.path().join(name), content).unwrap();
            is_wrapped_key(&home.path().join(name))
        };
        let age = "age-encryption.org/v1\n-> X25519 x\n";
        for name in ["evener-key.age", "evener-key-2.age", "a.evener-key.age", "é.evener-key-3.age"]
        {
            assert!(is_key(name, age), "{name}");
            assert!(!is_key(name, "sealed") && !is_key(name, ""), "{name}");
        }
        for name in ["a.age", "evener-key-notes.age", ".evener-key.age", "a.evener-key-.age"] {
            assert!(!is_key(name, age), "{name}");
        }
        assert!(!is_wrapped_key(&home.path().join("none.evener-key.age")));
    }
}
