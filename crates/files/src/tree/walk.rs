//! The walk through the source tree, which feeds the queue and makes what is no file.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use evener_pipeline::Queue;
use rustix::fs::{
    AtFlags, Dir, DirEntry, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat,
    statat, symlinkat,
};
use rustix::io::Errno;

use super::directory::{Directory, Item};
use super::endpoints::{same_file, target_name};
use super::work::{Task, TreeWork};
use super::{Operation, finish::Visited};
use crate::output::{is_temporary_name, sweep, symlink_over};
use crate::{FileError, WRAPPED_KEY_PREFIX, WRAPPED_KEY_SUFFIX};

/// A directory on the way down, with the subdirectories that are yet to be entered.
struct Level {
    directory: Arc<Directory>,
    status: Stat,
    subdirectories: Vec<OsString>,
}

impl TreeWork<'_> {
    /// Walks the tree depth first. Of a directory, first all files are fed, then each
    /// subdirectory is entered; open at a time are the directories on the way down and those
    /// whose files wait in the queue.
    pub(super) fn walk(&self, root: &Arc<Directory>, queue: &Queue<Task>) {
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.enter(root.clone(), queue));
        while let Some(level) = levels.last_mut() {
            if self.is_stopped() {
                queue.stop();
                return;
            }
            let Some(name) = level.subdirectories.pop() else {
                levels.pop();
                continue;
            };
            let parent = level.directory.clone();
            let path = parent.path_of(&name);
            match self.descend(&parent, &name, &levels) {
                Ok(directory) => levels.extend(self.enter(directory, queue)),
                Err(error) => self.record.failed(&path, error),
            }
        }
    }

    /// Opens a subdirectory and makes its counterpart.
    fn descend(
        &self,
        parent: &Directory,
        name: &OsStr,
        above: &[Level],
    ) -> Result<Arc<Directory>, FileError> {
        let source = open_below(parent.source.as_fd(), name, self.options.follow_symlinks)?;
        let status = fstat(&source).map_err(FileError::system("read its status"))?;
        if above.iter().any(|level| same_file(&level.status, &status)) {
            return Err(FileError::Refused(
                "is a symbolic link to a directory that contains it".to_owned(),
            ));
        }
        let target = match &parent.target {
            None => None,
            Some(parent) => Some(make_below(parent.as_fd(), name)?),
        };
        Ok(Arc::new(Directory { source, target, path: parent.path_of(name) }))
    }

    /// Feeds the files of a directory and returns it as a level, or records why it can't be
    /// read.
    fn enter(&self, directory: Arc<Directory>, queue: &Queue<Task>) -> Option<Level> {
        let listed = self.list(&directory, queue);
        if let Err(error) = &listed {
            self.record.failed(&directory.path, error.clone());
        }
        listed.ok()
    }

    fn list(&self, directory: &Arc<Directory>, queue: &Queue<Task>) -> Result<Level, FileError> {
        let system = FileError::system("read the directory");
        let status = fstat(&directory.source).map_err(&system)?;
        self.directories.visited(Visited { path: directory.path.clone(), status });
        if let Some(target) = &directory.target
            && (self.options.resume || self.options.overwrite)
        {
            sweep(target.as_fd()).map_err(FileError::system("remove old temporary files"))?;
        }
        let mut subdirectories = Vec::new();
        let mut files = Vec::with_capacity(BATCH);
        for entry in Dir::read_from(&directory.source).map_err(&system)? {
            let entry = entry.map_err(&system)?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match self.sort(directory, &entry) {
                Ok(Entry::File(item)) => files.push(item),
                Ok(Entry::Directory(name)) => subdirectories.push(name),
                Ok(Entry::Done) => {}
                Err(error) => {
                    let name = OsStr::from_bytes(entry.file_name().to_bytes());
                    self.record.failed(&directory.path_of(name), error);
                }
            }
            if files.len() == BATCH {
                self.feed_files(directory, std::mem::take(&mut files), queue);
                if self.is_stopped() {
                    break;
                }
                files.reserve(BATCH);
            }
        }
        if !files.is_empty() {
            self.feed_files(directory, files, queue);
        }
        Ok(Level { directory: directory.clone(), status, subdirectories })
    }

    fn feed_files(&self, directory: &Arc<Directory>, files: Vec<Item>, queue: &Queue<Task>) {
        self.options.control.found(files.len() as u64, 0);
        self.push(queue, Task::Files { directory: directory.clone(), files });
    }

    /// Decides what to do with an entry, and does it if it is a symbolic link.
    fn sort(&self, directory: &Directory, entry: &DirEntry) -> Result<Entry, FileError> {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let source = directory.source.as_fd();
        let mut kind = entry.file_type();
        let mut status = None;
        if kind == FileType::Unknown || kind == FileType::Symlink && self.options.follow_symlinks {
            let follow = self.options.follow_symlinks;
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            let found = statat(source, name, flags).map_err(FileError::system("open it"))?;
            kind = FileType::from_raw_mode(found.st_mode);
            status = Some(found);
        }
        let path = (!self.options.selection.takes_everything()).then(|| directory.path_of(name));
        let takes_file = |path: &Path| self.options.selection.takes_file(path);
        let takes_directory = |path: &Path| self.options.selection.takes_directory(path);
        match kind {
            FileType::Directory if path.as_deref().is_none_or(takes_directory) => {
                Ok(Entry::Directory(name.to_owned()))
            }
            FileType::RegularFile if path.as_deref().is_none_or(takes_file) => {
                self.sort_file(directory, name, status)
            }
            FileType::Symlink if path.as_deref().is_none_or(takes_file) => {
                self.copy_symlink(directory, entry.file_name())?;
                Ok(Entry::Done)
            }
            FileType::Directory | FileType::RegularFile | FileType::Symlink => Ok(Entry::Done),
            other => {
                self.record.notice(&directory.path_of(name), format!("{} skipped", noun(other)));
                Ok(Entry::Done)
            }
        }
    }

    fn sort_file(
        &self,
        directory: &Directory,
        name: &OsStr,
        status: Option<Stat>,
    ) -> Result<Entry, FileError> {
        if is_temporary_name(name.as_bytes()) {
            self.record.notice(&directory.path_of(name), "unfinished output of evener skipped");
            return Ok(Entry::Done);
        }
        let sealed = self.operation != Operation::Encrypt;
        if sealed && directory.path.as_os_str().is_empty() && is_wrapped_key(name) {
            return Ok(Entry::Done);
        }
        let Some(target) = target_name(self.operation, name, &self.options.suffix) else {
            let suffix = self.options.suffix.to_string_lossy();
            let reason = format!("name does not end in {suffix}, skipped");
            self.record.notice(&directory.path_of(name), reason);
            return Ok(Entry::Done);
        };
        self.refuse_key_name(directory, &target)?;
        if self.options.measure_total {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let status = status.map_or_else(|| statat(&directory.source, name, flags), Ok);
            let status = status.map_err(FileError::system("open it"))?;
            self.options.control.found(0, status.st_size as u64);
        }
        Ok(Entry::File(Item { name: name.to_owned(), target }))
    }

    /// Makes the same symbolic link in the target tree.
    fn copy_symlink(&self, directory: &Directory, name: &CStr) -> Result<(), FileError> {
        let Some(target) = &directory.target else {
            self.directories.count_symlink();
            return Ok(());
        };
        self.refuse_key_name(directory, OsStr::from_bytes(name.to_bytes()))?;
        self.refuse_collision(directory, OsStr::from_bytes(name.to_bytes()))?;
        let text = readlinkat(&directory.source, name, Vec::new())
            .map_err(FileError::system("read the link"))?;
        let mut made = symlinkat(text.as_c_str(), target, name);
        if made == Err(Errno::EXIST) {
            let is_same = readlinkat(target, name, Vec::new()).is_ok_and(|there| there == text);
            if is_same && (self.options.resume || self.options.overwrite) {
                made = Ok(());
            } else if self.options.overwrite {
                made = symlink_over(target.as_fd(), &text, name);
            }
        }
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                return Err(FileError::Exists(name.to_string_lossy().into_owned()));
            }
            Err(errno) => return Err(FileError::System { action: "make the link", errno }),
        }
        if let Ok(status) = statat(&directory.source, name, AtFlags::SYMLINK_NOFOLLOW) {
            crate::metadata::set_link_times(target.as_fd(), name, &status);
        }
        self.directories.count_symlink();
        Ok(())
    }
}

impl TreeWork<'_> {
    /// Refuses what would be taken for, or take the place of, the wrapped key of a sealed tree.
    fn refuse_key_name(&self, directory: &Directory, target: &OsStr) -> Result<(), FileError> {
        let sealing = self.operation == Operation::Encrypt;
        if sealing && directory.path.as_os_str().is_empty() && is_wrapped_key(target) {
            let reason = "its output would have the name of the tree's wrapped key";
            return Err(FileError::Refused(reason.to_owned()));
        }
        Ok(())
    }

    /// Refuses a symbolic link that has the name of the output of a file beside it. Of all names
    /// only those of links and directories stay as they are, and only a link could replace, or
    /// be replaced by, such an output.
    fn refuse_collision(&self, directory: &Directory, name: &OsStr) -> Result<(), FileError> {
        let back = match self.operation {
            Operation::Encrypt => Operation::Decrypt,
            Operation::Decrypt | Operation::Verify => Operation::Encrypt,
        };
        let Some(file) = target_name(back, name, &self.options.suffix) else { return Ok(()) };
        let is_file = statat(&directory.source, &file, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::RegularFile);
        if is_file && self.options.selection.takes_file(&directory.path_of(&file)) {
            let file = file.display();
            return Err(FileError::Refused(format!("has the name of the output of `{file}`")));
        }
        Ok(())
    }
}

/// What to do with a directory's entry.
enum Entry {
    File(Item),
    Directory(OsString),
    Done,
}

/// How many names travel in one task: enough that claiming costs little, few enough that the
/// workers end together.
const BATCH: usize = 32;

/// Whether a name is that of a tree's wrapped key: `evener-key.age`, `evener-key-2.age` …
fn is_wrapped_key(name: &OsStr) -> bool {
    let middle = name.as_bytes().strip_prefix(WRAPPED_KEY_PREFIX.as_bytes());
    let middle = middle.and_then(|rest| rest.strip_suffix(WRAPPED_KEY_SUFFIX.as_bytes()));
    match middle.map(|middle| middle.split_first()) {
        Some(None) => true,
        Some(Some((b'-', number))) => number.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn open_below(
    parent: std::os::fd::BorrowedFd<'_>,
    name: &OsStr,
    follow: bool,
) -> Result<OwnedFd, FileError> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    openat(parent, name, flags, Mode::empty()).map_err(FileError::system("open the directory"))
}

/// Makes (or finds) a directory of the target tree, at first for its owner alone; its own mode
/// comes when everything in it is done.
fn make_below(parent: std::os::fd::BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, FileError> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let status = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(FileError::system("open its output directory"))?;
            let mode = crate::metadata::permissions(&status);
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory
                && !mode.contains(Mode::RWXU)
            {
                // From an earlier run, which has given it its final mode.
                rustix::fs::chmodat(parent, name, mode | Mode::RWXU, AtFlags::empty())
                    .map_err(FileError::system("open its output directory"))?;
            }
        }
        Err(errno) => {
            return Err(FileError::System { action: "make its output directory", errno });
        }
    }
    open_below(parent, name, false)
}

fn noun(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "special file",
    }
}
