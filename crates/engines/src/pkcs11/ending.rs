//! No thread is in a token's library when the process ends.
//!
//! At the end of a process libraries destroy what they have, while other threads go on: one that closes
//! a session meanwhile would use what is gone, and end a program that has done its work by a signal.
//! So a function that the system calls first lets no call begin any more, and waits for those that
//! have begun. The system calls first what was registered last, and a library may register its own
//! functions while it is loaded and while it is initialised. So that function is registered before
//! and after each of these. (What a library registers in the midst of one is called before, if the
//! process ends just then.)

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many calls are going on.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// No call may begin.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The process that has loaded a library. A child has none of its parent's threads, whose calls never
/// end there.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How often the end has waited. Not a time: a process that is stopped meanwhile does nothing, and
/// neither do its calls.
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// A call that goes on.
pub(super) struct Call(());

impl Call {
    /// Begins one, unless the process ends.
    pub(super) fn begin() -> Option<Call> {
        // In one order with what `end` does, so that one of them sees the other.
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

/// Notes that this process is about to call a library.
pub(super) fn enter() {
    let process = process::id();
    if PROCESS.swap(process, Ordering::SeqCst) != process {
        CALLS.store(0, Ordering::SeqCst);
    }
}

/// Whether the process ends. A module's calls fail then, which says nothing of the module.
pub fn process_ends() -> bool {
    HAS_ENDED.load(Ordering::SeqCst)
}

/// The process ends. All calls of this together wait for one time.
pub(super) extern "C" fn end() {
    HAS_ENDED.store(true, Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) != process::id() {
        return;
    }
    while CALLS.load(Ordering::SeqCst) > 0 {
        let waits = WAITS.fetch_add(1, Ordering::SeqCst);
        if waits >= MOST_WAITS {
            break;
        }
        // Few, since on a busy machine each takes longer.
        thread::sleep(Duration::from_millis(1 << waits.min(LONGEST_WAIT)));
    }
}

/// A process waits about a second for a library that hangs.
const MOST_WAITS: usize = 21;
/// The binary logarithm of the longest wait in milliseconds.
const LONGEST_WAIT: usize = 6;
