//! Forked processes and words that they share, for tests and benchmarks.
#![allow(dead_code, reason = "each program uses its part")]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::futex;

/// A forked process, killed and waited for on drop.
pub(crate) struct Child(Option<Pid>);

/// Runs `life` in a forked process, which then exits.
pub(crate) fn fork(life: impl FnOnce()) -> Child {
    // SAFETY: the programs that use this have one thread, so the child is a full copy in which
    // no lock is left held by a thread that is not there, and may run any code.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "fork: {}", std::io::Error::last_os_error());
    if id == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
        // SAFETY: `_exit` ends the process without running its parent's exit handlers.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    Child(Pid::from_raw(id))
}

impl Child {
    pub(crate) fn id(&self) -> u32 {
        self.0.map_or(0, |id| id.as_raw_nonzero().get().cast_unsigned())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.0 {
            rustix::process::kill_process(id, signal).expect("a child that is not waited for");
        }
    }

    /// Waits for the end; returns whether the process ended well.
    pub(crate) fn wait(mut self) -> bool {
        let ended = rustix::process::waitpid(self.0.take(), WaitOptions::empty());
        ended.expect("a child").is_some_and(|(_, status)| status.exit_status() == Some(0))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(id) = self.0.take() {
            let _ = rustix::process::kill_process(id, Signal::KILL);
            let _ = rustix::process::waitpid(Some(id), WaitOptions::empty());
        }
    }
}

/// Words that this process and those it forks share for good, all 0 at first.
pub(crate) fn shared_words(count: usize) -> &'static [AtomicU64] {
    let (read_write, shared) =
        (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), count * 8, read_write, shared) }
            .expect("shared memory");
    // SAFETY: the mapping has `count` words, zeroed and aligned to a page, and is never
    // unmapped; atomics may change under a shared reference.
    unsafe { std::slice::from_raw_parts(start.cast(), count) }
}

/// The value of a word as a futex.
pub(crate) fn bell(words: &[AtomicU64], at: usize) -> u32 {
    words[at].load(SeqCst) as u32
}

/// Sleeps until the bell rings.
pub(crate) fn wait_for_bell(words: &[AtomicU64], at: usize, seen: u32) {
    while bell(words, at) == seen {
        let _ = futex::wait(low_half(&words[at]), futex::Flags::empty(), seen, None);
    }
}

/// Wakes the threads that sleep on this word.
pub(crate) fn ring(words: &[AtomicU64], at: usize) {
    words[at].fetch_add(1, SeqCst);
    futex::wake(low_half(&words[at]), futex::Flags::empty(), 1).expect("a futex");
}

fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: both halves are in the word and are aligned; only the kernel uses the reference.
    unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
}
