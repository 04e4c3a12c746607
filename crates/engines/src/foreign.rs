//! The threads on which the code of modules runs.
//!
//! A library that such code calls may lead back to this one: SoftHSM computes with the OpenSSL of its
//! process, which may have a provider that has a module do its work.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use crate::pkcs11::process_ends;

thread_local! {
    static IS_FOREIGN: Foreign = const { Foreign(Cell::new(false)) };
}

/// Whether a thread is a module's. When it ends, libraries free what they have for the thread; at the end
/// of the process they are destroyed meanwhile, so the thread stays then.
struct Foreign(Cell<bool>);

impl Drop for Foreign {
    fn drop(&mut self) {
        while self.0.get() && process_ends() {
            thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Whether the calling thread is one that the guard or a probe has started for a module's calls. What
/// is called on it must not wait for a module.
pub fn is_modules_thread() -> bool {
    IS_FOREIGN.try_with(|foreign| foreign.0.get()).unwrap_or(true)
}

/// Makes the calling thread such a one, to its end.
pub(crate) fn begin() {
    IS_FOREIGN.with(|foreign| foreign.0.set(true));
}
