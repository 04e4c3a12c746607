//! Keeps threads out of tokens' libraries when the process ends.
//!
//! At the end of a process libraries destroy their data while other threads go on. A thread that
//! closes a session meanwhile would use destroyed data, and a program that has done its work would
//! end by a signal. So a function that the system calls first lets no call begin any more, and waits
//! for those that have begun. The system calls the function that was registered last first, and a
//! library may register its own functions while it is loaded and while it is initialised. So ours
//! is registered before and after each of these. (A function that a library registers during one of
//! them is called before ours, if the process ends just then.)

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The number of calls in progress.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// True when no call may begin.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The process that has loaded a library. A child has none of its parent's threads, so their calls
/// never end there.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The number of waits at the end. Not a time: while a process is stopped, neither it nor its calls
/// proceed.
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// A call in progress.
pub(crate) struct Call(());

impl Call {
    /// Begins a call, unless the process ends.
    pub(crate) fn begin() -> Option<Call> {
        // In one order with the accesses in `end`, so that one of them sees the other.
        CALLS.fetch_add(1, Ordering::SeqCst);
        let call = Call(());
        (!HAS_ENDED.load(Ordering::SeqCst)).then_some(call)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Records that this process is about to call a library.
pub(crate) fn enter() {
    let process = process::id();
    if PROCESS.swap(process, Ordering::SeqCst) != process {
        CALLS.store(0, Ordering::SeqCst);
    }
}

/// Returns whether the process is ending. A module's calls then fail, which says nothing of the
/// module.
pub fn process_ends() -> bool {
    HAS_ENDED.load(Ordering::SeqCst)
}

/// Called when the process ends. All calls of this function share one waiting time.
pub(crate) extern "C" fn end() {
    HAS_ENDED.store(true, Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) != process::id() {
        return;
    }
    while CALLS.load(Ordering::SeqCst) > 0 {
        let waits = WAITS.fetch_add(1, Ordering::SeqCst);
        if waits >= MOST_WAITS {
            break;
        }
        // Few waits, because each takes longer on a busy machine.
        thread::sleep(Duration::from_millis(1 << waits.min(LONGEST_WAIT)));
    }
}

/// The most waits: a process waits about a second for a library that hangs.
const MOST_WAITS: usize = 21;
/// The binary logarithm of the longest wait in milliseconds.
const LONGEST_WAIT: usize = 6;
