//! The C library's own end of the process.

use std::ffi::c_int;

/// Has `function` called when something calls C's `exit`.
pub(super) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the declaration is the C standard's. Any function of this type may be passed; its
    // address is kept, and a function lives as long as the program.
    unsafe extern "C" {
        safe fn atexit(function: extern "C" fn()) -> c_int;
    }
    // Refused only where there is no memory; then foreign code is trusted in this.
    let _ = atexit(function);
}
