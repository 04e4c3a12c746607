//! Names below a root.

use std::path::{Component, Path, PathBuf};

use evener_core::shown;

/// The name of an entry: a relative path without `.` and `..`, which only the place itself has
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(PathBuf);

impl Name {
    /// Takes a path below the root of the place. A slash at its beginning and `.` are dropped.
    ///
    /// # Errors
    /// When it has no name or leads upwards.
    pub fn new(path: impl AsRef<Path>) -> Result<Name, MalformedPath> {
        path_below_root(path.as_ref()).map(Name)
    }

    /// The name of the place itself, which is a directory if the place has directories.
    pub fn root() -> Name {
        Name(PathBuf::new())
    }

    /// The name of an entry that was found at a path below the root.
    #[doc(hidden)]
    pub fn found(path: PathBuf) -> Name {
        Name(path)
    }

    /// The name as a relative path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A path that can't be below the root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}`: {reason}", shown(path))]
pub struct MalformedPath {
    /// The path as it was given.
    pub path: PathBuf,
    /// The reason, as text.
    pub reason: &'static str,
}

/// Strips from a path what says no more than that it is below the root.
pub fn path_below_root(path: &Path) -> Result<PathBuf, MalformedPath> {
    let refused = |reason| MalformedPath { path: path.to_owned(), reason };
    let mut below = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => return Err(refused(LEADS_OUT)),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if below.as_os_str().is_empty() { Err(refused(NAMES_ROOT)) } else { Ok(below) }
}

/// The reason against `..`.
pub const LEADS_OUT: &str =
    "`..` has no place in a path below the source; write the path without it";
/// The reason against a path without a name.
pub const NAMES_ROOT: &str = "it names the source itself";
