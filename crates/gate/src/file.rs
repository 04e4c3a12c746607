//! A gate's shared file: made whole, checked before use, replaced when it is stale.
//!
//! - A file is made nameless (`O_TMPFILE`), filled in, and then given its name in one step, so no
//!   process sees an incomplete file and a crash leaves nothing.
//! - A process with an open gate holds a shared `flock` on its file; the kernel releases it when
//!   the process ends, however it ends. So an exclusive `flock` proves that the file is not in use,
//!   and a file that is damaged, of another version or shape, or from before a reboot can be
//!   replaced. While other processes use such a file, opening it fails with an error that says what
//!   to do.
//! - A process that only reads a file, or finds that it does not fit, holds no lock on it, so it
//!   never spoils this proof. (A file's shape never changes, and its words stay mapped when it
//!   loses its name.)
//! - Files are removed under the directory's lock only, and only after their inode was compared.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::GateError;
use crate::layout::{Layout, header};
use crate::memory::Memory;
use crate::options::{Discipline, GateOptions};
use crate::sys::Mapping;
use crate::table::Table;

/// A gate's file, open under a shared lock and mapped.
#[derive(Debug)]
pub(crate) struct GateFile {
    pub(crate) table: Table<Mapping>,
    /// Holds the lock. After a fork, parent and child share it, and it lasts until both close it.
    _lock: OwnedFd,
}

impl GateFile {
    /// Opens an engine's gate in the given shape; makes or replaces its file if necessary.
    pub(crate) fn open(
        directory: &Directory,
        engine: &str,
        layout: Layout,
    ) -> Result<GateFile, GateError> {
        let name = Directory::file_name(engine)?;
        let mut turn = None;
        for _ in 0..ATTEMPTS {
            let Some(file) = open_named(directory, engine, &name)? else {
                match create(directory, engine, &name, layout)? {
                    Some(gate) => return Ok(gate),
                    None => continue,
                }
            };
            let stat = check(directory, engine, &name, &file)?;
            let problem = match read(&file, &stat) {
                Ok(table) if table.layout == layout => {
                    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                        // Another process is replacing it.
                        std::thread::sleep(Duration::from_millis(5));
                    } else if directory.still_has(&name, file.as_fd()) {
                        return Ok(GateFile { table, _lock: file });
                    }
                    continue;
                }
                Ok(table) => GateError::Differs {
                    engine: engine.to_owned(),
                    theirs: describe(&table.layout),
                    ours: describe(&layout),
                },
                Err(reason) => GateError::Damaged { path: directory.file_path(&name), reason },
            };
            if turn.is_none() {
                // Processes that want to replace it take the lock in turn and check again: the
                // previous one may have made the right file.
                turn = Some(directory.lock(engine)?);
                continue;
            }
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(problem);
            }
            remove(directory, engine, &name, &file)?;
        }
        Err(system("opening the file", engine)(Errno::TIMEDOUT))
    }

    /// Opens an engine's existing gate, whatever its settings.
    pub(crate) fn find(directory: &Directory, engine: &str) -> Result<Found, GateError> {
        let name = Directory::file_name(engine)?;
        let Some(file) = open_named(directory, engine, &name)? else { return Ok(Found::Nothing) };
        let stat = check(directory, engine, &name, &file)?;
        let reason = match read(&file, &stat) {
            Ok(table) => return Ok(Found::Gate(table)),
            Err(reason) => reason,
        };
        let _turn = directory.lock(engine)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Found::Remains),
            Err(_) => Err(GateError::Damaged { path: directory.file_path(&name), reason }),
        }
    }

    /// Removes an engine's gate, whatever state it is in; processes that wait at it continue at the
    /// new one. Returns whether there was a gate.
    pub(crate) fn reset(directory: &Directory, engine: &str) -> Result<bool, GateError> {
        let name = Directory::file_name(engine)?;
        let old = match open_named(directory, engine, &name) {
            Ok(Some(old)) => old,
            Ok(None) => return Ok(false),
            Err(error) => return remove_own(directory, engine, &name, error),
        };
        let stat = match check(directory, engine, &name, &old) {
            Ok(stat) => stat,
            // The user's own file, in any state.
            Err(error) => match rustix::fs::fstat(&old) {
                Ok(stat) if is_own_file(&stat) => stat,
                _ => return remove_own(directory, engine, &name, error),
            },
        };
        let _turn = directory.lock(engine)?;
        // If another process has reset the gate meanwhile, its new gate stays, because it counts
        // its holders.
        if remove(directory, engine, &name, &old)?
            && let Ok(table) = read(&old, &stat)
        {
            table.retire();
        }
        Ok(true)
    }
}

/// The state of the file under an engine's name.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// A file that is not in use and will be replaced by the next process: it is damaged, of
    /// another version, or its processes have ended.
    Remains,
    Gate(Table<Mapping>),
}

/// Opens the file; `None` if it does not exist.
fn open_named(
    directory: &Directory,
    engine: &str,
    name: &str,
) -> Result<Option<OwnedFd>, GateError> {
    let distrust = |reason: &str| GateError::Untrusted {
        path: directory.file_path(name),
        reason: reason.into(),
    };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(distrust("it is a symbolic link")),
        Err(Errno::ISDIR | Errno::NXIO) => Err(distrust("it is no file")),
        Err(Errno::ACCESS) => Err(distrust("it may not be opened")),
        Err(cause) => Err(system("opening the file", engine)(cause)),
    }
}

/// Checks the owner and mode of an open file.
fn check(
    directory: &Directory,
    engine: &str,
    name: &str,
    file: &OwnedFd,
) -> Result<Stat, GateError> {
    let distrust =
        |reason: String| GateError::Untrusted { path: directory.file_path(name), reason };
    let stat = rustix::fs::fstat(file).map_err(system("reading the file's owner", engine))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(distrust("it is no file".into()));
    }
    match directory.scope.distrusts(&stat, directory.scope.file_mode()) {
        Some(reason) => Err(distrust(reason)),
        None => Ok(stat),
    }
}

/// Makes the file; `None` if another process was faster.
fn create(
    directory: &Directory,
    engine: &str,
    name: &str,
    layout: Layout,
) -> Result<Option<GateFile>, GateError> {
    let mode = directory.scope.file_mode();
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let fail = |cause: Errno| GateError::Directory {
        engine: engine.to_owned(),
        path: directory.file_path(""),
        cause: cause.into(),
    };
    let file = rustix::fs::openat(directory, ".", flags, mode).map_err(fail)?;
    rustix::fs::fchown(&file, None, directory.scope.group())
        .and_then(|()| rustix::fs::fchmod(&file, mode))
        .map_err(system("setting the file's mode", engine))?;
    let length = (layout.words() * size_of::<u64>()) as u64;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length).map_err(fail)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)
        .map_err(system("locking the file", engine))?;
    let memory =
        Mapping::new(file.as_fd(), layout.words()).map_err(system("mapping the file", engine))?;
    let [boot, more_boot] = boot().map_err(unreadable(engine))?;
    let lease = layout.lease.map_or(0, |lease| lease.as_nanos() as u64);
    memory.store(header::VERSION, VERSION);
    memory.store(header::QUEUES, layout.queues as u64);
    memory.store(header::PERMITS, layout.permits as u64);
    memory.store(header::PLACES, layout.places as u64);
    memory.store(header::LEASE, lease);
    memory.store(header::BOOT, boot);
    memory.store(header::BOOT + 1, more_boot);
    memory.store(header::NAMESPACE, namespace().map_err(unreadable(engine))?);
    memory.store(header::MAGIC, MAGIC);
    let nameless = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    match rustix::fs::linkat(CWD, nameless, directory, name, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(Some(GateFile { table: Table { memory, layout }, _lock: file })),
        Err(Errno::EXIST) => Ok(None),
        Err(cause) => Err(system("naming the file", engine)(cause)),
    }
}

/// Maps a file and reads its shape; the error says why this version can't use it.
fn read(file: &OwnedFd, stat: &Stat) -> Result<Table<Mapping>, String> {
    let length = usize::try_from(stat.st_size).unwrap_or(0);
    let words = length / size_of::<u64>();
    if !(header::RELIEVED + 1..=LARGEST).contains(&words) {
        return Err(format!("its length of {length} bytes is wrong"));
    }
    let memory = Mapping::new(file.as_fd(), words).map_err(|cause| cause.to_string())?;
    if memory.load(header::MAGIC) != MAGIC {
        return Err("it is no gate".into());
    }
    let version = memory.load(header::VERSION);
    if version != VERSION {
        return Err(format!("it has version {version}, and this program has {VERSION}"));
    }
    let this_boot = boot().map_err(|cause| cause.to_string())?;
    if [memory.load(header::BOOT), memory.load(header::BOOT + 1)] != this_boot {
        return Err("it is from before the last boot".into());
    }
    if memory.load(header::NAMESPACE) != namespace().map_err(|cause| cause.to_string())? {
        return Err("its processes are in another container (process id namespace)".into());
    }
    let number = |at| usize::try_from(memory.load(at)).unwrap_or(usize::MAX);
    let lease = Some(memory.load(header::LEASE)).filter(|&lease| lease > 0);
    let layout = Layout {
        queues: number(header::QUEUES),
        permits: number(header::PERMITS),
        places: number(header::PLACES),
        lease: lease.map(Duration::from_nanos),
    };
    let sensible = (1..=crate::options::LISTS).contains(&layout.queues)
        && (1..=GateOptions::MAX_PERMITS).contains(&layout.permits)
        && layout.places <= GateOptions::MAX_PLACES
        && layout.places.is_power_of_two();
    if !sensible || layout.words() * size_of::<u64>() != length {
        return Err("its length and its header do not agree".into());
    }
    Ok(Table { memory, layout })
}

/// Removes the name of an open file, unless the name belongs to another file by now; returns
/// whether it did. The directory's lock keeps other processes from removing it in between.
fn remove(
    directory: &Directory,
    engine: &str,
    name: &str,
    file: &OwnedFd,
) -> Result<bool, GateError> {
    if !directory.still_has(name, file.as_fd()) {
        return Ok(false);
    }
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(cause) => Err(system("removing the file", engine)(cause)),
    }
}

/// Removes a file with a gate's name that can't be opened as a gate (`refusal` says why), if the
/// user owns it.
fn remove_own(
    directory: &Directory,
    engine: &str,
    name: &str,
    refusal: GateError,
) -> Result<bool, GateError> {
    let _turn = directory.lock(engine)?;
    let there = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(false),
        Err(cause) => return Err(system("reading the file's owner", engine)(cause)),
    };
    let is_directory = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
    if is_directory || there.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refusal);
    }
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(cause) => Err(system("removing the file", engine)(cause)),
    }
}

fn is_own_file(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn describe(layout: &Layout) -> String {
    let Layout { queues, permits, places, lease } = layout;
    let discipline = Discipline::of(layout);
    let lease = lease.map_or("no lease".into(), |lease| format!("a lease of {lease:?}"));
    format!("{discipline}, {} permits, {} places and {lease}", queues * permits, queues * places)
}

/// A lease as the file stores it: in whole nanoseconds, from 1 up to some 292 years.
pub(crate) fn whole_lease(lease: Duration) -> Duration {
    lease.clamp(Duration::from_nanos(1), Duration::from_nanos(i64::MAX as u64))
}

/// The random id of this boot.
fn boot() -> io::Result<[u64; 2]> {
    let mut text = [0; 37];
    let length = File::open("/proc/sys/kernel/random/boot_id")?.read(&mut text)?;
    let digits = std::str::from_utf8(&text[..length]).unwrap_or_default().trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16)
        .map_err(|_| io::Error::other("/proc/sys/kernel/random/boot_id holds no number"))?;
    Ok([(number >> 64) as u64, number as u64])
}

/// The process id namespace: process ids of another namespace are not valid here.
fn namespace() -> io::Result<u64> {
    let name = fs::read_link("/proc/self/ns/pid")?;
    let digits = name.to_str().and_then(|name| name.strip_prefix("pid:[")?.strip_suffix(']'));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/ns/pid is not as namespaces(7) has it"))
}

fn system(doing: &'static str, engine: &str) -> impl Fn(Errno) -> GateError {
    move |cause| GateError::System { doing, engine: engine.to_owned(), cause: cause.into() }
}

fn unreadable(engine: &str) -> impl Fn(io::Error) -> GateError {
    move |cause| GateError::System { doing: "reading /proc", engine: engine.to_owned(), cause }
}

/// `EVENGATE`.
const MAGIC: u64 = u64::from_be_bytes(*b"EVENGATE");

/// The version of the layout and the algorithm. A process of another version never joins.
const VERSION: u64 = 2;

/// The largest file, in words: 64 MiB.
const LARGEST: usize = 8 << 20;

/// The number of attempts to open the file while other processes replace it.
const ATTEMPTS: usize = 200;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::options::Scope;

    #[test]
    fn a_name_that_is_anothers_by_now_is_not_removed() {
        let parent = std::env::temp_dir().join(format!("evener-gate-file-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let directory = Directory::open("module", Scope::User, Some(Path::new(&parent))).unwrap();
        let layout = Layout { queues: 1, permits: 1, places: 2, lease: None };
        let open = || GateFile::open(&directory, "module", layout).unwrap();
        let _first = open();
        // Two processes reset the gate at once, and another opens the next in between.
        let old = open_named(&directory, "module", "module.gate").unwrap().unwrap();
        assert!(GateFile::reset(&directory, "module").unwrap());
        let _second = open();
        assert!(!remove(&directory, "module", "module.gate", &old).unwrap());
        let new = open_named(&directory, "module", "module.gate").unwrap().unwrap();
        assert!(remove(&directory, "module", "module.gate", &new).unwrap());
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
