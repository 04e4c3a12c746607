//! The directory with the gates of one user or group.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::GateError;
use crate::options::{LONGEST_NAME, Scope};

/// The directory of one user's or group's gates, open and checked.
#[derive(Debug)]
pub(crate) struct Directory {
    file: OwnedFd,
    path: PathBuf,
    pub(crate) scope: Scope,
}

impl Directory {
    /// Opens the directory, and makes it if it does not exist.
    ///
    /// All processes of a user or group must find the same directory, however they were started. So
    /// the places are tried in a fixed order, and the first existing directory that can be trusted
    /// is used; one is made only if none exists. (`XDG_RUNTIME_DIR` is not used, because not every
    /// process has it.)
    pub(crate) fn open(
        engine: &str,
        scope: Scope,
        parent: Option<&Path>,
    ) -> Result<Directory, GateError> {
        let paths = places(scope, parent);
        let (last, others) = paths.split_last().expect("there is a place for each scope");
        for path in &paths {
            if let Ok(Some(directory)) = Directory::open_there(engine, scope, path) {
                return Ok(directory);
            }
        }
        let made = others.iter().find_map(|path| Directory::make(engine, scope, path).ok());
        made.map_or_else(|| Directory::make(engine, scope, last), Ok)
    }

    fn make(engine: &str, scope: Scope, path: &Path) -> Result<Directory, GateError> {
        match rustix::fs::mkdir(path, scope.directory_mode()) {
            // Mode and group are corrected at once; a process that opens it before that tries
            // again.
            Ok(()) => scope.adopt(path).map_err(|cause| {
                // Other processes could not use it.
                let _ = rustix::fs::rmdir(path);
                match scope.group() {
                    Some(group) if cause == Errno::PERM => {
                        GateError::OtherGroup { group: group.as_raw(), path: path.to_owned() }
                    }
                    _ => failed(engine, path)(cause),
                }
            })?,
            Err(Errno::EXIST) => {}
            Err(cause) => return Err(failed(engine, path)(cause)),
        }
        let gone = || failed(engine, path)(Errno::NOENT);
        Directory::open_there(engine, scope, path)?.ok_or_else(gone)
    }

    /// Opens the directory if it exists.
    fn open_there(engine: &str, scope: Scope, path: &Path) -> Result<Option<Directory>, GateError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(cause) => return Err(failed(engine, path)(cause)),
        };
        for attempt in 0.. {
            let stat = rustix::fs::fstat(&file).map_err(failed(engine, path))?;
            match scope.distrusts(&stat, scope.directory_mode()) {
                None => break,
                Some(_) if attempt < 5 && scope != Scope::User => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Some(reason) => {
                    return Err(GateError::Untrusted { path: path.to_owned(), reason });
                }
            }
        }
        Ok(Some(Directory { file, path: path.to_owned(), scope }))
    }

    /// Locks the directory against other processes that remove files, until the lock is dropped.
    pub(crate) fn lock(&self, engine: &str) -> Result<DirectoryLock<'_>, GateError> {
        for _ in 0..LONGEST_WAIT.as_millis() {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(DirectoryLock(&self.file)),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(cause) => return Err(failed(engine, &self.path)(cause)),
            }
        }
        // Its holder was stopped.
        Err(failed(engine, &self.path)(Errno::TIMEDOUT))
    }

    /// A gate's file name: the engine's name, with bytes that are unusual in file names as
    /// `%` and two hexadecimal digits.
    pub(crate) fn file_name(engine: &str) -> Result<String, GateError> {
        if engine.is_empty() || engine.len() > LONGEST_NAME {
            return Err(GateError::Name { engine: engine.to_owned() });
        }
        let mut name = String::new();
        for byte in engine.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
                _ => name.push_str(&format!("%{byte:02x}")),
            }
        }
        Ok(name + SUFFIX)
    }

    /// The engines that have a gate file here, by name.
    pub(crate) fn engines(&self) -> io::Result<Vec<String>> {
        let mut engines = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            engines.extend(entry?.file_name().to_str().and_then(engine_of));
        }
        engines.sort();
        Ok(engines)
    }

    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether the file of this name is still the one that is open as `file`.
    pub(crate) fn still_has(&self, name: &str, file: BorrowedFd<'_>) -> bool {
        let named = rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW);
        let open = rustix::fs::fstat(file);
        named
            .and_then(|named| Ok((named, open?)))
            .is_ok_and(|(named, open)| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino))
    }
}

/// The directories in which the gates of a scope may be, the best first.
fn places(scope: Scope, parent: Option<&Path>) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let name = match scope {
        Scope::User => format!("evener-{user}"),
        Scope::Group(group) => format!("evener-group-{group}"),
    };
    if let Some(parent) = parent {
        return vec![parent.join(name)];
    }
    // In the first directory, other users can't create anything. In /dev/shm any user can make a
    // directory with our name; it is not trusted, but it blocks the name.
    let first = match scope {
        Scope::User if user == 0 => PathBuf::from("/run/evener"),
        Scope::User => PathBuf::from(format!("/run/user/{user}/evener")),
        // Made by root, or for the group by the administrator.
        Scope::Group(group) => PathBuf::from(format!("/run/evener-group-{group}")),
    };
    vec![first, Path::new("/dev/shm").join(name)]
}

fn failed(engine: &str, path: &Path) -> impl Fn(Errno) -> GateError {
    move |cause| match cause {
        Errno::NOTDIR | Errno::LOOP => {
            GateError::Untrusted { path: path.to_owned(), reason: "it is no directory".into() }
        }
        cause => GateError::Directory {
            engine: engine.to_owned(),
            path: if path.exists() { path } else { path.parent().unwrap_or(path) }.to_owned(),
            cause: cause.into(),
        },
    }
}

/// A lock against other processes that remove files in the directory.
#[derive(Debug)]
pub(crate) struct DirectoryLock<'a>(&'a OwnedFd);

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        // If this fails, closing the file unlocks it.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Scope {
    pub(crate) fn directory_mode(self) -> Mode {
        Mode::from_raw_mode(if self == Scope::User { 0o700 } else { 0o770 })
    }

    pub(crate) fn file_mode(self) -> Mode {
        Mode::from_raw_mode(if self == Scope::User { 0o600 } else { 0o660 })
    }

    pub(crate) fn group(self) -> Option<Gid> {
        match self {
            Scope::User => None,
            Scope::Group(group) => Some(Gid::from_raw(group)),
        }
    }

    /// The reason if other users could write to a file or directory that should have this mode.
    pub(crate) fn distrusts(self, stat: &Stat, mode: Mode) -> Option<String> {
        let user = rustix::process::geteuid().as_raw();
        let found = Mode::from_raw_mode(stat.st_mode);
        match self {
            Scope::User if stat.st_uid != user => {
                Some(format!("it belongs to user {}, not {user}", stat.st_uid))
            }
            Scope::Group(group) if stat.st_gid != group => {
                Some(format!("it belongs to group {}, not {group}", stat.st_gid))
            }
            _ if found != mode => {
                Some(format!("its mode is {:o}, not {:o}", found.bits(), mode.bits()))
            }
            _ if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && stat.st_nlink > 1 =>
            {
                Some("it has a second name".into())
            }
            _ => None,
        }
    }

    /// Sets group and mode of a directory that this process made.
    fn adopt(self, path: &Path) -> Result<(), Errno> {
        rustix::fs::chown(path, None, self.group())?;
        rustix::fs::chmod(path, self.directory_mode())
    }
}

/// The engine of a gate's file.
fn engine_of(file_name: &str) -> Option<String> {
    let mut pieces = file_name.strip_suffix(SUFFIX)?.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

const SUFFIX: &str = ".gate";

/// The longest wait for the lock. Removing a file is fast; only a stopped process holds the lock
/// for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_names_make_file_names() {
        for engine in ["openssl", "af_alg:cbc-aes-aesni", "../../etc", "a%b", "møtør", "."] {
            let name = Directory::file_name(engine).unwrap();
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
            assert_eq!(engine_of(&name).as_deref(), Some(engine));
        }
        assert!(Directory::file_name("").is_err());
        assert!(Directory::file_name(&"x".repeat(81)).is_err());
        assert_eq!(engine_of("%zz.gate"), None);
        assert_eq!(engine_of("%c3.gate"), None);
        assert_eq!(engine_of("%.gate"), None);
    }

    #[test]
    fn what_nobody_else_can_make_comes_first() {
        let user = rustix::process::geteuid().as_raw();
        let own = places(Scope::User, None);
        if user == 0 {
            assert_eq!(own[0], Path::new("/run/evener"));
        } else {
            assert_eq!(own[0], PathBuf::from(format!("/run/user/{user}/evener")));
        }
        assert_eq!(own[1], PathBuf::from(format!("/dev/shm/evener-{user}")));
        assert_eq!(places(Scope::Group(7), None)[0], Path::new("/run/evener-group-7"));
    }
}
