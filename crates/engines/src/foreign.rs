//! The threads on which the code of modules runs.
//!
//! Such code may call a library that leads back to this one: SoftHSM computes with the OpenSSL of
//! its process, which may have a provider that passes its work to a module.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use crate::ending::process_ends;

thread_local! {
    static IS_FOREIGN: Foreign = const { Foreign(Cell::new(false)) };
}

/// Marks a module's thread. When the thread ends, libraries free what they hold for it. At the end
/// of the process the libraries are destroyed at the same time, so the thread stays.
struct Foreign(Cell<bool>);

impl Drop for Foreign {
    fn drop(&mut self) {
        while self.0.get() && process_ends() {
            thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Returns whether the guard or a probe started the calling thread for a module's calls. Code on
/// such a thread must not wait for a module.
pub fn is_modules_thread() -> bool {
    IS_FOREIGN.try_with(|foreign| foreign.0.get()).unwrap_or(true)
}

/// Marks the calling thread as a module's, until it ends.
pub(crate) fn begin() {
    IS_FOREIGN.with(|foreign| foreign.0.set(true));
}
