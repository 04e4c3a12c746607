//! Entries of a place.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::Name;

/// An entry of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: Kind,
    /// An object's length in bytes, if the place tells it with the name.
    pub length: Option<u64>,
    /// Its metadata, as far as the place tells it with the name.
    pub metadata: Metadata,
    /// Its identity and state, where the place has them.
    pub stamp: Option<Stamp>,
    /// The time at which its source was last changed, in seconds since 1970 and nanoseconds, if the
    /// place keeps it.
    pub source_changed: Option<(i64, u32)>,
    /// An object's version, as [`Version::text`] has it, if the place tells it with the name.
    pub version: Option<String>,
}

impl Entry {
    /// An object with a name, and its length in bytes if that is known.
    pub fn new(name: Name, length: Option<u64>) -> Entry {
        Entry { length, ..Entry::of(name, Kind::Object, Metadata::default()) }
    }

    /// An entry of any kind.
    pub fn of(name: Name, kind: Kind, metadata: Metadata) -> Entry {
        let (length, stamp, source_changed, version) = (None, None, None, None);
        Entry { name, kind, length, metadata, stamp, source_changed, version }
    }
}

/// The identity and state of a local entry. A later run finds by them what has moved, and what has
/// not changed: programs can set the time of the last modification back, but not that of the last
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The number of its file system, which may be another after the next mount.
    pub device: u64,
    /// Its number there. It is reused once the entry is gone.
    pub inode: u64,
    /// The time of the last change of its content, metadata or names: in seconds since 1970, and
    /// nanoseconds.
    pub changed: (i64, u32),
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An object, such as a file.
    Object,
    /// A directory.
    Directory,
    /// A symbolic link to this path, which may lead nowhere.
    SymbolicLink(PathBuf),
    /// A further name of the object with this name, which the walk has returned before.
    HardLink(Name),
    /// Something that is not transferred, for this reason.
    LeftOut(String),
}

/// The metadata of an entry, as far as its place has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The permission bits, set-id and sticky bits included.
    pub mode: Option<u32>,
    /// The time of the last modification.
    pub modified: Option<SystemTime>,
    /// The numbers of the user and the group that own it.
    pub owner: Option<(u32, u32)>,
    /// The extended attributes with their values, if they are to be kept.
    pub xattrs: Vec<(OsString, Vec<u8>)>,
}

impl Metadata {
    /// The time of modification in seconds since 1970 and nanoseconds.
    pub(crate) fn modified_since_1970(&self) -> Option<(i64, i64)> {
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let nanoseconds = |time: Duration| i64::from(time.subsec_nanos());
        Some(match self.modified?.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => (seconds(after), nanoseconds(after)),
            Err(error) => match error.duration() {
                before if before.subsec_nanos() == 0 => (-seconds(before), 0),
                before => (-seconds(before) - 1, 1_000_000_000 - nanoseconds(before)),
            },
        })
    }
}

/// A time in seconds since 1970 and nanoseconds.
pub(crate) fn time((seconds, nanoseconds): (i64, i64)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    time?.checked_add(Duration::from_nanos(nanoseconds.unsigned_abs()))
}

/// An object, a directory or a link that is to be made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewObject<'a> {
    /// Its name.
    pub name: &'a Name,
    /// The metadata of its source. A place keeps of it what it can.
    pub metadata: &'a Metadata,
    /// True if it may replace an entry of the same kind that has the name.
    pub replaces: bool,
    /// True if content is decrypted. Nobody may get more access to it than the metadata gives.
    pub is_plain: bool,
    /// The most bytes that an object can have.
    pub longest: u64,
    /// The version that it replaces, as [`Version`] has it. Otherwise it replaces the one that is there
    /// when it begins.
    pub version: Option<&'a str>,
    /// The time at which its source was last changed, in seconds since 1970 and nanoseconds. A
    /// place that keeps it returns it as [`Entry::source_changed`].
    pub changed: Option<(i64, u32)>,
}

impl<'a> NewObject<'a> {
    /// An object of any length that replaces nothing, with content that is encrypted.
    pub fn new(name: &'a Name, metadata: &'a Metadata) -> NewObject<'a> {
        let (replaces, is_plain, longest) = (false, false, u64::MAX);
        NewObject { name, metadata, replaces, is_plain, longest, version: None, changed: None }
    }
}

/// A version of an object, and what a copy of it under the same name keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// Distinguishes it from all others of this name.
    pub text: String,
    /// [`NewObject::changed`], if the place keeps it.
    pub changed: Option<(i64, u32)>,
}

impl Version {
    /// A version.
    pub fn new(text: String, changed: Option<(i64, u32)>) -> Version {
        Version { text, changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_kept() {
        for pair in [(0, 0), (1, 5), (-1, 0), (-1, 999_999_999), (-7, 1), (1 << 40, 1)] {
            let metadata = Metadata { modified: time(pair), ..Metadata::default() };
            assert_eq!(metadata.modified_since_1970(), Some(pair));
        }
    }
}
