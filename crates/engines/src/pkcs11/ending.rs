//! No thread is in a token's library when the process ends.
//!
//! At the end of a process libraries destroy what they have, while other threads go on: one that closes
//! a session meanwhile would use what is gone, and end a program that has done its work by a signal.
//! So a function that the system calls first lets no call begin any more, and waits for those that
//! have begun.

use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many calls are going on.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// No call may begin.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The process that has loaded a library. A child has none of its parent's threads, whose calls never
/// end there.
static PROCESS: AtomicU32 = AtomicU32::new(0);

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

/// Has `register` arrange that [`end`] is called before what has been loaded so far is destroyed.
pub(super) fn arrange(register: impl FnOnce()) {
    static ARRANGED: Once = Once::new();
    ARRANGED.call_once(register);
}

/// The process ends.
pub(super) extern "C" fn end() {
    HAS_ENDED.store(true, Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) != process::id() {
        return;
    }
    let begun = Instant::now();
    while CALLS.load(Ordering::SeqCst) > 0 && begun.elapsed() < LONGEST_CALL {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A process waits no longer for a library that hangs.
const LONGEST_CALL: Duration = Duration::from_secs(1);
