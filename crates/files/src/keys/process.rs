//! Protects the memory of a process that holds keys.

use rustix::io;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// The result of [`protect_process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Whether the process' memory stays out of the swap.
    pub is_locked: bool,
}

/// Keeps this process' memory, with the keys in it, out of core dumps, from other processes of
/// the same user, and out of the swap where that is allowed. For programs: it holds for the whole
/// process and for good, so a library leaves it to its program. Call it before the first key is
/// read. Processes that are started afterwards may dump core again only up to a limit of 0, and
/// are otherwise as any.
///
/// - A core dump has a limit of 0 (`RLIMIT_CORE`), and the process counts as not dumpable
///   (`PR_SET_DUMPABLE`): without the second, a core dump goes to a program that takes them
///   (`core_pattern` with `|`) in spite of the limit. Debuggers of the same user are kept out too.
///   `/proc/self/fd`, by which outputs get their names on some systems, stays the process' own all the same.
/// - All pages are locked in memory (`mlockall`), those to come when they are first used, if the
///   process may lock as much as it likes: root's, or any with `ulimit -l unlimited`. Keys are in
///   many places, in the buffers of OpenSSL and on stacks too, so to lock some would be no
///   promise; and under a limit, later allocations would fail. Without it, encrypt the swap.
///
/// # Errors
/// When the operating system refuses the first; nobody is known to do so.
pub fn protect_process() -> io::Result<Protection> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Without the right to raise the limit, it stays as it is.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    let is_locked = getrlimit(Resource::Memlock).current.is_none()
        && mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
            .is_ok();
    Ok(Protection { is_locked })
}
