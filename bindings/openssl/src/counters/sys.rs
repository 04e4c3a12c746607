//! The file, mapped into this process's memory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LINES, Line, MAGIC, make_room, take, usual_place};
use crate::module;

/// The lines of the file, mapped when the provider was loaded, and the program's name at that time:
/// a process can still count after it has changed its root, its user or its permitted system calls.
static FILE: OnceLock<(&'static [Line], [u64; 2])> = OnceLock::new();

/// The state of this process: one of the next two, or the address of its line.
static STATE: AtomicUsize = AtomicUsize::new(OFF);

/// Nothing is counted.
const OFF: usize = 0;
/// A line is to be taken.
const WANTED: usize = 1;

/// Starts counting in this file, or in the user's. Only the first file that opens is used. The
/// error says which file doesn't open, and why.
pub(super) fn want(place: Option<PathBuf>) -> Result<(), String> {
    if FILE.get().is_some() {
        return Ok(());
    }
    // SAFETY: the call only returns a number.
    let user = unsafe { libc::geteuid() };
    let place = place.unwrap_or_else(|| usual_place(user, has_own_directory(user)));
    let lines = map(&place, user)
        .map_err(|trouble| format!("{}: nothing is counted: {trouble}", place.display()))?;
    make_room(lines, lives);
    if FILE.set((lines, program())).is_ok() {
        // SAFETY: the handlers use atomic numbers and test for processes, and this library is never
        // unloaded.
        let is_set = unsafe { libc::pthread_atfork(Some(prepare), None, Some(forget)) } == 0;
        STATE.store(if is_set { WANTED } else { OFF }, Ordering::Release);
    }
    Ok(())
}

/// Makes room before a fork: the child may not be allowed to test for processes, as sshd's are not.
extern "C" fn prepare() {
    if let Some((lines, _)) = FILE.get() {
        make_room(lines, lives);
    }
}

/// Gives up the line in a child: it is its parent's.
extern "C" fn forget() {
    if STATE.load(Ordering::Relaxed) != OFF {
        STATE.store(WANTED, Ordering::Relaxed);
    }
}

/// This process's line, if the current call is counted.
#[inline]
pub(super) fn line() -> Option<&'static Line> {
    match STATE.load(Ordering::Acquire) {
        OFF => None,
        _ if module::is_calling() => None,
        WANTED => take_line(),
        // SAFETY: it is the address of a line in a mapping that is never removed.
        address => Some(unsafe { &*ptr::with_exposed_provenance(address) }),
    }
}

/// Takes a line for this process.
#[cold]
fn take_line() -> Option<&'static Line> {
    let &(lines, program) = FILE.get()?;
    let line = take(lines, process(), program)?;
    let address = ptr::from_ref(line).expose_provenance();
    match STATE.compare_exchange(WANTED, address, Ordering::AcqRel, Ordering::Acquire) {
        Err(first) if first != address => {
            // Another thread has taken one meanwhile.
            line.process.store(0, Ordering::Relaxed);
            // SAFETY: as in `line`.
            Some(unsafe { &*ptr::with_exposed_provenance(first) })
        }
        _ => Some(line),
    }
}

/// The time in seconds since 1970, as of the system's last tick.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or_default()
}

/// The number of this process.
pub(super) fn process() -> u64 {
    // SAFETY: the call only returns a number.
    u64::from(unsafe { libc::getpid() }.cast_unsigned())
}

/// The number of this process's session.
pub(super) fn session() -> i32 {
    // SAFETY: the call only returns a number.
    unsafe { libc::getsid(0) }
}

/// Opens the user's file of messages for appending, if this process may write files of twice this
/// size.
pub(super) fn open_said(size: usize) -> io::Result<File> {
    check_limit(2 * size)?;
    // SAFETY: the call only returns a number.
    let user = unsafe { libc::geteuid() };
    let place = format!("/dev/shm/evener-tls-{user}.said");
    open_own(OpenOptions::new().append(true), Path::new(&place), user)
}

/// Returns whether the system has made a directory for the user.
fn has_own_directory(user: u32) -> bool {
    fs::symlink_metadata(format!("/run/user/{user}"))
        .is_ok_and(|found| found.is_dir() && found.uid() == user)
}

/// Maps the file, which must belong to the user alone.
fn map(place: &Path, user: u32) -> io::Result<&'static [Line]> {
    let size = LINES * size_of::<Line>();
    let file = open_own(OpenOptions::new().write(true), place, user)?;
    let length = file.metadata()?.len();
    if length == 0 {
        check_limit(size)?;
    } else if length != size as u64 {
        return Err(io::Error::other("it is no file of counters of this version"));
    }
    allocate(&file, size)?;
    let lines = map_lines(&file, size)?;
    let [head, ..] = lines else { return Err(io::Error::other("it is empty")) };
    let old = head.process.compare_exchange(0, MAGIC, Ordering::Relaxed, Ordering::Relaxed);
    if !matches!(old, Ok(_) | Err(MAGIC)) {
        return Err(io::Error::other("it is no file of counters of this version"));
    }
    Ok(lines)
}

/// Opens or creates a file that must belong to the user alone.
fn open_own(options: &mut OpenOptions, place: &Path, user: u32) -> io::Result<File> {
    let file = options
        .read(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(place)
        .map_err(|cause| match cause.raw_os_error() {
            Some(libc::ELOOP) => io::Error::other("it is a symbolic link"),
            _ => cause,
        })?;
    let found = file.metadata()?;
    let is_own = found.is_file() && found.uid() == user && found.mode() & 0o077 == 0;
    if !is_own || found.nlink() != 1 {
        return Err(io::Error::other("it does not belong to this user alone"));
    }
    Ok(file)
}

/// Fails if this process may not write a file of this size: a signal would end it.
fn check_limit(size: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one `rlimit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < size as libc::rlim_t {
        let words = format!("the limit of file sizes is below {size} bytes");
        return Err(io::Error::other(words));
    }
    Ok(())
}

/// Allocates the file to this size, without holes: on a full file system, a signal would end a
/// process that writes to a hole.
fn allocate(file: &File, size: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(size).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the call takes no pointer.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => {
            // A shorter file would be taken for one of another kind.
            if file.metadata()?.len() < size as u64 {
                file.set_len(0)?;
            }
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

fn map_lines(file: &File, size: usize) -> io::Result<&'static [Line]> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the system chooses an unused place. The mapping stays, and a page is aligned for
    // lines. Lines are atomic numbers: all bytes are valid, and other processes may write too.
    unsafe {
        let start =
            libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(slice::from_raw_parts(start.cast(), LINES))
    }
}

/// Returns whether there is such a process.
fn lives(process: u64) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: no signal is sent.
    let found = unsafe { libc::kill(process, 0) } == 0;
    found || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// The program's name, from the system.
fn program() -> [u64; 2] {
    let mut bytes = [0; 16];
    let name = fs::read("/proc/self/comm").unwrap_or_default();
    for (to, from) in bytes.iter_mut().zip(name.trim_ascii_end()) {
        *to = *from;
    }
    let (front, back) = bytes.split_at(8);
    [front, back].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}
