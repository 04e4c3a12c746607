//! The standard descriptors: their state before the start of Rust's runtime, which opens closed
//! ones as /dev/null, and the program's own copies of input and output.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, fcntl_getfd};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

/// Returns whether the program was started with its standard output closed (`>&-`).
pub fn stdout_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Makes every write to a closed standard output fail, instead of going to the /dev/null that took
/// its place.
pub(crate) fn refuse_closed_stdout() {
    if stdout_was_closed()
        && let Ok(full) = File::options().write(true).open("/dev/full")
    {
        // If this fails, output is lost as before.
        let _ = dup2_stdout(full);
    }
}

/// Keeps the standard output for the program itself. From here on, output of a module's code goes
/// to standard error instead of into ciphertext, and a module that closes or replaces standard
/// descriptors does not reach this one.
pub fn keep_output() {
    if OUTPUT.get().is_some() {
        return;
    }
    let own = fcntl_dupfd_cloexec(stdout(), FIRST_OWN);
    if let Ok(own) = own
        && dup2_stdout(stderr()).is_ok()
    {
        // Only one thread gets here.
        let _ = OUTPUT.set(File::from(own));
    }
}

/// Keeps the standard input for the program itself, as [`keep_output`] does the output: a module
/// that reads, closes or replaces standard input takes nothing from the source.
pub fn keep_input() {
    if INPUT.get().is_some() || stdin_was_closed() {
        return;
    }
    let own = fcntl_dupfd_cloexec(stdin(), FIRST_OWN);
    if let (Ok(own), Ok(nothing)) = (own, File::open("/dev/null"))
        && dup2_stdin(nothing).is_ok()
    {
        // Only one thread gets here.
        let _ = INPUT.set(File::from(own));
    }
}

/// The current descriptor of the standard input.
pub fn input() -> BorrowedFd<'static> {
    INPUT.get().map_or_else(stdin, |input| input.as_fd())
}

/// The current descriptor of the standard output.
pub fn output() -> BorrowedFd<'static> {
    OUTPUT.get().map_or_else(stdout, |output| output.as_fd())
}

/// A writer to the standard output's current descriptor.
pub fn output_file() -> io::Result<File> {
    Ok(File::from(output().try_clone_to_owned()?))
}

/// Releases the standard input, output and error, so that readers of the output see its end. A
/// signal handler may call this.
pub(crate) fn let_go() {
    let own = [&INPUT, &OUTPUT].into_iter().filter_map(|kept| Some(kept.get()?.as_raw_fd()));
    let Ok(null) = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    for number in (0..=2).chain(own) {
        // SAFETY: the call takes numbers and no pointers. Each number stays an open descriptor, so
        // whatever refers to it keeps working; from here on it reads and writes nothing.
        unsafe { libc::dup2(null.as_raw_fd(), number) };
    }
}

static OUTPUT: OnceLock<File> = OnceLock::new();
static INPUT: OnceLock<File> = OnceLock::new();

/// The lowest number for the program's own descriptors: not a standard one, with some room for
/// others that a careless module closes.
const FIRST_OWN: i32 = 10;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    if fcntl_getfd(stdout()) == Err(Errno::BADF) {
        WAS_CLOSED.store(true, Ordering::Relaxed);
    }
    if fcntl_getfd(stdin()) == Err(Errno::BADF) {
        STDIN_WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}

// SAFETY: the section is an array of pointers to functions that the C library calls in order before
// `main`, with arguments that a function of the C calling convention may ignore; the item is one
// such pointer. `look` makes two system calls and stores to atomics: it needs nothing from the
// runtime, does not allocate and can't unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Returns whether the program was started with its standard input closed (`<&-`), which differs
/// from the end of input.
pub fn stdin_was_closed() -> bool {
    STDIN_WAS_CLOSED.load(Ordering::Relaxed)
}

static STDIN_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
