//! A directory tree of this machine, by the code that does local files.

mod nearby;
mod origin;
mod spellings;
mod store;
mod walk;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use evener_core::IgnorePoison;
use rustix::fs::{CWD, Stat, UTIME_OMIT, stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use self::nearby::{Nearby, Use};
use self::spellings::Spellings;
use super::entry::{Metadata, Stamp, time};
use super::{Fault, Name};
use crate::exposure::lies_without_modes;
use crate::identity::{Identity, permissions};
use crate::metadata::{self, Xattr, xattrs};
use crate::naming::{behind_links, no_output_directory, refuse_planted_directory};
use crate::output::Outputs;
use crate::tree::{Made, make_below, open_directory};
use crate::{Control, FileError, Operation, Refusal, SystemError, TreeOptions};
use evener_seal::IntoSystemError;

/// A directory tree of this machine: an [`Origin`](super::Origin), a [`Store`](super::Store) and a
/// [`Tree`](super::Tree).
///
/// As a store it makes the directory if there is none, and directories that a name leads through.
/// An output is complete when it gets its name. No symbolic link below the root is followed, and
/// nothing replaces an entry of another kind. Directories that were there before keep their mode and
/// times, and one that is read-only takes no outputs. The root stays open as long as this value
/// lives.
///
/// As an origin it is [sorted](super::Abilities::sorted), and its entries have
/// [stamps](super::Entry::stamp).
#[derive(Debug)]
pub struct Local {
    path: PathBuf,
    options: TreeOptions,
    /// True if the modes of its files mean something.
    has_modes: bool,
    /// How ciphertext is written, and how plaintext is.
    rules: [Arc<Rules>; 2],
    root: OnceLock<Arc<Made>>,
    open: Mutex<Nearby>,
    /// The directories that were made and are not settled yet.
    made: Mutex<HashMap<PathBuf, Identity>>,
    spellings: Arc<Mutex<Spellings>>,
    /// A directory on each file system that was written to.
    written: Mutex<Vec<Arc<Made>>>,
}

/// How outputs are made.
#[derive(Debug)]
struct Rules {
    metadata: metadata::Metadata,
    /// For outputs that replace nothing, and for those that do.
    outputs: [Outputs; 2],
    /// True if nobody but those whom the mode admits may read it, whatever the file system.
    is_guarded: bool,
    leaves_holes: bool,
    /// True if an output is synced before it replaces another.
    syncs: bool,
    /// The modes of files and directories whose sources show none.
    usual_modes: (u32, u32),
    /// A status with the owner that new files get.
    own_status: OnceLock<Stat>,
}

impl Local {
    /// The tree at a path, which may be a symbolic link. Of the options, these count:
    /// [`owner`](TreeOptions::owner) and [`xattrs`](TreeOptions::xattrs), without which an output is not
    /// made; [`sparse`](TreeOptions::sparse), [`insecure_modes`](TreeOptions::insecure_modes),
    /// [`one_file_system`](TreeOptions::one_file_system) and [`protected`](TreeOptions::protected). With
    /// [`durable`](TreeOptions::durable), an output is on stable storage before it replaces another.
    pub fn new(path: impl Into<PathBuf>, options: &TreeOptions) -> Local {
        let path = path.into();
        Local {
            has_modes: options.insecure_modes || !lies_without_modes(&path),
            rules: [Operation::Encrypt, Operation::Decrypt]
                .map(|operation| Arc::new(Rules::of(operation, options))),
            options: options.clone(),
            path,
            root: OnceLock::new(),
            open: Mutex::default(),
            made: Mutex::default(),
            spellings: Arc::default(),
            written: Mutex::default(),
        }
    }

    fn spellings(&self) -> MutexGuard<'_, Spellings> {
        self.spellings.lock().ignore_poison()
    }

    fn rules(&self, is_plain: bool) -> &Arc<Rules> {
        &self.rules[usize::from(is_plain)]
    }

    /// The root, which is made if there are rules for that.
    fn root(&self, rules: Option<&Rules>) -> Result<&Arc<Made>, FileError> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let made = match rules {
            None => Made::of(open_root(&self.path)?, false)?,
            Some(rules) => {
                self.make_root(&rules.status_of_directory(&Metadata::default())?, rules)?
            }
        };
        Ok(self.root.get_or_init(|| Arc::new(made)))
    }

    /// Makes or finds the root, the counterpart of a directory with the status `source`.
    fn make_root(&self, source: &Stat, rules: &Rules) -> Result<Made, FileError> {
        let path = behind_links(&self.path)?;
        let made = match path.file_name() {
            None => Made::of(open_root(&path)?, false)?,
            Some(name) => {
                let above = path.parent().filter(|above| !above.as_os_str().is_empty());
                let above = Made::of(open_root(above.unwrap_or(Path::new(".")))?, false)?;
                rules.make_directory(&above, name, source)?
            }
        };
        refuse_planted_directory(made.as_fd(), &path)?;
        Ok(made)
    }

    /// The directory that a name is in, and its last part. Directories on the way are made if there
    /// are rules for that.
    fn parent<'n>(
        &self,
        name: &'n Name,
        rules: Option<&Rules>,
        by: Use,
    ) -> Result<(Arc<Made>, &'n OsStr), FileError> {
        let path = name.path();
        let file = path.file_name().ok_or_else(|| Fault::Refused(NO_NAME.to_owned()))?;
        Ok((self.directory(path.parent().unwrap_or(Path::new("")), rules, by)?, file))
    }

    fn directory(
        &self,
        path: &Path,
        rules: Option<&Rules>,
        by: Use,
    ) -> Result<Arc<Made>, FileError> {
        let root = self.root(rules)?;
        let nearest = self.open.lock().ignore_poison().last_on_way(path, by);
        let (above, mut at) = nearest.unwrap_or_else(|| (Path::new(""), root.clone()));
        if above.as_os_str() != path.as_os_str() {
            at = self.walk_down(above, at, path, rules, by)?;
        }
        if rules.is_some() {
            self.note_written(&at);
        }
        Ok(at)
    }

    /// Opens or makes the directories from an open one, `above`, down to a path.
    fn walk_down(
        &self,
        above: &Path,
        mut at: Arc<Made>,
        path: &Path,
        rules: Option<&Rules>,
        by: Use,
    ) -> Result<Arc<Made>, FileError> {
        let (mut below, way) = (above.to_owned(), path.strip_prefix(above).unwrap_or(path));
        let mut left = way.iter().count();
        for name in way {
            below.push(name);
            at = Arc::new(self.step(&at, name, &below, rules)?);
            left -= 1;
            self.open.lock().ignore_poison().keep(&below, &at, left, by);
        }
        Ok(at)
    }

    /// Opens or makes a directory in another.
    fn step(
        &self,
        above: &Made,
        name: &OsStr,
        path: &Path,
        rules: Option<&Rules>,
    ) -> Result<Made, FileError> {
        let mut opened = match (open_directory(above.as_fd(), name, false), rules) {
            (Ok(opened), _) => Made::of(opened, false)?,
            (Err(Errno::NOENT), Some(rules)) => {
                let source = rules.status_of_directory(&Metadata::default())?;
                rules.make_directory(above, name, &source)?
            }
            (Err(errno), Some(_)) => return Err(no_output_directory(above.as_fd(), name, errno)),
            (Err(errno), None) => return Err(FileError::system(OPEN_DIRECTORY)(errno)),
        };
        let made = self.made.lock().ignore_poison().get(path).copied();
        opened.is_new |= made.is_some();
        match made.is_none_or(|made| made == opened.identity) {
            true => Ok(opened),
            false => Err(Refusal::DirectoryMoved.into()),
        }
    }

    fn note_written(&self, directory: &Arc<Made>) {
        let mut written = self.written.lock().ignore_poison();
        if !written.iter().any(|other| other.identity.is_beside(directory.identity)) {
            written.push(directory.clone());
        }
    }

    /// The metadata of an open file, or without its extended attributes of one that is not open.
    fn metadata(&self, status: &Stat, open: Option<BorrowedFd<'_>>) -> Result<Metadata, FileError> {
        let open = open.filter(|_| self.options.xattrs);
        let keeps = |name: &[u8]| self.rules(false).metadata.gives_xattr(name);
        #[allow(
            clippy::unnecessary_cast,
            reason = "the fields' types differ between architectures"
        )]
        let modified = (status.st_mtime as i64, status.st_mtime_nsec as i64);
        Ok(Metadata {
            mode: self.has_modes.then(|| permissions(status).bits()),
            modified: time(modified),
            owner: Some((status.st_uid, status.st_gid)),
            xattrs: open.map_or(Ok(Vec::new()), |open| xattrs(open, keeps))?,
        })
    }
}

impl Rules {
    fn of(operation: Operation, options: &TreeOptions) -> Rules {
        let is_plain = operation == Operation::Decrypt;
        let mut metadata = metadata::Metadata::of(operation, Path::new("/"), options);
        // An origin without modes says so itself. Properties that were asked for are kept, or
        // nothing is stored.
        (metadata.is_private, metadata.may_lack) = (false, false);
        let masked = |mode| if is_plain { mode & 0o700 } else { mode & !metadata.umask };
        Rules {
            usual_modes: (masked(0o666), masked(0o777)),
            outputs: [false, true].map(|replaces| {
                let control = Control::default();
                Outputs::new(operation, replaces, true, &options.protected, &control)
            }),
            is_guarded: is_plain && !options.insecure_modes,
            leaves_holes: is_plain && options.sparse,
            syncs: options.durable,
            own_status: OnceLock::new(),
            metadata,
        }
    }

    fn outputs(&self, replaces: bool) -> &Outputs {
        &self.outputs[usize::from(replaces)]
    }

    /// Makes or finds a directory in another, for a source with this status.
    fn make_directory(&self, above: &Made, name: &OsStr, source: &Stat) -> Result<Made, FileError> {
        let mut made = make_below(above, name, source, &self.metadata)?;
        made.settle(above.inherited, source, &self.metadata)?;
        Ok(made)
    }

    /// The extended attributes of a source that an output gets.
    fn xattrs(&self, source: &Metadata) -> Vec<Xattr> {
        let is_given = |(name, _): &&Xattr| self.metadata.gives_xattr(name.as_bytes());
        source.xattrs.iter().filter(is_given).cloned().collect()
    }

    fn status_of_file(&self, metadata: &Metadata) -> Result<Stat, FileError> {
        self.status(metadata, self.usual_modes.0)
    }

    fn status_of_directory(&self, metadata: &Metadata) -> Result<Stat, FileError> {
        self.status(metadata, self.usual_modes.1)
    }

    /// A status that has the metadata of an entry. Times that it lacks are those that nobody sets.
    #[allow(clippy::useless_conversion, reason = "the types differ between architectures")]
    fn status(&self, metadata: &Metadata, usual_mode: u32) -> Result<Stat, FileError> {
        let mut status = match self.own_status.get() {
            Some(status) => *status,
            None => {
                let mut status = stat("/").map_err(FileError::system("read a status"))?;
                (status.st_uid, status.st_gid) = (geteuid().as_raw(), getegid().as_raw());
                *self.own_status.get_or_init(|| status)
            }
        };
        status.st_mode = metadata.mode.unwrap_or(usual_mode) & 0o7777;
        if let Some(owner) = metadata.owner {
            (status.st_uid, status.st_gid) = owner;
        }
        let (seconds, nanoseconds) =
            metadata.modified_since_1970().unwrap_or((0, UTIME_OMIT.into()));
        (status.st_mtime, status.st_mtime_nsec) = (seconds as _, nanoseconds as _);
        // Some file systems in user space set neither time if one is omitted.
        let now = metadata.modified.and_then(|_| SystemTime::now().duration_since(UNIX_EPOCH).ok());
        let (seconds, nanoseconds) = now
            .map_or((0, UTIME_OMIT.into()), |now| (now.as_secs(), i64::from(now.subsec_nanos())));
        (status.st_atime, status.st_atime_nsec) = (seconds as _, nanoseconds as _);
        Ok(status)
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, FileError> {
    open_directory(CWD, path.as_os_str(), true).map_err(FileError::system(OPEN_DIRECTORY))
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn stamp(status: &Stat) -> Stamp {
    Stamp {
        device: status.st_dev as u64,
        inode: status.st_ino as u64,
        changed: (status.st_ctime as i64, status.st_ctime_nsec as u32),
    }
}

/// A fault of the entry with a name.
fn fault(error: FileError, name: &Name) -> Fault {
    match error {
        FileError::Place(fault) => fault,
        FileError::Changed => Fault::Changed,
        FileError::Exists(_) | FileError::Taken(_) => Fault::Exists(name.clone()),
        FileError::System { errno, .. } if is_any(&errno, &FULL) => {
            Fault::Closed(error.to_string())
        }
        FileError::System { .. } => Fault::Failed(error.to_string()),
        error => Fault::Refused(error.to_string()),
    }
}

/// As [`fault`], for a file that is being written. Its directory may not be writable.
fn fault_of_output(error: FileError, name: &Name) -> Fault {
    match &error {
        FileError::System { errno, .. } if is_any(errno, &[Errno::ACCESS, Errno::PERM]) => {
            Fault::Closed(error.to_string())
        }
        _ => fault(error, name),
    }
}

fn is_any(errno: &SystemError, of: &[Errno]) -> bool {
    of.iter().any(|it| errno.is(*it))
}

/// Returns whether nothing has a name, because a directory on the way is missing.
fn leads_nowhere(error: &FileError) -> bool {
    let nowhere = [Errno::NOENT, Errno::NOTDIR].map(Errno::system);
    matches!(error, FileError::System { errno, .. } if nowhere.contains(errno))
}

/// Returns whether a link has taken the place of a file.
fn is_link(error: &FileError) -> bool {
    matches!(error, FileError::System { errno, .. } if errno.is(Errno::LOOP))
}

/// The errors of a full or read-only file system.
const FULL: [Errno; 3] = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS];

const OPEN_DIRECTORY: &str = "open the directory";
const READ_DIRECTORY: &str = "read the directory";
const NO_NAME: &str = "only a directory can have the name of the place itself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_of_an_output_are_set_or_none() {
        let rules = Rules::of(Operation::Decrypt, &TreeOptions::default());
        for modified in [Some(UNIX_EPOCH), None] {
            let metadata = Metadata { modified, ..Metadata::default() };
            let status = rules.status_of_file(&metadata).unwrap();
            let omitted = [status.st_atime_nsec, status.st_mtime_nsec]
                .map(|time| i128::from(time) == i128::from(UTIME_OMIT));
            assert_eq!(omitted, [modified.is_none(); 2]);
        }
    }
}
