//! The threads on which the code of modules runs.
//!
//! A library that such code calls may lead back to this one: SoftHSM computes with the OpenSSL of its
//! process, which may have a provider that has a module do its work.

use std::cell::Cell;

thread_local! {
    static IS_FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one that the guard or a probe has started for a module's calls. What
/// is called on it must not wait for a module.
pub fn is_modules_thread() -> bool {
    IS_FOREIGN.get()
}

/// Makes the calling thread such a one, to its end.
pub(crate) fn begin() {
    IS_FOREIGN.set(true);
}
