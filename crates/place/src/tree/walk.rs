//! The walk through a tree, which every part takes that looks at a whole one: depth first, relative
//! to open directories, of which few are open at a time however deep the tree is. An entry or a
//! directory that can't be examined is a failure of its own, and the walk goes on.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::descent::Way;
use super::directory::{Directory, Made, open_directory};
use crate::entries::any_entry_once;
use crate::identity::Identity;
use crate::location::Location;
use crate::{FileError, Refusal};

/// A part that looks at a tree.
pub(super) trait Visitor {
    /// The action that fails when a directory can't be opened.
    const OPENING: &'static str = "open the directory";

    /// Returns whether the walk is to end here.
    fn is_over(&self) -> bool {
        false
    }

    /// Takes a directory, and may give it a target; false leaves it out.
    fn take(&mut self, _step: &mut Step<'_>) -> Result<bool, FileError> {
        Ok(true)
    }

    /// Looks at an entry; returns whether it is a directory to enter.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError>;

    /// Reads a directory, and adds those to be entered to `below`; the last one is entered first.
    fn read(&mut self, directory: &Arc<Directory>, below: &mut Below) -> Result<(), FileError> {
        read(self, directory, below).map(drop)
    }

    /// Takes the failure of an entry or a directory with this path below the root.
    fn failed(&mut self, _path: PathBuf, _error: FileError) {}
}

/// The directories still to be entered, the next one last.
pub(super) type Below = Vec<Arc<Location>>;

/// A directory that was just opened in another.
pub(super) struct Step<'a> {
    pub(super) above: &'a Directory,
    pub(super) directory: Directory,
    /// True if it is on another file system than the root.
    pub(super) is_elsewhere: bool,
}

/// Looks at each entry of a directory. Returns whether there is none.
pub(super) fn read<V: Visitor + ?Sized>(
    visitor: &mut V,
    directory: &Arc<Directory>,
    below: &mut Below,
) -> Result<bool, FileError> {
    let mut is_empty = true;
    let read = any_entry_once(&directory.source, |name, listed| {
        is_empty = false;
        let entry = Entry { directory, name: OsStr::from_bytes(name.to_bytes()), listed };
        match visitor.entry(&entry) {
            Ok(true) => below.push(Location::below(&directory.location, entry.name)),
            Ok(false) => {}
            Err(error) => visitor.failed(entry.path(), error),
        }
        visitor.is_over()
    });
    read.map(|_| is_empty).map_err(FileError::system("read the directory"))
}

/// An entry of a directory.
pub(super) struct Entry<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) name: &'a OsStr,
    /// The kind that the directory lists, which may be unknown.
    pub(super) listed: FileType,
}

impl Entry<'_> {
    /// Its path below the root of the tree.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path_of(self.name)
    }

    /// The status of the file to which it leads.
    pub(super) fn status(&self) -> Result<Stat, FileError> {
        self.directory.status_of(self.name).map_err(FileError::system("open it"))
    }

    /// The kind of that file, with its status if that was needed.
    pub(super) fn kind(&self) -> Result<(FileType, Option<Stat>), FileError> {
        match self.listed {
            FileType::Symlink if self.directory.follows => {}
            FileType::Unknown => {}
            kind => return Ok((kind, None)),
        }
        let found = self.status()?;
        Ok((FileType::from_raw_mode(found.st_mode), Some(found)))
    }
}

/// A walk, and the path from the root to the directory where it is.
pub(super) struct Walk {
    root: Arc<Directory>,
    waiting: Below,
    way: Way<Arc<Directory>>,
    /// The directories on the path, from the root on, with their targets.
    path: Vec<(Identity, Option<Identity>)>,
    /// The same, in which one is quickly found.
    above: HashSet<Identity>,
}

impl Walk {
    pub(super) fn new(root: impl Into<Arc<Directory>>) -> Walk {
        let root = root.into();
        let waiting = vec![root.location.clone()];
        Walk { root, waiting, way: Way::new(), path: Vec::new(), above: HashSet::new() }
    }

    /// Walks to the end.
    pub(super) fn run(mut self, visitor: &mut impl Visitor) {
        while self.step(visitor) {}
    }

    /// Has the next directory read. Those chosen there come before all others. Returns false at the
    /// end.
    pub(super) fn step(&mut self, visitor: &mut impl Visitor) -> bool {
        let Some(location) = self.waiting.pop() else { return false };
        if visitor.is_over() {
            return false;
        }
        let entered = self.enter(visitor, &location);
        let read = entered.and_then(|directory| match directory {
            Some(directory) => visitor.read(&directory, &mut self.waiting),
            None => Ok(()),
        });
        if let Err(error) = read {
            visitor.failed(location.path(), error);
        }
        true
    }

    /// Opens a directory; `None` if it is left out.
    fn enter<V: Visitor>(
        &mut self,
        visitor: &mut V,
        location: &Arc<Location>,
    ) -> Result<Option<Arc<Directory>>, FileError> {
        for (left, _) in self.path.drain(location.depth()..) {
            self.above.remove(&left);
        }
        let directory = match location.above() {
            None => self.root.clone(),
            Some((above, name)) => {
                let above = self.lead_to(above)?;
                let source = open_directory(above.source.as_fd(), name, above.follows)
                    .map_err(FileError::system(V::OPENING))?;
                let directory = above.below(source, location)?;
                if self.above.contains(&directory.identity()) {
                    return Err(Refusal::LinkUpwards.into());
                }
                let is_elsewhere = directory.status.st_dev != self.root.status.st_dev;
                let mut step = Step { above: &above, directory, is_elsewhere };
                if !visitor.take(&mut step)? {
                    return Ok(None);
                }
                let directory = Arc::new(step.directory);
                self.way.enter(location, directory.clone());
                directory
            }
        };
        self.path.push(directory.identities());
        self.above.insert(directory.identity());
        Ok(Some(directory))
    }

    /// Returns an open directory on the path.
    fn lead_to(&mut self, location: &Arc<Location>) -> Result<Arc<Directory>, FileError> {
        let Walk { root, way, path, .. } = self;
        let opened = way.to(location, |above, location| {
            open_again(above.unwrap_or(root), location, path[location.depth()])
        });
        Ok(opened?.unwrap_or(root).clone())
    }
}

/// Opens a directory on the path again, and its target if it had one.
fn open_again(
    above: &Arc<Directory>,
    location: &Arc<Location>,
    identities: (Identity, Option<Identity>),
) -> Result<Arc<Directory>, FileError> {
    let Some((_, name)) = location.above() else { return Ok(above.clone()) };
    let open = |directory, follows| {
        open_directory(directory, name, follows)
            .map_err(FileError::system("open the directory again"))
    };
    let mut directory = above.below(open(above.source.as_fd(), above.follows)?, location)?;
    if let (Some(made), (_, Some(_))) = (&above.target, identities) {
        directory.target = Some(Arc::new(Made::of(open(made.as_fd(), false)?, false)?));
    }
    match directory.identities() == identities {
        true => Ok(Arc::new(directory)),
        false => Err(Refusal::DirectoryMoved.into()),
    }
}
