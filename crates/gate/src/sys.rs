//! Shared memory, futexes and the scheduler: the gate's only unsafe code.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

use crate::identity::{Fate, Identity};
use crate::memory::Memory;

/// A file of 64-bit words, shared with every process that maps it.
///
/// Other processes write to it at any time, so its words are accessed only as atomics, and every
/// value is checked before use. The file's space is allocated when it is made, so a full file
/// system is an error then and not a signal later. Only a user who may write to the file could
/// shorten it while it is mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: a mapping is memory that no thread owns; it is reached through atomics only, and
// unmapped when the one `Mapping` that stands for it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out only `&AtomicU64`, which is `Sync`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `count` words of a file, which must be that long.
    pub(crate) fn new(file: BorrowedFd<'_>, count: usize) -> rustix::io::Result<Mapping> {
        let length = count * size_of::<u64>();
        // SAFETY: a null address lets the kernel choose one where nothing is mapped, so no
        // existing memory is touched. The mapping starts at a page, which is aligned for a
        // word, and lives until `drop`.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let words = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapping { words, count })
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` starts a live, readable and writable mapping of `count` words, for as
        // long as `self` lives (`new`, `drop`). Any bit pattern is an `AtomicU64`, and its
        // interior may change at any time.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// The low half of a word: a futex is half a word.
    fn futex(&self, at: usize) -> &AtomicU32 {
        let halves = std::ptr::from_ref(&self.words()[at]).cast::<AtomicU32>();
        let low = usize::from(cfg!(target_endian = "big"));
        // SAFETY: a word has two halves, aligned for `AtomicU32`, and lives as long as `self`.
        // The reference only tells the kernel the address; no code here reads or writes
        // through it, so no two sizes of atomic access meet.
        unsafe { &*halves.add(low) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let length = self.count * size_of::<u64>();
        // SAFETY: `new` mapped exactly this range, nothing else unmaps it, and every reference
        // into it borrows from `self`. It can't fail for a range that is mapped.
        let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), length) };
    }
}

impl Memory for Mapping {
    fn load(&self, at: usize) -> u64 {
        self.words()[at].load(Ordering::SeqCst)
    }

    fn store(&self, at: usize, value: u64) {
        self.words()[at].store(value, Ordering::SeqCst);
    }

    fn note(&self, at: usize, value: u64) {
        self.words()[at].store(value, Ordering::Relaxed);
    }

    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.words()[at].compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn increment(&self, at: usize) {
        self.words()[at].fetch_add(1, Ordering::SeqCst);
    }

    fn sleep(&self, at: usize, seen: u64, limit: Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let slept = futex::wait(self.futex(at), SHARED, seen as u32, Some(&limit));
        slept == Err(rustix::io::Errno::TIMEDOUT)
    }

    fn wake(&self, at: usize) -> bool {
        futex::wake(self.futex(at), SHARED, 1).is_ok_and(|woken| woken > 0)
    }

    fn fate(&self, who: Identity) -> Fate {
        who.fate()
    }

    fn now(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
    }
}

/// Installs a handler for `SIGBUS` that ends this process with a message and status 1. The signal
/// comes if a gate's file is cut short while it is mapped, which every member of the group can do
/// to a gate of [`Scope::Group`](crate::Scope::Group). For programs only: the handler is for the
/// whole process and all of its memory.
pub fn explain_bus_errors() {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask, no restorer.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: `action` is initialised, and its handler is of the type that goes without
    // `SA_SIGINFO` and calls only what a signal handler may call. Nothing is written back.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn on_bus_error(_signal: libc::c_int) {
    // SAFETY: both are async-signal-safe (signal-safety(7)); the message is a constant of its
    // length, and `_exit` does not return to the instruction that failed.
    unsafe {
        libc::write(libc::STDERR_FILENO, CUT_SHORT.as_ptr().cast(), CUT_SHORT.len());
        libc::_exit(1)
    }
}

const CUT_SHORT: &str = "evener: memory that is shared with other processes is gone: a process has \
     cut the file of a gate short (any member can, if a group shares the gate), or memory has \
     failed; no final name has half a file\n";

/// Shared between processes, hence without the private flag.
const SHARED: futex::Flags = futex::Flags::empty();

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn mapping() -> Mapping {
        let file = rustix::fs::memfd_create("words", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        Mapping::new(file.as_fd(), 512).unwrap()
    }

    #[test]
    fn a_bell_wakes_one_sleeper() {
        let mapping = mapping();
        let long = Duration::from_secs(60);
        // Returns at once if the bell has rung since it was read.
        mapping.store(7, 1 << 32 | 5);
        assert!(!mapping.sleep(7, 4, long));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| mapping.sleep(7, 1 << 32 | 5, long));
            mapping.increment(7);
            while !sleeper.is_finished() {
                mapping.wake(7);
            }
            assert!(!sleeper.join().unwrap());
        });
        assert!(!mapping.wake(7));
        assert!(mapping.sleep(7, 6, Duration::from_millis(1)));
    }
}
