//! The program's own `exit`, which the dynamic loader finds before that of the C library.

use std::ffi::c_int;

use evener_program::end;

/// What a module's call of `exit` comes to: no function that it or another library has registered
/// is called, and no destructor, while other threads work inside of these libraries.
// SAFETY: the name is that of the C standard's function, and so is the type: it takes a number and
// does not return. Whoever calls it, the standard library's `std::process::exit` too, expects that the
// process ends, and it does. It calls nothing but `writev` and `_exit`, can't unwind, and needs no lock,
// so that it may be called on any thread in any state.
#[unsafe(no_mangle)]
extern "C" fn exit(_status: c_int) -> ! {
    end::by_others()
}
