//! The file in this process's memory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LINES, Line, MAGIC, take, usual_place};
use crate::config::warn;

/// What this process has: one of the next three, or the address of its line.
static STATE: AtomicUsize = AtomicUsize::new(OFF);

/// Nothing is counted.
const OFF: usize = 0;
/// A line is to be had.
const WANTED: usize = 1;
/// A thread is about to have it.
const OPENING: usize = 2;

/// Where the file is, if that was said.
static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Counts from now on, in this file or in the user's. The first file that is named is the one.
pub(super) fn want(place: Option<PathBuf>) {
    if PLACE.set(place).is_ok() {
        // SAFETY: the handler makes one atomic store, and this library is never unloaded.
        let is_set = unsafe { libc::pthread_atfork(None, None, Some(forget)) } == 0;
        STATE.store(if is_set { WANTED } else { OFF }, Ordering::Release);
    }
}

/// In a child: the line is its parent's.
extern "C" fn forget() {
    if STATE.load(Ordering::Relaxed) != OFF {
        STATE.store(WANTED, Ordering::Relaxed);
    }
}

/// This process's line, if it counts.
#[inline]
pub(super) fn line() -> Option<&'static Line> {
    match STATE.load(Ordering::Acquire) {
        OFF => None,
        WANTED | OPENING => open(),
        // SAFETY: it is the address of a line in a mapping that is never removed.
        address => Some(unsafe { &*ptr::with_exposed_provenance(address) }),
    }
}

#[cold]
fn open() -> Option<&'static Line> {
    let started = STATE.compare_exchange(WANTED, OPENING, Ordering::Acquire, Ordering::Acquire);
    if started.is_err() {
        // Another thread opens it, which takes some system calls.
        while STATE.load(Ordering::Acquire) == OPENING {
            std::thread::yield_now();
        }
        return match STATE.load(Ordering::Acquire) {
            OFF | WANTED | OPENING => None,
            // SAFETY: as in `line`.
            address => Some(unsafe { &*ptr::with_exposed_provenance(address) }),
        };
    }
    // SAFETY: these ask the system for numbers.
    let (user, process) = unsafe { (libc::geteuid(), libc::getpid()) };
    let place = PLACE.get().cloned().flatten();
    let place = place.unwrap_or_else(|| usual_place(user, has_own_directory(user)));
    match map(&place, user) {
        Ok(lines) => {
            let line = take(lines, u64::from(process.cast_unsigned()), program(), lives);
            let address = line.map_or(OFF, |line| ptr::from_ref(line).expose_provenance());
            STATE.store(address, Ordering::Release);
            line
        }
        Err(trouble) => {
            STATE.store(OFF, Ordering::Release);
            warn(&format_args!("{}: nothing is counted: {trouble}", place.display()));
            None
        }
    }
}

/// Whether the system has made a directory for the user.
fn has_own_directory(user: u32) -> bool {
    fs::symlink_metadata(format!("/run/user/{user}"))
        .is_ok_and(|found| found.is_dir() && found.uid() == user)
}

/// Maps the file, which belongs to the user alone.
fn map(place: &Path, user: u32) -> io::Result<&'static [Line]> {
    let size = LINES * size_of::<Line>();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(place)?;
    let found = file.metadata()?;
    let is_own = found.is_file() && found.uid() == user && found.mode() & 0o077 == 0;
    if !is_own || found.nlink() != 1 {
        return Err(io::Error::other("it does not belong to this user alone"));
    }
    if found.len() == 0 {
        file.set_len(size as u64)?;
    } else if found.len() != size as u64 {
        return Err(io::Error::other("it has another length; remove it"));
    }
    let lines = map_lines(&file, size)?;
    let [head, ..] = lines else { return Err(io::Error::other("it is empty")) };
    let old = head.process.compare_exchange(0, MAGIC, Ordering::Relaxed, Ordering::Relaxed);
    if !matches!(old, Ok(_) | Err(MAGIC)) {
        return Err(io::Error::other("it is of another kind; remove it"));
    }
    Ok(lines)
}

fn map_lines(file: &File, size: usize) -> io::Result<&'static [Line]> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the system chooses a place where nothing is. The mapping stays, a page is aligned
    // for lines, which are atomic numbers, so that any bytes are some and others may write too.
    unsafe {
        let start =
            libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(slice::from_raw_parts(start.cast(), LINES))
    }
}

/// Whether there is such a process.
fn lives(process: u64) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: no signal is sent.
    let found = unsafe { libc::kill(process, 0) } == 0;
    found || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// The program's name, as the system has it.
fn program() -> [u64; 2] {
    let mut bytes = [0; 16];
    let name = fs::read("/proc/self/comm").unwrap_or_default();
    for (to, from) in bytes.iter_mut().zip(name.trim_ascii_end()) {
        *to = *from;
    }
    let (front, back) = bytes.split_at(8);
    [front, back].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}
